# weft_test, weft_model_test, weft_chaos_tests, weft_command_test, weft_test_program: how a test
# comes into the build.
#
# Labels say what a test is: unit (the default), model, sim, stress, arch, tidy, install. They also
# say where it runs: `long` only in `make test-long`, `no-asan`, `no-tsan` and so on everywhere but
# in the preset named, which does not even build it; `wide` only where WEFT_TEST_WIDE is on.

include(GoogleTest)

set(WEFT_PRESET "" CACHE STRING "The preset's name, for labels no-<preset>")
set(WEFT_TEST_LABELS "" CACHE STRING "Build only tests with one of these labels (empty: all)")
option(WEFT_TEST_WIDE "Build tests of label wide, too" ON)
set(WEFT_TEST_TIME_SCALE 1 CACHE STRING "Factor on every test's time limit")
set(WEFT_TEST_ENVIRONMENT "" CACHE STRING "NAME=value pairs for every test")
set(WEFT_TEST_DEBUG_INFO -g1 CACHE STRING "Debug information of tests, for Debug builds")
set(WEFT_MODEL_BUDGET quick CACHE STRING "How far models are explored: quick or long")
set_property(CACHE WEFT_MODEL_BUDGET PROPERTY STRINGS quick long)

# Debian ships GoogleTest built for the host and as source; a cross build needs the source.
if(CMAKE_CROSSCOMPILING)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  foreach(library gtest gmock)
    target_compile_options(${library} PRIVATE -w)
  endforeach()
else()
  find_package(GTest REQUIRED)
endif()

# As weft_compile_options, for tests: lines for backtraces, but no types and variables, which take a
# quarter of the time that most tests take to compile. To debug one: -D WEFT_TEST_DEBUG_INFO=-g
function(weft_test_compile_options target)
  weft_compile_options(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:${WEFT_TEST_DEBUG_INFO}>)
endfunction()

# Sets `result` to whether this build wants a test with the given labels.
function(weft_wants_labels result)
  set(wanted TRUE)
  if(WEFT_TEST_LABELS)
    set(wanted FALSE)
    foreach(label IN LISTS ARGN)
      if(label IN_LIST WEFT_TEST_LABELS)
        set(wanted TRUE)
      endif()
    endforeach()
  endif()
  if("no-${WEFT_PRESET}" IN_LIST ARGN OR ("wide" IN_LIST ARGN AND NOT WEFT_TEST_WIDE))
    set(wanted FALSE)
  endif()
  set(${result} ${wanted} PARENT_SCOPE)
endfunction()

# Sets `environment` and `ctest_limit` for a test with the given limit in seconds (default: 60).
macro(weft_test_limits)
  set(limit 60)
  if(${ARGC})
    set(limit ${ARGV0})
  endif()
  # The watchdog in a test's main() comes first; ctest's own limit is for a test that stopped it.
  math(EXPR ctest_limit "${limit} * ${WEFT_TEST_TIME_SCALE} + 30")
  set(environment
    WEFT_TEST_LIMIT=${limit}
    WEFT_TEST_TIME_SCALE=${WEFT_TEST_TIME_SCALE}
    WEFT_MODEL_BUDGET=${WEFT_MODEL_BUDGET}
    ${WEFT_TEST_ENVIRONMENT})
endmacro()

# Registers each TEST of `target` with ctest as <target>.<suite>.<test>, in a process of its own.
# Needs `arg_LABELS`, `arg_TIMEOUT`, `arg_ENVIRONMENT` and `arg_SERIAL` of the caller.
function(weft_register_gtest target)
  weft_test_limits(${arg_TIMEOUT})

  gtest_discover_tests(${target}
    TEST_PREFIX ${target}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)

  # gtest_discover_tests flattens properties that are lists, so they are set in a file of our own,
  # which ctest reads after the one with the tests.
  set(properties_file ${CMAKE_CURRENT_BINARY_DIR}/${target}_properties.cmake)
  file(WRITE ${properties_file} "\
if(${target}_TESTS)
  set_tests_properties(\${${target}_TESTS} PROPERTIES
    LABELS [==[${arg_LABELS}]==]
    ENVIRONMENT [==[${environment};${arg_ENVIRONMENT}]==]
    TIMEOUT ${ctest_limit}
    RUN_SERIAL ${arg_SERIAL})
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties_file})
endfunction()

# weft_test_program(<name> SOURCES ... [LIBRARIES ...] [DEFINITIONS ...])
# A program that tests start: built beside them, never run by ctest itself.
function(weft_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES;DEFINITIONS")
  add_executable(${name} ${arg_SOURCES})
  weft_test_compile_options(${name})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(${name} PRIVATE weft::weft ${arg_LIBRARIES})
endfunction()

# weft_test(<name> SOURCES ... [LABELS ...] [TIMEOUT seconds] [LIBRARIES ...] [DEFINITIONS ...]
#           [OPTIONS ...] [ENVIRONMENT NAME=value ...] [SERIAL]
#           [CHAOS_FILTER -tests | NO_CHAOS reason])
# A GoogleTest program on the library. TIMEOUT is each TEST's limit; SERIAL keeps the machine free
# of other tests meanwhile. The precompiled header of weft_test_parts is for programs compiled as
# they are: one with DEFINITIONS or OPTIONS of its own does without. Each program runs under chaos
# as well (weft_chaos_tests), whole or without the tests of the filter; one that cannot says why.
function(weft_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg
    "SERIAL" "TIMEOUT;CHAOS_FILTER;NO_CHAOS"
    "SOURCES;LABELS;LIBRARIES;DEFINITIONS;OPTIONS;ENVIRONMENT")
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  weft_wants_labels(wanted ${arg_LABELS})
  if(NOT wanted)
    return()
  endif()
  weft_test_program(${name}
    SOURCES ${arg_SOURCES} $<TARGET_OBJECTS:weft_test_parts>
    LIBRARIES ${arg_LIBRARIES} weft_test_main
    DEFINITIONS ${arg_DEFINITIONS})
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  if(NOT arg_DEFINITIONS AND NOT arg_OPTIONS)
    weft_precompile_headers(${name} REUSE_FROM weft_test_parts)
  endif()
  weft_register_gtest(${name})
  if(NOT arg_NO_CHAOS)
    set_property(GLOBAL APPEND PROPERTY weft_chaos_programs ${name})
    set_target_properties(${name} PROPERTIES
      weft_chaos_filter "*${arg_CHAOS_FILTER}"
      weft_environment "WEFT_TEST_NEEDS_CHAOS=1;${arg_ENVIRONMENT}")
  endif()
endfunction()

# weft_model_test(<name> SOURCES ... [PRODUCT ...] [AS_SHIPPED] [LABELS ...] ...)
# A GoogleTest program that explores product code. It does not link the library: the product's
# headers, and the files of src/ named by PRODUCT, are compiled into it against the explorer's Sync.
function(weft_model_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg
    "SERIAL;AS_SHIPPED" "TIMEOUT" "SOURCES;PRODUCT;LABELS;LIBRARIES;DEFINITIONS;ENVIRONMENT")
  list(PREPEND arg_LABELS model)
  weft_wants_labels(wanted ${arg_LABELS})
  if(NOT wanted)
    return()
  endif()
  list(TRANSFORM arg_PRODUCT PREPEND ${PROJECT_SOURCE_DIR}/src/)

  add_executable(${name} ${arg_SOURCES} ${arg_PRODUCT})
  weft_test_compile_options(${name})
  set(checks 1)
  if(arg_AS_SHIPPED)  # the checks write states of their own, and so add steps to every execution
    set(checks 0)
  endif()
  target_compile_definitions(${name} PRIVATE
    WEFT_MODEL WEFT_SPEC_ASSERT=${checks} ${arg_DEFINITIONS})
  target_compile_options(${name} PRIVATE -O2)  # millions of executions, in every preset
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)  # built often
  target_include_directories(${name} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests/model)
  if(TARGET weft_explorer)
    target_link_libraries(${name} PRIVATE weft_explorer)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} weft_test_main)
  weft_register_gtest(${name})
endfunction()

# weft_chaos_tests(WORKERS n... SEEDS s... [TESTS ...] [LABELS ...] [TIMEOUT seconds])
# The programs of these weft_tests, or of all of them, once more under WEFT_CHAOS for each number of
# workers and each seed: as chaos.<test>.<n>.<seed>. WORKERS is the default of engines that do not
# say; for tests that do it is one more seed. Fails if chaos was not on. Chaos is part of checked
# builds; dev and two sanitizers are enough.
function(weft_chaos_tests)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TIMEOUT" "WORKERS;SEEDS;TESTS;LABELS")
  if(NOT WEFT_SPEC_ASSERT)
    return()
  endif()
  get_property(tests GLOBAL PROPERTY weft_chaos_programs)
  if(arg_TESTS)
    foreach(test IN LISTS arg_TESTS)
      if(TARGET ${test} AND NOT test IN_LIST tests)
        message(FATAL_ERROR "${test} does not run under chaos, as its weft_test says")
      endif()
    endforeach()
    list(JOIN arg_TESTS "|" names)
    list(FILTER tests INCLUDE REGEX "^(${names})$")
  endif()
  foreach(test IN LISTS tests)
    get_target_property(filter ${test} weft_chaos_filter)
    get_target_property(own_environment ${test} weft_environment)
    foreach(workers IN LISTS arg_WORKERS)
      foreach(seed IN LISTS arg_SEEDS)
        weft_command_test(chaos.${test}.${workers}.${seed} TIMEOUT ${arg_TIMEOUT}
          LABELS stress no-ubsan no-clang ${arg_LABELS}
          COMMAND ${test} --gtest_brief=1 "--gtest_filter=${filter}"
          ENVIRONMENT ${own_environment} WEFT_CHAOS=${seed} WEFT_WORKERS=${workers})
      endforeach()
    endforeach()
  endforeach()
endfunction()

# weft_command_test(<name> COMMAND ... [LABELS ...] [TIMEOUT seconds] [ENVIRONMENT ...] [SERIAL])
# Any other command that fails by its exit code.
function(weft_command_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT" "COMMAND;LABELS;ENVIRONMENT")
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  weft_wants_labels(wanted ${arg_LABELS})
  if(NOT wanted)
    return()
  endif()
  weft_test_limits(${arg_TIMEOUT})
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}"
    ENVIRONMENT "${environment};${arg_ENVIRONMENT}"
    TIMEOUT ${ctest_limit}
    COST 100  # among them are the longest: they begin first, and the short ones fill the gaps
    RUN_SERIAL ${arg_SERIAL})
endfunction()
