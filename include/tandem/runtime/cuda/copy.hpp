// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// copy_bytes() and clear_bytes(): copies and fills on a stream, whatever device is current.
///
/// CUDA takes a copy on a stream of another device than the current one, but not where memory of a
/// pool takes part (its programming guide, "Stream Ordered Memory Allocator"), as all of this
/// library's does.

#include <cstddef>

#include <cuda_runtime_api.h>

#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Queues a copy of @p bytes. The host's memory is pinned, or the call may wait for the stream.
/// @throws CudaError  named by the place of the call
inline void copy_bytes(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                       Stream const& stream, char const* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  ScopedDevice const scope{stream.device()};
  check(cudaMemcpyAsync(to, from, bytes, kind, stream.get()), file, line);
}

/// Queues that @p bytes become 0.
/// @throws CudaError  named by the place of the call
inline void clear_bytes(void* to, std::size_t bytes, Stream const& stream,
                        char const* file = __builtin_FILE(), int line = __builtin_LINE()) {
  ScopedDevice const scope{stream.device()};
  check(cudaMemsetAsync(to, 0, bytes, stream.get()), file, line);
}

}  // namespace tandem::cuda
