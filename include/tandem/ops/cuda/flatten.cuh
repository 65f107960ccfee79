// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Flatten on Cuda, where the rewrite has made it an op: an image of more than one channel and
/// pixel is stored channels-last, but a vector has the elements in the order (C, H, W).

#include <tandem/kernels/cuda/layout.cuh>
#include <tandem/layers/linear.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

template <class Kernels, class Precision>
class Op<Flatten, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  Op(OpSetup const& setup, cuda::RankDevice&)
      : channels_{setup.node.in[0]},
        pixels_{static_cast<int>(setup.node.in.elements() / setup.node.in[0])} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::from_channels_last(p.device.compute, p.batch, channels_, pixels_, o.x[0], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::to_channels_last(p.device.compute, p.batch, channels_, pixels_, o.dy, o.dx[0]);
  }

 private:
  int channels_;
  int pixels_;
};

}  // namespace tandem
