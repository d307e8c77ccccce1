# None of these runs the program, so a sanitizer has nothing to see in them.
if(NOT RB_SANITIZE)
  rb_cli(deps)
  rb_cli(docs)
  rb_cli(examples)
  rb_cli(projects)
  # the programs that keep an answer in /tmp and /dev/shm have one name for it
  set_tests_properties(cli.projects PROPERTIES RESOURCE_LOCK cheats)
endif()
