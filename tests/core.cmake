rb_unit(core core)
rb_unit(base core base)
rb_unit(opt core base cmd)
