// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The emulator's launch(): puts a kernel on an emulated stream. All else is the real header's.
///
/// Arguments are copied at the launch, as CUDA does, and each thread gets copies of its own. A
/// pointer that the stream's device cannot use is refused here already.

// For #include_next under -Wpedantic.
#pragma GCC system_header

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <emulator/kernel.hpp>

#include <cuda_runtime_api.h>

#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

#define launch launch_on_a_gpu
#include_next <tandem/kernels/cuda/launch.cuh>
#undef launch

namespace tandem::cuda {
namespace emulated {

template <class T>
bool usable(cudaStream_t stream, T const& argument, int index, Grid const& grid) {
  if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
    return cuda_emulator::check_kernel_pointer(stream, argument, index, grid.file, grid.line);
  } else {
    return true;
  }
}

/// Of what a pointer points to the first element: how many more a kernel uses it does not say.
template <class T>
void add_access(std::vector<cuda_emulator::Access>& accesses, T const& argument) {
  if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
    using Pointee = std::remove_pointer_t<T>;
    using Sized = std::conditional_t<std::is_void_v<Pointee>, char, Pointee>;
    if (argument != nullptr) {
      accesses.push_back({argument, sizeof(Sized), !std::is_const_v<Pointee>});
    }
  }
}

template <class... Parameters>
struct Call {
  void (*kernel)(Parameters...);
  std::tuple<Parameters...> arguments;

  static void run(void const* call) {
    auto const* const self = static_cast<Call const*>(call);
    std::apply(self->kernel, self->arguments);
  }
};

}  // namespace emulated

template <class... Parameters>
void launch(void (*kernel)(Parameters...), Grid grid, int threads, Stream const& stream,
            std::type_identity_t<Parameters>... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return;
  }
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "launch: the parameters of a kernel are copied to the GPU as bytes");
  int index = 0;
  bool good = true;
  ((good = emulated::usable(stream.get(), arguments, index++, grid) && good), ...);
  check(good ? cudaSuccess : cudaErrorIllegalAddress, grid.file, grid.line);
  dim3 const blocks{grid.x, grid.y, grid.z};
  dim3 const block{static_cast<unsigned>(threads), 1, 1};
  std::vector<cuda_emulator::Access> accesses;
  (emulated::add_access(accesses, arguments), ...);
  emulated::Call<Parameters...> const call{kernel, {arguments...}};
  ScopedDevice const scope{stream.device()};
  check(cuda_emulator::enqueue_kernel(
            stream.get(), blocks, block,
            std::string{"kernel at "} + grid.file + ":" + std::to_string(grid.line),
            [call, blocks, block, file = grid.file, line = grid.line,
             overlaps = stream.overlaps_launches()](int device) {
              return cuda_emulator::run_grid(
                  {&emulated::Call<Parameters...>::run, &call,
                   reinterpret_cast<void const*>(call.kernel), file, line, overlaps},
                  blocks, block, device);
            },
            reinterpret_cast<void const*>(kernel), accesses),
        grid.file, grid.line);
}

}  // namespace tandem::cuda
