rb_unit(stats core base measure)
