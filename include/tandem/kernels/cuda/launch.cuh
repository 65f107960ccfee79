// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// launch(): queues a kernel, checked; await_previous(): how each kernel begins; blocks_for(): how
/// many blocks n elements need.
///
/// Every kernel of the library starts here, never by `<<<>>>`: a function has no syntax of its own,
/// converts the arguments to the kernel's parameters, and throws with the place of the call.

#include <cstdint>
#include <type_traits>

#include <cuda_runtime_api.h>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/device_words.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Blocks of a launch; remembers where it was written, for the message of a launch that fails.
struct Grid {
  // NOLINTNEXTLINE(google-explicit-constructor): a plain number is a row of blocks
  constexpr Grid(unsigned columns, unsigned rows = 1, unsigned layers = 1,
                 char const* written_in = __builtin_FILE(), int at = __builtin_LINE())
      : x{columns}, y{rows}, z{layers}, file{written_in}, line{at} {}

  unsigned x;  ///< at most 2^31 - 1
  unsigned y;  ///< at most 65,535
  unsigned z;  ///< at most 65,535
  char const* file;
  int line;
};

/// The largest x of a grid.
inline constexpr std::int64_t largest_grid = 2147483647;

/// Blocks that cover @p n elements, @p per_block each; 0 if n is 0. No more than largest_grid, so a
/// kernel that may meet larger n takes several turns: `for (i = first; i < n; i += all threads)`.
/// @pre n >= 0, per_block >= 1
constexpr unsigned blocks_for(std::int64_t n, std::int64_t per_block) {
  std::int64_t const blocks = n / per_block + (n % per_block != 0 ? 1 : 0);
  return static_cast<unsigned>(blocks < largest_grid ? blocks : largest_grid);
}

/// As blocks_for(), with at most @p most blocks: for kernels whose threads take several turns.
/// @pre most >= 1
constexpr unsigned blocks_for(std::int64_t n, std::int64_t per_block, unsigned most) {
  unsigned const blocks = blocks_for(n, per_block);
  return blocks < most ? blocks : most;
}

/// The first thing that every kernel of the library does, in all threads: where it may begin before
/// the stream's previous one has ended (Stream::overlap_launches), lets the next kernel's blocks
/// take their places, and waits until the previous one has ended and all it wrote can be read. That
/// one has waited for its own previous one, so nothing older is left either. Before it a kernel
/// must not touch memory. Nothing on GPUs older than compute capability 9.0.
TANDEM_HOST_DEVICE inline void await_previous() {
#if defined(TANDEM_CUDA_EMULATED)
  cuda_emulator::await_previous();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

/// Whether the GPU's code of @p kernel waits in await_previous(): it does not where it comes from
/// PTX for an older one.
inline bool awaits_previous(void const* kernel) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel));
  return attributes.ptxVersion >= 90;
}

namespace detail {

/// One class for all kernels of a file, so that a compiler prints the sentence once.
template <bool DeviceCode>
struct KernelsTranslated {
  static constexpr bool value = true;
  static_assert(DeviceCode,
                "this file has a kernel of its own, of a layer, a loss or an optimizer of yours or "
                "of a precision that tandem::compiled_cuda has not: compile it with nvcc");
};

/// True, or an error. No function pointer is void: the condition depends on the parameters, so that
/// a compiler asks for it where a launch is instantiated.
template <class... Parameters>
inline constexpr bool translates_kernels =
    KernelsTranslated<TANDEM_DEVICE_CODE || std::is_void_v<void (*)(Parameters...)>>::value;

}  // namespace detail

/// Queues @p kernel on @p stream with @p threads to a block; returns without waiting for it.
///
/// A grid with no blocks queues nothing. The arguments are converted to the kernel's parameters
/// here, as by a call. What the kernel does wrong shows later, at a check of that stream.
/// Where the stream overlaps launches, the GPU may begin it while the previous one ends.
/// @pre threads is in [1, 1024]; where the stream overlaps launches, the kernel begins with
///      await_previous()
/// @throws CudaError  the launch is not possible: too many threads or registers, or no code for
///                    this GPU
template <class... Parameters>
void launch(void (*kernel)(Parameters...), Grid grid, int threads, Stream const& stream,
            std::type_identity_t<Parameters>... arguments) {
  if (!detail::translates_kernels<Parameters...> || grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return;
  }
  void* pointers[sizeof...(Parameters) + 1] = {
      const_cast<void*>(static_cast<void const*>(&arguments))..., nullptr};
  ScopedDevice const scope{stream.device()};
  auto const* const function = reinterpret_cast<void const*>(kernel);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{grid.x, grid.y, grid.z};
  config.blockDim = dim3{static_cast<unsigned>(threads), 1, 1};
  config.stream = stream.get();
  config.attrs = &overlap;
  config.numAttrs = stream.overlaps_launches() && awaits_previous(function) ? 1 : 0;
  check(cudaLaunchKernelExC(&config, function, pointers), grid.file, grid.line);
}

}  // namespace tandem::cuda
