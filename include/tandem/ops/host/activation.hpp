// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ReLU and Dropout on Host, portable kernels.

#include <tandem/kernels/functors/dropout_mask.hpp>
#include <tandem/kernels/host/activation.hpp>
#include <tandem/kernels/host/dropout.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/ops/dropout_columns.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

template <class T>
class ReluOp {
 public:
  explicit ReluOp(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.output = true, .in_place = true}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    relu_forward(p.device.team, o.x[0], o.y, p.elements(shape_));
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    relu_gradient(p.device.team, o.y, o.dy, o.dx[0], p.elements(shape_));
  }

 private:
  Shape shape_;
};

/// Elements of a sequence count as (t, c), so that a short step or padding changes no mask.
template <class T>
class DropoutOp {
 public:
  DropoutOp(OpSetup const& setup, double rate)
      : shape_{setup.node.out},
        layer_{static_cast<std::uint32_t>(setup.index)},
        rate_{static_cast<float>(rate)},
        columns_{dropout_columns(setup)} {}

  [[nodiscard]] OpNeeds needs() const { return {.in_place = true}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    drop(p, p.training ? rate_ : 0.0F, o.x[0], o.y);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    drop(p, rate_, o.dy, o.dx[0]);
  }

 private:
  void drop(Pass<Device> const& p, float rate, T const* from, T* to) const {
    if (p.sequence.is_chunk()) {
      drop_columns(p.device.team, dropout_rows(shape_, p), chunk_columns(columns_, shape_, p),
                   place(p), rate, from, to);
    } else if (columns_.runs > 0) {
      drop_columns(p.device.team, dropout_rows(shape_, p), columns_, place(p), rate, from, to);
    } else {
      dropout_forward(p.device.team, p.batch, shape_.elements(p.time), place(p), rate, from, to);
    }
  }
  [[nodiscard]] DropoutPlace place(Pass<Device> const& p) const {
    return {p.state->seed, static_cast<std::uint32_t>(p.state->step), layer_,
            static_cast<std::uint32_t>(p.first_sample)};
  }

  Shape shape_;
  std::uint32_t layer_;
  float rate_;
  DropoutColumns columns_;
};

}  // namespace host

template <class Precision>
struct Op<ReLU, BasicHost<Portable, Precision>> : host::ReluOp<typename Precision::Scalar> {
  using host::ReluOp<typename Precision::Scalar>::ReluOp;
};

template <class Rate, class Precision>
struct Op<Dropout<Rate>, BasicHost<Portable, Precision>>
    : host::DropoutOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::DropoutOp<typename Precision::Scalar>{setup, Dropout<Rate>::rate} {}
};

}  // namespace tandem
