# SPDX-License-Identifier: Apache-2.0

# A test's names stand in a namespace with the name of its file, so that files can be compiled as one.
option(TANDEM_TESTS_UNITY "Compile the unit tests twenty files at a time: a third of the time for all, more for one" OFF)

# One executable `<prefix>_<folder>`, and one test of that name, for each folder of test/unit; they see the headers
# through `library`. Sets `<prefix>_programs` to their names; more arguments are compile options. Sources in
# the list `<prefix>_left_out` are left out, and folders that are not in `<prefix>_folders` where that is set.
function(tandem_add_unit_tests prefix library)
  file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE ${PROJECT_SOURCE_DIR}/test/unit
       ${PROJECT_SOURCE_DIR}/test/unit/*)
  if(DEFINED ${prefix}_folders)
    set(folders ${${prefix}_folders})
  endif()
  set(programs "")
  foreach(folder ${folders})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/unit/${folder}/*_test.cpp)
    list(REMOVE_ITEM sources "" ${${prefix}_left_out})
    if(NOT sources)
      continue()
    endif()
    set(name ${prefix}_${folder})
    add_executable(${name} ${sources} $<TARGET_OBJECTS:doctest_main>)
    target_link_libraries(${name} PRIVATE ${library} doctest::doctest tandem_build_flags)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/test
                                               ${PROJECT_SOURCE_DIR}/test/support)
    target_compile_definitions(${name} PRIVATE
      TANDEM_TEST_DATA="${PROJECT_SOURCE_DIR}/test/data"
      TANDEM_FASHION_MNIST="${TANDEM_FASHION_MNIST}"
      TANDEM_SWORD_KJV="${TANDEM_SWORD_KJV}"
      TANDEM_PROFILES="${TANDEM_PROFILES}")
    target_compile_options(${name} PRIVATE ${ARGN})
    set_target_properties(${name} PROPERTIES UNITY_BUILD ${TANDEM_TESTS_UNITY} UNITY_BUILD_BATCH_SIZE 20)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS ${prefix})
    list(APPEND programs ${name})
  endforeach()
  set(${prefix}_programs ${programs} PARENT_SCOPE)
  add_custom_target(${prefix}_tests DEPENDS ${programs})
endfunction()
