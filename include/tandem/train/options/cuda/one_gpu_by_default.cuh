// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Without NCCL: a Trainer on Cuda has one rank, unless a transport is named.

#include <tandem/comm/cuda_virtual/transport.cuh>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/train/options/default_transport.hpp>

namespace tandem {

namespace detail {

template <int Ranks>
struct OneGpu {
  using type = VirtualTransport<Ranks>;
  static_assert(Ranks == 1,
                "Trainer<Net, Strategy, Cuda>: several GPUs need NCCL, so define TANDEM_NCCL and "
                "link with -lnccl (CMake: TANDEM_NCCL=ON); or name VirtualTransport as the "
                "Trainer's Transport, and all ranks share one GPU");
};

}  // namespace detail

template <class Kernels, class Precision>
struct DefaultTransport<BasicCuda<Kernels, Precision>> {
  template <int Ranks>
  using type = typename detail::OneGpu<Ranks>::type;
};

}  // namespace tandem
