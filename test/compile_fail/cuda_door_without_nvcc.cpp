// SPDX-License-Identifier: Apache-2.0
// expect-error: tandem/cuda.cuh: compile this file with nvcc (name it .cu), or include
#ifdef TANDEM_COMPILE_FAIL
#include <tandem/cuda.cuh>
#else
#include <tandem/tandem.hpp>
#endif

int main() {}
