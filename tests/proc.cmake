rb_unit(proc core proc)
