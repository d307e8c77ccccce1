rb_unit(session core base session)
