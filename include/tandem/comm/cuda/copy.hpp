// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Copies on a CUDA stream, for a group of one GPU.

#include <cstddef>

#include <cuda_runtime_api.h>

#include <tandem/comm/self.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem {

template <>
struct StreamCopy<cuda::Stream> {
  static void queue(cuda::Stream& stream, void const* from, void* to, std::size_t bytes) {
    cuda::copy_bytes(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
};

/// The group of one on a GPU: it makes no NCCL call.
using CudaSelfCommunicator = BasicSelfCommunicator<cuda::Stream>;

}  // namespace tandem
