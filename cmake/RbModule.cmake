add_library(rb_flags INTERFACE)
target_compile_definitions(rb_flags INTERFACE _GNU_SOURCE)
target_compile_options(rb_flags INTERFACE -Wall -Wextra -Wshadow -Wformat=2 -Wvla -Wundef
  -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith
  -Wwrite-strings -Wcast-qual -Wimplicit-fallthrough -Wswitch-enum
  -fno-common $<$<C_COMPILER_ID:GNU>:-Wdouble-promotion> $<$<BOOL:${RB_WERROR}>:-Werror>)
if(RB_SANITIZE)
  target_compile_options(rb_flags INTERFACE -fsanitize=${RB_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(rb_flags INTERFACE -fsanitize=${RB_SANITIZE})
endif()
if(RB_LIBFUZZER)
  target_compile_options(rb_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# rb_module(NAME x SRCS a.c b.c DEPS core PRIV PkgConfig::X)
# #include "x/..." resolves only for targets that list x in DEPS themselves: DEPS are PRIVATE, so a
# dependency of a dependency is linked but its headers are not visible.
function(rb_module)
  cmake_parse_arguments(M "" "NAME" "SRCS;DEPS;PRIV" ${ARGN})
  set(inc ${CMAKE_BINARY_DIR}/inc/${M_NAME})
  file(MAKE_DIRECTORY ${inc})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${inc}/${M_NAME} SYMBOLIC)
  add_library(${M_NAME} STATIC ${M_SRCS})
  target_include_directories(${M_NAME} PUBLIC ${inc})
  target_link_libraries(${M_NAME} PUBLIC rb_flags PRIVATE ${M_DEPS} ${M_PRIV})
  set_property(GLOBAL APPEND PROPERTY RB_MODULES ${M_NAME})
endfunction()
