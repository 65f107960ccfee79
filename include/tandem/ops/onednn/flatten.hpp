// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Flatten on Host, channels-last, where the rewrite has made it an op: an image of more than one
/// channel and pixel is stored (H, W, C), but a vector has the elements in the order (C, H, W).

#include <tandem/kernels/channels_last/layout.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

template <class Precision>
class Op<Flatten, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup)
      : channels_{setup.node.in[0]}, pixels_{setup.node.in.elements() / setup.node.in[0]} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::from_channels_last(p.device.team, p.batch, channels_, pixels_, o.x[0],
                                            o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::to_channels_last(p.device.team, p.batch, channels_, pixels_, o.dy,
                                          o.dx[0]);
  }

 private:
  int channels_;
  std::int64_t pixels_;
};

}  // namespace tandem
