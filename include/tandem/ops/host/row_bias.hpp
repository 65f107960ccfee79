// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The bias of a Linear or Conv2d whose sum several ranks make, on Host, portable kernels.

#include <algorithm>
#include <cstdint>

#include <tandem/kernels/host/linear.hpp>
#include <tandem/kernels/host/map_bias.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// Its input's gradient is its output's: the engine passes it on.
template <class Precision>
class Op<RowBias, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.in_place = true}; }

  void forward(Operands<T> const& o, Pass<host::Device> const& p) const {
    if (o.y != o.x[0]) {
      std::copy_n(o.x[0], p.elements(shape_), o.y);
    }
    if (shape_.rank == 3) {
      host::add_map_bias(p.device.team, p.batch, shape_[0], pixels(), o.parameter[0], o.y);
    } else {
      host::add_bias(p.device.team, rows(p), columns(), o.parameter[0], o.y);
    }
  }
  void weight_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    if (shape_.rank == 3) {
      host::map_bias_gradient(p.device.team, p.batch, shape_[0], pixels(), o.dy, o.gradient[0],
                              p.accumulate);
    } else {
      host::bias_gradient(p.device.team, rows(p), columns(), o.dy, o.gradient[0], p.accumulate);
    }
  }

 private:
  [[nodiscard]] int rows(Pass<host::Device> const& p) const {
    return static_cast<int>(p.rows(shape_));
  }
  [[nodiscard]] std::int64_t pixels() const { return std::int64_t{shape_[1]} * shape_[2]; }
  [[nodiscard]] int columns() const { return detail::row_size(shape_); }

  Shape shape_;
};

}  // namespace tandem
