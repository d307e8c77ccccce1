rb_cli(cheats)
# the programs that keep an answer in /tmp and /dev/shm have one name for it; two cores are measured
set_tests_properties(cli.cheats PROPERTIES RESOURCE_LOCK cheats TIMEOUT 900)
if(RB_SANITIZE)
  set_property(TEST cli.cheats APPEND PROPERTY ENVIRONMENT RB_SHORT=1)
endif()
