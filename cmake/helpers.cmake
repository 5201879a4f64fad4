# Build helpers: one line declares a library of stages, a test program or a benchmark.

add_library(dsv41_flags INTERFACE)
set(flags -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off
    $<$<BOOL:${DSV41_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  list(APPEND flags -Wno-array-bounds -Wno-restrict
       -Wno-stringop-overflow -Wno-stringop-overread)  # GCC bugs 105329, 105651: std::string itself
endif()
target_compile_options(dsv41_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${flags}>)
target_include_directories(dsv41_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(DSV41_SANITIZE)
  # Instrumented code takes GCC minutes to optimize and to describe to a debugger; line numbers are enough.
  target_compile_options(dsv41_flags INTERFACE -fsanitize=${DSV41_SANITIZE} -fno-omit-frame-pointer -O1 -g1
                         -fno-var-tracking)
  if(DSV41_SANITIZE MATCHES undefined)
    target_compile_options(dsv41_flags INTERFACE -fno-sanitize=null,vptr)  # the address sanitizer sees both
  endif()
  target_link_options(dsv41_flags INTERFACE -fsanitize=${DSV41_SANITIZE})
endif()

# The headers that nearly every file reads, parsed once for the libraries and once for the tests. Every file still
# includes what it uses.
set(DSV41_COMMON_HEADERS <algorithm> <boost/json.hpp> <filesystem> <fmt/format.h> <functional> <map> <memory>
    <mutex> <optional> <string> <unordered_map> <vector>)
file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cc "")
add_library(precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
target_link_libraries(precompiled PRIVATE dsv41_flags fmt::fmt Boost::json Threads::Threads)
target_precompile_headers(precompiled PRIVATE ${DSV41_COMMON_HEADERS})

# dsv41_objects(NAME SOURCES... [LINK libs...]): an OBJECT library. Stages register themselves at
# start-up; a static archive would drop them. The property DSV41_STAGE_OBJECTS lists all of them.
function(dsv41_objects name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} OBJECT ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC dsv41_flags flow ${ARG_LINK})
  target_precompile_headers(${name} REUSE_FROM precompiled)
  set_property(GLOBAL APPEND PROPERTY DSV41_STAGE_OBJECTS ${name})
endfunction()

# dsv41_test(NAME SOURCES... [LINK libs...] [LABEL memory|threads|memory-threads|slow|gpu] [SERIAL]): one GoogleTest
# program; ctest lists each of its tests by its sentence. The targets tests_memory and tests_threads build what
# the sanitizers should see. SERIAL: ctest runs it beside no other, for it compares times of set delays. Tests read
# tests/golden and pipelines/ from the source tree.
function(dsv41_test name)
  cmake_parse_arguments(ARG "SERIAL" "LABEL" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE dsv41_flags ${ARG_LINK} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O1)  # tests are compiled more often than they run
  if(NOT TARGET precompiled_tests)  # a program, for its headers must be compiled as those of programs
    add_executable(precompiled_tests ${PROJECT_BINARY_DIR}/precompiled.cc)
    target_link_libraries(precompiled_tests PRIVATE dsv41_flags fmt::fmt Boost::json GTest::gmock GTest::gtest_main)
    target_compile_options(precompiled_tests PRIVATE -O1)
    target_precompile_headers(precompiled_tests PRIVATE ${DSV41_COMMON_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  target_precompile_headers(${name} REUSE_FROM precompiled_tests)
  target_compile_definitions(${name} PRIVATE DSV41_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 RUN_SERIAL ${ARG_SERIAL}
                       LABELS "${ARG_LABEL}")
  string(REPLACE "-" ";" labels "${ARG_LABEL}")
  foreach(label ${labels})
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
endfunction()

# dsv41_benchmark(NAME SOURCES... [LINK libs...]): one Google Benchmark program. The property DSV41_BENCHMARKS
# lists all of them, with their folders below bench/.
function(dsv41_benchmark name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE dsv41_flags ${ARG_LINK} benchmark::benchmark)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  set_property(GLOBAL APPEND PROPERTY DSV41_BENCHMARKS ${folder}/${name})
endfunction()
