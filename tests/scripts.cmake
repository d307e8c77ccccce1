rb_cli(deps)
rb_cli(examples)
