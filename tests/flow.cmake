rb_unit(flow_state core base flow)
rb_unit(flow_tunable core base build ckpt diagnose ledger measure profile proc report session flow)
rb_cli(optimize)
rb_cli(optimize_errors)
rb_cli(optimize_kill)
rb_cli(tunable)
# what is kept here is told from noise by its time: nothing else may run beside it
set_tests_properties(cli.optimize PROPERTIES RUN_SERIAL ON)
set_tests_properties(cli.optimize_kill PROPERTIES TIMEOUT 900)
# the same chain with fifty random kills
add_test(NAME soak.optimize_kill COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/cli/optimize_kill.sh)
set_tests_properties(soak.optimize_kill PROPERTIES LABELS soak SKIP_RETURN_CODE 77 TIMEOUT 3600
  ENVIRONMENT "KILLS=50;RB_BIN=$<TARGET_FILE:rocbudai>;RB_SOURCE=${CMAKE_SOURCE_DIR};RB_BUILD=${CMAKE_BINARY_DIR}")
