rb_unit(profile core base proc profile)
