// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ReLU and Dropout on Host, channels-last. Both may work in place.

#include <tandem/kernels/channels_last/dropout.hpp>
#include <tandem/kernels/channels_last/elementwise.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host::channels_last {

template <class T, class P>
class ReluOp {
 public:
  explicit ReluOp(OpSetup const& setup) : elements_{setup.node.out.elements()} {}

  [[nodiscard]] OpNeeds needs() const { return {.output = true}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::relu_forward(p.device.team, o.x[0], o.y, p.batch * elements_);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::relu_gradient(p.device.team, o.y, o.dy, o.dx[0], p.batch * elements_);
  }

 private:
  std::int64_t elements_;
};

/// The mask is the one that every backend draws: elements count in the order (C, H, W).
template <class T, class P>
class DropoutOp {
 public:
  DropoutOp(OpSetup const& setup, double rate)
      : channels_{setup.node.out[0]},
        pixels_{setup.node.out.elements() / setup.node.out[0]},
        layer_{static_cast<std::uint32_t>(setup.index)},
        rate_{static_cast<float>(rate)} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    if (p.training) {
      channels_last::dropout_forward(p.device.team, p.batch, channels_, pixels_, place(p), rate_,
                                     o.x[0], o.y);
    } else {
      channels_last::convert(p.device.team, o.x[0], o.y, p.batch * channels_ * pixels_);
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::dropout_gradient(p.device.team, p.batch, channels_, pixels_, place(p), rate_,
                                    o.dy, o.dx[0]);
  }

 private:
  [[nodiscard]] DropoutPlace place(Pass<Device> const& p) const {
    return {p.state->seed, static_cast<std::uint32_t>(p.state->step), layer_,
            static_cast<std::uint32_t>(p.first_sample)};
  }

  int channels_;
  std::int64_t pixels_;  // of a map; 1 for a vector, whose elements are channels
  std::uint32_t layer_;
  float rate_;
};

}  // namespace host::channels_last

template <class Precision>
struct Op<ReLU, BasicHost<OneDnn, Precision>>
    : host::channels_last::ReluOp<typename Precision::Scalar, typename Precision::Master> {
  using host::channels_last::ReluOp<typename Precision::Scalar, typename Precision::Master>::ReluOp;
};

template <class Rate, class Precision>
struct Op<Dropout<Rate>, BasicHost<OneDnn, Precision>>
    : host::channels_last::DropoutOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::DropoutOp<typename Precision::Scalar, typename Precision::Master>{
            setup, Dropout<Rate>::rate} {}
};

}  // namespace tandem
