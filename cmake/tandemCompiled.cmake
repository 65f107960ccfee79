# SPDX-License-Identifier: Apache-2.0
# tandem::compiled, in the tree and by find_package(tandem COMPONENTS compiled): what is the same for every network and strategy
# is compiled once, as a static library of the project that links it, and headers declare it. With the parts that tandem::tandem
# has; who adds one later adds it to both.
# Four units, as impl/src.hpp divides them, compile beside each other.
foreach(part 1 2 3 4)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/tandem_src_${part}.cpp
       CONTENT "#define TANDEM_IMPL_PART ${part}\n#include <tandem/impl/src.hpp>\n")
  list(APPEND tandem_compiled_units ${CMAKE_CURRENT_BINARY_DIR}/tandem_src_${part}.cpp)
endforeach()
add_library(tandem_compiled STATIC EXCLUDE_FROM_ALL ${tandem_compiled_units})
add_library(tandem::compiled ALIAS tandem_compiled)
target_link_libraries(tandem_compiled PUBLIC tandem::tandem)
target_compile_definitions(tandem_compiled PUBLIC TANDEM_SEPARATE_COMPILATION=1)
# A program under a debugger has no use for these bodies' lines, but for their speed.
if(NOT TANDEM_TESTS)
  target_compile_options(tandem_compiled PRIVATE $<$<AND:$<CONFIG:Debug>,$<CXX_COMPILER_ID:GNU,Clang,AppleClang>>:-O2>)
endif()
