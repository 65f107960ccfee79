// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NoMetric on Cuda: always 0.

#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/ops/host/user_layer.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

template <class L, class Kernels, class Precision>
class MetricOp<NoMetric, L, BasicCuda<Kernels, Precision>> {
 public:
  explicit MetricOp(Shape /*output*/) {}

  void count(Pass<cuda::RankDevice> const& p, typename Precision::Scalar const* /*output*/,
             typename L::Target const* /*targets*/, double* sum) const {
    cuda::fill(p.device.compute, sum, 1, 0.0);
  }
};

}  // namespace tandem
