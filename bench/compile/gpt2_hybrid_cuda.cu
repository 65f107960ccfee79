// SPDX-License-Identifier: Apache-2.0

/// @file
/// What run.py compiles: gpt2_hybrid.cpp with a GPU for each device.

#include <tandem/cuda.cuh>

#define BENCH_BACKEND Cuda
#include "gpt2_hybrid.cpp"
