rb_unit(proc core proc)
rb_unit(proc_stop core proc)
rb_unit(proc_kill core proc)
