rb_unit(diagnose core base profile diagnose)
