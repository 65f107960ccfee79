// SPDX-License-Identifier: Apache-2.0

/// @file
/// A unit that chooses neither cuDNN nor NCCL must not link with a tandem::compiled_cuda that has
/// one of them, and the linker's message must say so. nvcc.ops shows that units of one choice link.

#include <tandem/cuda.cuh>

int main() { return 0; }
