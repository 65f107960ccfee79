// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// With NCCL: the ranks of a Trainer on Cuda have a GPU each and talk through it.

#include <tandem/comm/cuda/ordered.cuh>  // the engine calls it for Reproducible
#include <tandem/comm/nccl/transport.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/train/options/default_transport.hpp>

namespace tandem {

template <class Kernels, class Precision>
struct DefaultTransport<BasicCuda<Kernels, Precision>> {
  template <int Ranks>
  using type = NcclTransport<Ranks>;
};

}  // namespace tandem
