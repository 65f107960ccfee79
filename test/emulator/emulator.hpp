// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Makes g++ take CUDA device code: to be included before everything else, by `-include`.
///
/// Kernels become functions that the emulator calls once for each thread. `__shared__` variables
/// are thread-local, so that the emulator can find and poison them all before each block.

#define TANDEM_CUDA_EMULATED 1

// The real header declares threadIdx and the like as constants that only a GPU can have.
#define __DEVICE_LAUNCH_PARAMETERS_H__
#include <cmath>

#include <cuda_runtime.h>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __constant__ static_assert(false, "the emulator has no __constant__ memory");
#define __managed__ static_assert(false, "the emulator has no __managed__ memory");
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

// What the running thread of the running kernel sees; one kernel runs at a time.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

namespace cuda_emulator {

/// Suspends this thread of the block until all have come to the barrier at this place.
void block_barrier(char const* file, int line);

/// The same for the 32 threads of the warp.
void warp_barrier(char const* file, int line);

/// The thread has waited for the kernel before its own.
void await_previous();

}  // namespace cuda_emulator

#define __syncthreads() ::cuda_emulator::block_barrier(__FILE__, __LINE__)
#define __syncwarp(...) ::cuda_emulator::warp_barrier(__FILE__, __LINE__)

/// Reads through the read-only cache and past the first, fences, and the atomic that counts the
/// blocks of a kernel: one thread runs at a time.
template <class T>
inline T __ldg(T const* pointer) {
  return *pointer;
}
template <class T>
inline T __ldcg(T const* pointer) {
  return *pointer;
}
inline unsigned atomicInc(unsigned* counter, unsigned largest) {
  unsigned const before = *counter;
  *counter = before >= largest ? 0 : before + 1;
  return before;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
