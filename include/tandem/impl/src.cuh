// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The kernels and ranks of tandem/cuda.cuh for programs with TANDEM_SEPARATE_COMPILATION. Five
/// units include this header and nothing else of the library. Each defines TANDEM_IMPL_CUDA first:
/// 1 for the kernels of Fp32 and Tf32 and those of every precision, 2 for Fp64, 3 for Bf16, 4 for
/// Fp16, all by nvcc, and 5 for ranks, by a C++ compiler. The CMake target tandem::compiled_cuda
/// consists of these units.

#if !defined(TANDEM_SEPARATE_COMPILATION)
#error "TANDEM_SEPARATE_COMPILATION must be defined for every file of the program, this one too"
#include <see the error above>
#elif !defined(TANDEM_IMPL_CUDA) || TANDEM_IMPL_CUDA < 1 || TANDEM_IMPL_CUDA > 5
#error "TANDEM_IMPL_CUDA is 1, 2, 3, 4 or 5: one of five units"
#include <see the error above>
#endif

#include <tandem/cuda.cuh>
