// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A program's own rule of Join that brings its passes on Host, channels-last: it sees (B, C, H, W)
/// of P as on the portable backend, by way of scratch memory.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/ops/host/own_join.hpp>
#include <tandem/ops/onednn/user_order.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// Cost: copies the inputs and y (forward), and dy and the gradients (backward), where the order or
///       the type differs.
template <class J, class Precision>
  requires HostJoin<J, typename Precision::Master>
class Op<J, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using Order = host::channels_last::UserOrder<T, P>;

 public:
  explicit Op(OpSetup const& setup) : out_{setup.node.out, setup.batch} {
    for (int i = 0; i < setup.node.edges; ++i) {
      in_.emplace_back(setup.inputs[i], setup.batch);
      shapes_.push_back(setup.inputs[i]);
      values_.push_back(nullptr);
      gradients_.push_back(nullptr);
    }
  }

  [[nodiscard]] OpNeeds needs() const {
    std::int64_t elements = 2 * out_.elements;
    for (Value const& in : in_) {
      elements += 2 * in.elements;
    }
    return {.input = true,
            .output = true,
            .scratch_bytes = elements * static_cast<std::int64_t>(sizeof(P))};
  }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) {
    P* memory = p.device.template scratch_as<P>();
    JoinCall<P> call = read(o, p, memory);
    P* const y = out_.order.writable(o.y, memory);
    call.y = {y, static_cast<std::size_t>(p.elements(out_.shape))};
    J::forward(static_cast<JoinCall<P> const&>(call));
    out_.order.write(p.device, out_.rows(p), y, o.y);
  }

  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) {
    P* memory = p.device.template scratch_as<P>();
    JoinCall<P> call = read(o, p, memory);
    auto const out = static_cast<std::size_t>(p.elements(out_.shape));
    // In a pass that reads y nobody writes it.
    call.y = {const_cast<P*>(out_.order.read(p.device, out_.rows(p), o.y, memory)), out};
    memory += out_.elements;
    call.dy = {out_.order.read(p.device, out_.rows(p), o.dy, memory), out};
    memory += out_.elements;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      gradients_[i] = in_[i].order.writable(o.dx[i], memory);
      memory += in_[i].elements;
    }
    call.gradients = gradients_.data();
    J::input_gradient(static_cast<JoinCall<P> const&>(call));
    for (std::size_t i = 0; i < in_.size(); ++i) {
      in_[i].order.write(p.device, in_[i].rows(p), gradients_[i], o.dx[i]);
    }
  }

 private:
  struct Value {
    Shape shape;
    Order order;
    std::int64_t elements;  // of scratch for one array

    Value(Shape of, int batch)
        : shape{of}, order{of}, elements{order.elements(static_cast<int>(of.rows(batch, of[0])))} {}
    [[nodiscard]] int rows(Pass<host::Device> const& p) const {
      return static_cast<int>(p.rows(shape));
    }
  };

  // With the inputs, behind which @p memory is then.
  JoinCall<P> read(Operands<T, P> const& o, Pass<host::Device> const& p, P*& memory) {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      shapes_[i] = detail::at_time(in_[i].shape, p.time);
      values_[i] = in_[i].order.read(p.device, in_[i].rows(p), o.x[i], memory);
      memory += in_[i].elements;
    }
    return {.batch = p.batch,
            .inputs = static_cast<int>(in_.size()),
            .training = p.training,
            .out = detail::at_time(out_.shape, p.time),
            .shapes = shapes_.data(),
            .values = values_.data(),
            .team = &p.device.team};
  }

  std::vector<Value> in_;
  Value out_;
  std::vector<Shape> shapes_;  // with this step's time
  std::vector<P const*> values_;
  std::vector<P*> gradients_;
};

}  // namespace tandem
