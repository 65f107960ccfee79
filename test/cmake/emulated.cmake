# SPDX-License-Identifier: Apache-2.0

# The library `cuda_emulator`: what links it is compiled for the emulator, and linked with it instead of the CUDA
# libraries. Of those only the headers are needed; cudnn*.cpp and nccl*.cpp are left out where theirs are not found.
find_package(CUDAToolkit 13.0 REQUIRED)
set(emulator ${CMAKE_CURRENT_LIST_DIR}/../emulator)
cmake_path(NORMAL_PATH emulator)
file(GLOB emulator_sources CONFIGURE_DEPENDS ${emulator}/*.cpp)
foreach(name cudnn nccl)
  string(TOUPPER TANDEM_${name} option)
  if(NOT ${option}_INCLUDE_DIR)
    list(FILTER emulator_sources EXCLUDE REGEX "/${name}[^/]*$")
  endif()
endforeach()
set(emulator_tests ${emulator_sources})
list(FILTER emulator_sources EXCLUDE REGEX "_test\\.cpp$")
list(FILTER emulator_tests INCLUDE REGEX "_test\\.cpp$")

add_library(cuda_emulator STATIC EXCLUDE_FROM_ALL ${emulator_sources})
# Compiled as two, NCCL's and the runtime's, in a third of the time; those of cuBLAS and cuDNN have names in common.
set_target_properties(cuda_emulator PROPERTIES UNITY_BUILD ${TANDEM_TESTS_UNITY} UNITY_BUILD_MODE GROUP)
foreach(source ${emulator_sources})
  if(source MATCHES "/nccl[^/]*$")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP nccl)
  elseif(NOT source MATCHES "/cu(blas|dnn)[^/]*$")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP cuda)
  endif()
endforeach()
target_compile_features(cuda_emulator PUBLIC cxx_std_20)
# Before the library's own headers, since it replaces launch.cuh, and the toolkit's, since it replaces CUB.
target_include_directories(cuda_emulator BEFORE PUBLIC ${emulator}/include)
target_include_directories(cuda_emulator PUBLIC ${PROJECT_SOURCE_DIR}/test)
foreach(folder ${CUDAToolkit_INCLUDE_DIRS})
  target_include_directories(cuda_emulator SYSTEM PUBLIC ${folder} ${folder}/cccl)
endforeach()
foreach(option TANDEM_CUDNN TANDEM_NCCL)
  if(${option}_INCLUDE_DIR)
    target_include_directories(cuda_emulator SYSTEM PUBLIC ${${option}_INCLUDE_DIR})
    target_compile_definitions(cuda_emulator PUBLIC ${option}=1)
  endif()
endforeach()
# Device code reads arrays in packs of 16 bytes, which g++ could take for accesses to something else. Whether a product
# and a sum are one operation is each compiler's choice, and the host's vectors and a kernel's numbers shall be equal.
target_compile_options(cuda_emulator PUBLIC "SHELL:-include ${emulator}/emulator.hpp" -fno-strict-aliasing
                                            -ffp-contract=off
                       PRIVATE -O1)  # half of -O3's time to compile; at -O0 tests of products run twice as long
target_link_libraries(cuda_emulator PUBLIC tandem::tandem PRIVATE tandem_build_flags)

# What the emulator promises to show, it shows, under the sanitizers where the suite has them.
if(TANDEM_TESTS_SANITIZED_ONCE OR TANDEM_TESTS_LARGER STREQUAL "ONLY")
  return()
endif()
add_executable(emulator ${emulator_tests} $<TARGET_OBJECTS:doctest_main>)
target_compile_options(emulator PRIVATE -O1)
target_link_libraries(emulator PRIVATE cuda_emulator doctest::doctest tandem_build_flags)
add_test(NAME emulator COMMAND emulator)
set_tests_properties(emulator PROPERTIES TIMEOUT 300 LABELS emulated)
