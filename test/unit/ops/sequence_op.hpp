// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// run_op(): all passes of one op on a timed input, for the tests of the layers of sequences; what
/// it must not touch is NaN or has guards.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/graph.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/buffer.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::test {

using Numbers = std::vector<double>;

template <class T>
std::vector<T> cast(Numbers const& list) {
  std::vector<T> result;
  for (double const number : list) {
    result.push_back(T(number));
  }
  return result;
}
template <class T>
Numbers widened(std::vector<T> const& list) {
  return {list.begin(), list.end()};
}

/// What a microbatch is, and what it is computed on.
struct OpTask {
  int batch = 1;
  int time = 1;
  std::vector<std::int32_t> lengths{};
  std::vector<std::int32_t> targets{};
  double row_scale = 1.0;
  std::int64_t first_sample = 0;
  int threads = 1;
  bool training = true;
  bool twice = false;  ///< a second time, adding to the gradients
  bool wants_input_gradient = true;
  std::int64_t step = 4;
  std::byte* carry = nullptr;  ///< of a layer that is Stateful, where its states are
  std::byte* carried_on = nullptr;
};

struct OpResult {
  Numbers y, dx;
  std::vector<Numbers> gradients;

  /// All behind one another.
  [[nodiscard]] Numbers all() const {
    Numbers list = y;
    list.insert(list.end(), dx.begin(), dx.end());
    for (Numbers const& gradient : gradients) {
      list.insert(list.end(), gradient.begin(), gradient.end());
    }
    return list;
  }
};

/// Bytes of NaNs with a guard behind them.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::int64_t wanted)
      : bytes_{static_cast<std::size_t>(wanted)}, buffer_{bytes_ + guard} {
    std::memset(buffer_.data(), 0xFF, buffer_.bytes());
  }
  ~GuardedBytes() {
    bool whole = true;
    for (std::size_t i = bytes_; i < bytes_ + guard; ++i) {
      whole = whole && buffer_.data()[i] == std::byte{0xFF};
    }
    CHECK(whole);
  }
  [[nodiscard]] std::byte* data() const { return buffer_.data(); }

 private:
  static constexpr std::size_t guard = 128;
  std::size_t bytes_;
  host::Buffer buffer_;
};

/// @param x   (B, time, C); of the op's Scalar after rounding
/// @param dy  of y, or empty: that of a criterion, which reads none
template <class L, class Backend>
OpResult run_op(Shape in, OpTask const& task, Numbers const& x, std::vector<Numbers> const& weights,
                Numbers const& dy) {
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  Node const node{.kind = NodeKind::layer,
                  .needs_gradient = true,
                  .edges = 1,
                  .in = in,
                  .out = L::output(in),
                  .sequence = {.carried = carried_of<L>()}};
  host::Device device{task.threads};
  Op<L, Backend> op{
      OpSetup{node, 9, &node.in, task.batch, task.threads, task.wants_input_gradient}};
  OpNeeds const needs = op.needs();
  GuardedBytes const scratch{needs.scratch_bytes};
  GuardedBytes const saved{needs.saved_bytes};
  GuardedBytes const packed{needs.packed_bytes};
  device.scratch = scratch.data();
  StepState const state{.seed = 5, .step = task.step};

  auto const rounded = cast<T>(x);
  auto const gradient_of_y = cast<T>(dy);
  T const nan = T{std::numeric_limits<float>::quiet_NaN()};
  std::vector<T> y(static_cast<std::size_t>(task.batch * node.out.elements(task.time)), nan);
  std::vector<T> dx(x.size(), nan);
  std::vector<std::vector<P>> parameters;
  std::vector<std::vector<P>> gradients;
  for (Numbers const& weight : weights) {
    parameters.push_back(cast<P>(weight));
    gradients.emplace_back(weight.size(), std::numeric_limits<P>::quiet_NaN());
  }
  std::vector<P*> parameter;
  std::vector<P*> gradient;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    parameter.push_back(parameters[i].data());
    gradient.push_back(gradients[i].data());
  }
  T const* const xs = rounded.data();
  T* const dxs = dx.data();
  Operands<T, P> const o{.x = &xs,
                         .y = y.data(),
                         .dy = dy.empty() ? nullptr : gradient_of_y.data(),
                         .dx = &dxs,
                         .parameter = parameter.data(),
                         .gradient = gradient.data(),
                         .saved = saved.data(),
                         .packed = packed.data(),
                         .sequence = {.carry = task.carry, .carried_on = task.carried_on}};
  Pass<host::Device> pass{
      .device = device,
      .batch = task.batch,
      .first_sample = task.first_sample,
      .state = &state,
      .training = task.training,
      .time = task.time,
      .lengths = task.lengths.empty() ? nullptr : task.lengths.data(),
      .criterion = {.targets = task.targets.empty() ? nullptr : task.targets.data(),
                    .row_scale = &task.row_scale}};
  if constexpr (requires { op.pack(o, device); }) {
    op.pack(o, device);
  }
  op.forward(o, pass);
  if (task.training) {
    if (task.wants_input_gradient) {
      op.input_gradient(o, pass);
    }
    if constexpr (requires { op.weight_gradient(o, pass); }) {
      op.weight_gradient(o, pass);
      pass.accumulate = true;
      if (task.twice) {
        op.weight_gradient(o, pass);
      }
    }
  }
  OpResult result{widened(y), widened(dx), {}};
  for (auto const& one : gradients) {
    result.gradients.push_back(widened(one));
  }
  return result;
}

}  // namespace tandem::test
