// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The joins of a graph on Host, channels-last: Concat copies channels, Add sums its inputs.
///
/// Multiply is in ops/host/join.hpp. A Concat whose inputs are written in place is no op.

#include <vector>

#include <tandem/kernels/channels_last/concat.hpp>
#include <tandem/kernels/channels_last/elementwise.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

template <class Precision>
class Op<ConcatJoin, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : out_{setup.node.out} {
    for (int i = 0; i < setup.node.edges; ++i) {
      channels_.push_back(setup.inputs[i][channels_axis()]);
    }
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::concat_forward(p.device.team, pixels(p), parts(), channels_.data(), o.x,
                                        o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::concat_gradient(p.device.team, pixels(p), parts(), channels_.data(), o.dy,
                                         o.dx);
  }

 private:
  [[nodiscard]] int parts() const { return static_cast<int>(channels_.size()); }
  [[nodiscard]] int channels_axis() const { return out_.timed ? 1 : 0; }
  // What has channels of its own: pixels, vectors, rows of time.
  [[nodiscard]] std::int64_t pixels(Pass<host::Device> const& p) const {
    return p.rows(out_) * (out_.row_elements() / out_[channels_axis()]);
  }

  Shape out_;
  std::vector<int> channels_;
};

/// Its gradient is a view: the engine gives both inputs the gradient of the sum.
template <class Precision>
class Op<AddJoin, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::channels_last::sum(p.device.team, o.x, 2, o.y, p.elements(shape_));
  }

 private:
  Shape shape_;
};

}  // namespace tandem
