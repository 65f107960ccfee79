# SPDX-License-Identifier: Apache-2.0
# tandem::compiled_cuda, where there are tandem::cuda, tandem::compiled and the language CUDA: tandem::cuda's kernels as a static
# library, a unit a precision, and the ranks of GPUs, a unit in C++, so that g++ or clang++ compiles a program that trains on GPUs. A source file with a kernel of its
# own stays one for nvcc. The units are compiled for CMAKE_CUDA_ARCHITECTURES.
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT TARGET tandem::cuda OR NOT TARGET tandem::compiled OR NOT "CUDA" IN_LIST languages OR TARGET tandem::compiled_cuda)
  return()
endif()
foreach(precision 1 2 3 4)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/tandem_src_${precision}.cu
       CONTENT "#define TANDEM_IMPL_CUDA ${precision}\n#include <tandem/impl/src.cuh>\n")
  list(APPEND tandem_compiled_cuda_units ${CMAKE_CURRENT_BINARY_DIR}/tandem_src_${precision}.cu)
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/tandem_src_5.cpp
     CONTENT "#define TANDEM_IMPL_CUDA 5\n#include <tandem/impl/src.cuh>\n")
list(APPEND tandem_compiled_cuda_units ${CMAKE_CURRENT_BINARY_DIR}/tandem_src_5.cpp)
add_library(tandem_compiled_cuda STATIC EXCLUDE_FROM_ALL ${tandem_compiled_cuda_units})
add_library(tandem::compiled_cuda ALIAS tandem_compiled_cuda)
target_link_libraries(tandem_compiled_cuda PUBLIC tandem::cuda tandem::compiled)
