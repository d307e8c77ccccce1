rb_unit(build core base proc interpose build)
rb_unit(build_run core base proc build)
rb_unit(build_tools core base proc build)
rb_unit(build_deliver core base proc build)
