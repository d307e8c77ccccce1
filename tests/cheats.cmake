rb_cli(cheats)
# which guard sees a cheat is told by times: nothing else may run beside it
set_tests_properties(cli.cheats PROPERTIES RUN_SERIAL ON TIMEOUT 900)
if(RB_SANITIZE)
  set_property(TEST cli.cheats APPEND PROPERTY ENVIRONMENT RB_SHORT=1)
endif()
