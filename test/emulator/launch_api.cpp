// SPDX-License-Identifier: Apache-2.0
// Kernels on streams, from launch.cuh's stand-in.

#include <cstdio>
#include <utility>

#include "kernel.hpp"
#include "memory.hpp"
#include "state.hpp"

namespace cuda_emulator {

cudaError_t enqueue_computation(cudaStream_t stream, std::string name, std::function<void()> work,
                                std::int64_t bytes, std::vector<Access> const& accesses) {
  auto const held = lock();
  cudaError_t const status = enqueue(
      stream, std::move(name),
      [work = std::move(work)] {
        if (emulator().computes) {
          work();
        }
      },
      accesses);
  if (auto const queue = find_stream(stream);
      status == cudaSuccess && queue != nullptr && queue->capture != nullptr) {
    queue->capture->nodes.back().bytes = bytes;
  }
  return status;
}

cudaError_t enqueue_kernel(cudaStream_t stream, dim3 grid, dim3 block, std::string name,
                           std::function<bool(int device)> run, void const* function,
                           std::vector<Access> const& accesses) {
  auto const held = lock();
  auto const queue = find_stream(stream);
  if (queue == nullptr || queue->device != current_device()) {
    return result(cudaErrorInvalidResourceHandle);
  }
  std::uint64_t const threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024 ||
      grid.x == 0 || grid.x > 2147483647U || grid.y == 0 || grid.y > 65535 || grid.z == 0 ||
      grid.z > 65535) {
    return result(cudaErrorInvalidConfiguration);
  }
  cudaError_t const status = enqueue_computation(
      stream, std::move(name),
      [run = std::move(run), device = queue->device] {
        if (emulator().failures.count(device) == 0) {
          ++emulator().kernels;
          static_cast<void>(run(device));
        }
      },
      -1, accesses);
  if (status == cudaSuccess && queue->capture != nullptr) {
    queue->capture->nodes.back().kernel = function;
  }
  return result(status);
}

bool check_kernel_pointer(cudaStream_t stream, void const* pointer, int index, char const* file,
                          int line) {
  auto const held = lock();
  if (pointer == nullptr) {
    return true;
  }
  auto const queue = find_stream(stream);
  if (queue == nullptr) {
    return true;  // said by enqueue_kernel
  }
  Allocation const* const a = find_allocation(pointer, 0);
  bool const usable = a != nullptr && !a->leaving && reaches(queue->device, *a);
  if (!usable) {
    char text[128];
    std::snprintf(text, sizeof text, ":%d: argument %d of the kernel, %p, points to memory ", line,
                  index + 1, pointer);
    report(std::string{file} + text +
           (a == nullptr ? describe_foreign(pointer)
            : a->leaving ? "whose free is queued"
                         : "of another device, which was not opened to this one"));
  }
  return usable;
}

}  // namespace cuda_emulator

extern "C" cudaError_t cudaLaunchKernel(void const*, dim3, dim3, void**, size_t, cudaStream_t) {
  cuda_emulator::report("cudaLaunchKernel: kernels are launched by launch() only");
  return cuda_emulator::result(cudaErrorInvalidDeviceFunction);
}
