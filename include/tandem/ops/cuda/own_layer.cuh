// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A program's own ElementLayer and ChannelLayer on Cuda.

#include <cstdint>

#include <tandem/kernels/cuda/own_layer.cuh>
#include <tandem/layers/own_layer.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

template <OwnElementLayer L, class Kernels, class Precision>
class Op<L, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using Slope = ElementSlope<L>;

 public:
  Op(OpSetup const& setup, cuda::RankDevice&) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = Slope::reads_input, .output = Slope::reads_output};
  }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::element_layer_forward<L>(p.device.compute, o.x[0], o.y, p.elements(shape_));
  }
  void input_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::element_layer_gradient<L>(p.device.compute, o.x[0], static_cast<T const*>(o.y), o.dy,
                                    o.dx[0], p.elements(shape_));
  }

 private:
  Shape shape_;
};

template <OwnChannelLayer L, class Kernels, class Precision>
class Op<L, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  Op(OpSetup const& setup, cuda::RankDevice&)
      : shape_{setup.node.out},
        weights_{L::weights(setup.node.in)},
        scratch_{cuda::channel_layer_scratch_bytes<T>(setup.batch * shape_.elements() / weights_,
                                                      weights_)} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .scratch_bytes = scratch_}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::channel_layer_forward<L>(p.device.compute, o.x[0], weight(o), rows(p), weights_, o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::channel_layer_input_gradient<L>(p.device.compute, o.x[0], weight(o), o.dy, rows(p),
                                          weights_, o.dx[0]);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::channel_layer_weight_gradient<L>(p.device.compute, o.x[0], weight(o), o.dy, rows(p),
                                           weights_, o.gradient[0], p.accumulate, p.device.scratch);
  }

 private:
  static P const* weight(Operands<T, P> const& o) { return o.parameter[0]; }
  // Channels are last, so that a weight is a column.
  [[nodiscard]] std::int64_t rows(Pass<cuda::RankDevice> const& p) const {
    return p.elements(shape_) / weights_;
  }

  Shape shape_;
  int weights_;
  std::int64_t scratch_;
};

}  // namespace tandem
