rb_unit(output core base measure)
