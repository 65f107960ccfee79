// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The joins of a graph on Host: Concat copies channels, Add sums its inputs, and Multiply, with
/// oneDNN and without, multiplies them.

#include <vector>

#include <tandem/kernels/host/concat.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/kernels/host/product.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

template <class Precision>
class Op<ConcatJoin, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup) : out_{setup.node.out} {
    for (int i = 0; i < setup.node.edges; ++i) {
      parts_.push_back(setup.inputs[i].row_elements());
    }
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T> const& o, Pass<host::Device> const& p) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < parts_.size(); offset += parts_[i], ++i) {
      host::concat_forward(p.device.team, static_cast<int>(p.rows(out_)), parts_[i], offset,
                           out_.row_elements(), o.x[i], o.y);
    }
  }
  void input_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < parts_.size(); offset += parts_[i], ++i) {
      if (o.dx[i] != nullptr) {
        host::concat_gradient(p.device.team, static_cast<int>(p.rows(out_)), parts_[i], offset,
                              out_.row_elements(), o.dy, o.dx[i]);
      }
    }
  }

 private:
  Shape out_;
  std::vector<std::int64_t> parts_;  // elements of each input: of a sample, or of a row of time
};

/// Its gradient is a view: the engine gives both inputs the gradient of the sum.
template <class Precision>
class Op<AddJoin, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.in_place = true}; }

  void forward(Operands<T> const& o, Pass<host::Device> const& p) const {
    host::sum(p.device.team, o.x, 2, o.y, p.elements(shape_));
  }

 private:
  Shape shape_;
};

template <class Kernels, class Precision>
class Op<MultiplyJoin, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out}, factors_{setup.node.edges} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::product_forward(p.device.team, o.x, factors_, o.y, p.elements(shape_));
  }
  void input_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    host::product_gradient(p.device.team, o.x, factors_, o.dy, o.dx, p.elements(shape_));
  }

 private:
  Shape shape_;
  int factors_;
};

}  // namespace tandem
