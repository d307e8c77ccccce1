rb_unit(fom core base proc measure)
rb_unit(disturb core base measure)
