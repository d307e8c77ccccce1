rb_unit(fom core base proc measure)
rb_unit(disturb core base measure)
rb_unit(bench core base proc measure)
rb_unit(compare core base proc measure)
