// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ReLU and Dropout on Host, channels-last. Both may work in place.

#include <tandem/kernels/channels_last/dropout.hpp>
#include <tandem/kernels/channels_last/elementwise.hpp>
#include <tandem/kernels/host/dropout.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/ops/dropout_columns.hpp>
#include <tandem/ops/host/activation.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host::channels_last {

template <class T, class P>
class ReluOp {
 public:
  explicit ReluOp(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.output = true}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::relu_forward(p.device.team, o.x[0], o.y, p.elements(shape_));
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::relu_gradient(p.device.team, o.y, o.dy, o.dx[0], p.elements(shape_));
  }

 private:
  Shape shape_;
};

/// The mask is the one that every backend draws: elements count in the order (C, H, W), those of a
/// sequence as (t, c), so that a short step or padding changes no mask.
template <class T, class P>
class DropoutOp {
 public:
  DropoutOp(OpSetup const& setup, double rate)
      : shape_{setup.node.out},
        layer_{static_cast<std::uint32_t>(setup.index)},
        rate_{static_cast<float>(rate)},
        columns_{dropout_columns(setup)} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    if (p.training) {
      drop(p, o.x[0], o.y);
    } else {
      channels_last::convert(p.device.team, o.x[0], o.y, p.elements(shape_));
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    drop(p, o.dy, o.dx[0]);
  }

 private:
  void drop(Pass<Device> const& p, T const* from, T* to) const {
    if (p.sequence.is_chunk()) {
      drop_columns(p.device.team, dropout_rows(shape_, p), chunk_columns(columns_, shape_, p),
                   place(p), rate_, from, to);
    } else if (columns_.runs > 0 && shape_.rank != 3) {
      drop_columns(p.device.team, dropout_rows(shape_, p), columns_, place(p), rate_, from, to);
    } else {
      channels_last::dropout_forward(p.device.team, p.batch, channels(p), pixels(), place(p), rate_,
                                     from, to, first_element());
    }
  }
  [[nodiscard]] DropoutPlace place(Pass<Device> const& p) const {
    return {p.state->seed, static_cast<std::uint32_t>(p.state->step), layer_,
            static_cast<std::uint32_t>(p.first_sample)};
  }

  // Of a slice of an image's channels, which is one run of them.
  [[nodiscard]] std::int64_t first_element() const {
    return columns_.runs > 0 ? columns_.at[0] : 0;
  }
  // Elements of a vector are channels of one pixel, and so are those of a sequence, as (t, c).
  [[nodiscard]] std::int64_t pixels() const {
    return shape_.timed ? 1 : shape_.elements() / shape_[0];
  }
  [[nodiscard]] int channels(Pass<Device> const& p) const {
    return shape_.timed ? static_cast<int>(shape_.elements(p.time)) : shape_[0];
  }

  Shape shape_;
  std::uint32_t layer_;
  float rate_;
  DropoutColumns columns_;
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
