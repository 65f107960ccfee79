// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The bias of a Linear whose sum several ranks make, on Host in vectors.

#include <algorithm>

#include <tandem/kernels/channels_last/row_bias.hpp>
#include <tandem/kernels/onednn/gradient.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// Its input's gradient is its output's: the engine passes it on.
template <class Precision>
class Op<RowBias, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit Op(OpSetup const& setup) : shape_{setup.node.out} {}

  [[nodiscard]] OpNeeds needs() const { return {.in_place = true}; }

  void forward(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    if (o.y != o.x[0]) {
      std::copy_n(o.x[0], p.elements(shape_), o.y);
    }
    host::channels_last::add_row_bias(p.device.team, p.rows(shape_), columns(), o.parameter[0],
                                      o.y);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    onednn::column_sum(p.device.team, o.dy, p.rows(shape_), columns(), columns(), o.gradient[0],
                       p.accumulate);
  }

 private:
  [[nodiscard]] int columns() const { return detail::row_size(shape_); }

  Shape shape_;
};

}  // namespace tandem
