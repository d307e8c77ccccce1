rb_unit(stats core base measure)
rb_unit(accept core base measure)
# The simulations: briefly on every run, and at length, with the tables of docs/measuring.md, as soaks.
foreach(sim stats_sim accept_sim)
  rb_unit(${sim} core base measure)
  add_test(NAME soak.${sim} COMMAND test_${sim} --full)
  set_tests_properties(soak.${sim} PROPERTIES LABELS soak TIMEOUT 1800)
endforeach()
