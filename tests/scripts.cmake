rb_cli(deps)
