rb_cli(environment)
