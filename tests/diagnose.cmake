rb_unit(diagnose core base diagnose)
