// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A program's own ElementLayer and ChannelLayer on Host, with oneDNN and without.

#include <cstdint>
#include <type_traits>

#include <tandem/kernels/host/own_layer.hpp>
#include <tandem/layers/own_layer.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

template <OwnElementLayer L, class Kernels, class Precision>
class Op<L, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using Slope = ElementSlope<L>;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = Slope::reads_input, .output = Slope::reads_output};
  }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::element_layer_forward<L, P>(p.device.team, o.x[0], o.y, p.elements(shape_));
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::element_layer_gradient<L, P>(p.device.team, o.x[0], static_cast<T const*>(o.y), o.dy,
                                       o.dx[0], p.elements(shape_));
  }

 private:
  Shape shape_;
};

template <OwnChannelLayer L, class Kernels, class Precision>
class Op<L, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out}, weights_{L::weights(setup.node.in)} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true, .scratch_bytes = host::channel_layer_scratch_bytes(weights_)};
  }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channel_layer_forward<L, P>(p.device.team, order(p), o.x[0], weight(o), o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channel_layer_input_gradient<L, P>(p.device.team, order(p), o.x[0], weight(o), o.dy,
                                             o.dx[0]);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channel_layer_weight_gradient<L, P>(p.device.team, order(p), o.x[0], weight(o), o.dy,
                                              o.gradient[0], p.accumulate,
                                              p.device.template scratch_as<double>());
  }

 private:
  static P const* weight(Operands<T, P> const& o) { return o.parameter[0]; }

  [[nodiscard]] host::ChannelOrder order(Pass<host::Device> const& p) const {
    std::int64_t const all = p.elements(shape_);
    if (weights_ == 1) {
      return {all, 1, 1};
    }
    std::int64_t const inner =
        std::is_same_v<Kernels, Portable> && shape_.rank == 3 ? shape_.elements() / shape_[0] : 1;
    return {all / (weights_ * inner), weights_, inner};
  }

  Shape shape_;
  int weights_;
};

}  // namespace tandem
