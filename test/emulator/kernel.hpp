// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Running a kernel: a function called once for each thread of each block, threads as fibers.
///
/// Between launch.cuh and CUB's stand-ins on one side and grid.cpp on the other.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "stream_work.hpp"

namespace cuda_emulator {

/// A kernel with its arguments: body(arguments) is one thread.
struct Kernel {
  void (*body)(void const* arguments);
  void const* arguments;
  void const* function;  ///< for its name in reports
  char const* file;      ///< of the launch
  int line;
  bool overlaps = false;  ///< it may begin before the previous kernel has ended
};

/// Runs all blocks now. The caller holds the lock.
/// @return whether every block came to its end; if not, the fault has been reported
bool run_grid(Kernel const& kernel, dim3 grid, dim3 block, int device);

/// Puts a kernel on @p stream: at each execution @p run calls run_grid().
/// @param function  for its name in a graph
cudaError_t enqueue_kernel(cudaStream_t stream, dim3 grid, dim3 block, std::string name,
                           std::function<bool(int device)> run, void const* function = nullptr,
                           std::vector<Access> const& accesses = {});

/// Whether a kernel on @p stream may be given @p pointer; if not, reports it as argument @p index.
bool check_kernel_pointer(cudaStream_t stream, void const* pointer, int index, char const* file,
                          int line);

// For CUB's stand-ins, inside a kernel.

/// Number of the block that runs: different for each block of each launch, never 0.
[[nodiscard]] std::uint64_t block_number();

/// How many barriers the block has passed; equal numbers mean that nothing orders two accesses.
[[nodiscard]] std::uint64_t block_barriers_passed();

/// The same for this thread's warp, which passes those of its block too.
[[nodiscard]] std::uint64_t warp_barriers_passed();

/// x first, as CUDA numbers the threads of a block.
[[nodiscard]] int linear_thread();

/// Threads in the running block.
[[nodiscard]] int block_threads();

/// Suspends this thread until ready(argument). @p what appears if that never happens.
void wait_until(bool (*ready)(void const*), void const* argument, char const* what);

/// Ends the kernel with a report. Does not return, nor destroy what is on the stack: make @p text
/// in a function of its own.
[[noreturn]] void kernel_fault(std::string text);

}  // namespace cuda_emulator
