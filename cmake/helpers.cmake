# Build helpers: one line declares a library of stages, a test program or a benchmark.

add_library(dsv41_flags INTERFACE)
target_compile_options(dsv41_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                       -ffp-contract=off $<$<BOOL:${DSV41_WERROR}>:-Werror>)
target_include_directories(dsv41_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(DSV41_SANITIZE)
  target_compile_options(dsv41_flags INTERFACE -fsanitize=${DSV41_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(dsv41_flags INTERFACE -fsanitize=${DSV41_SANITIZE})
endif()

# dsv41_objects(NAME SOURCES... [LINK libs...]): an OBJECT library. Stages register themselves at
# start-up; a static archive would drop them. The property DSV41_STAGE_OBJECTS lists all of them.
function(dsv41_objects name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} OBJECT ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC dsv41_flags flow ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY DSV41_STAGE_OBJECTS ${name})
endfunction()

# dsv41_test(NAME SOURCES... [LINK libs...] [LABEL memory|threads|memory-threads]): one GoogleTest
# program; ctest lists each of its tests by its sentence. The targets tests_memory and tests_threads build what
# the sanitizers should see. Tests read tests/golden and pipelines/ from the source tree.
function(dsv41_test name)
  cmake_parse_arguments(ARG "" "LABEL" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE dsv41_flags ${ARG_LINK} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O1)  # tests are compiled more often than they run
  target_compile_definitions(${name} PRIVATE DSV41_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 LABELS "${ARG_LABEL}")
  string(REPLACE "-" ";" labels "${ARG_LABEL}")
  foreach(label ${labels})
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
endfunction()

# dsv41_benchmark(NAME SOURCES... [LINK libs...]): one Google Benchmark program.
function(dsv41_benchmark name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE dsv41_flags ${ARG_LINK} benchmark::benchmark)
endfunction()
