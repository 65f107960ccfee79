// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The bias of a Linear or Conv2d whose sum several ranks make, on Host in vectors: of the rows of
/// a sequence, or of the pixels of an image.

#include <algorithm>
#include <cstdint>

#include <tandem/graph/columns.hpp>
#include <tandem/kernels/channels_last/row_bias.hpp>
#include <tandem/kernels/onednn/gradient.hpp>
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
    host::channels_last::add_row_bias(p.device.team, rows(p), columns(), o.parameter[0], o.y);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<host::Device> const& p) const {
    onednn::column_sum(p.device.team, o.dy, rows(p), columns(), columns(), o.gradient[0],
                       p.accumulate);
  }

 private:
  [[nodiscard]] std::int64_t rows(Pass<host::Device> const& p) const {
    return shape_.rank == 3 ? std::int64_t{p.batch} * shape_[1] * shape_[2] : p.rows(shape_);
  }
  [[nodiscard]] int columns() const { return detail::row_columns(shape_); }

  Shape shape_;
};

}  // namespace tandem
