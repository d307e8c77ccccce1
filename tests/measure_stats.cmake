rb_unit(stats core base measure)
rb_unit(accept core base measure)
