// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The bias of a Linear or Conv2d whose sum several ranks make, on Cuda.

#include <cstdint>

#include <tandem/graph/columns.hpp>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

/// Its input's gradient is its output's: the engine passes it on.
template <class Kernels, class Precision>
class Op<RowBias, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  Op(OpSetup const& setup, cuda::RankDevice&)
      : shape_{setup.node.out},
        columns_{detail::row_columns(shape_)},
        scratch_{cuda::column_sum_scratch_bytes<T>(setup.batch * shape_.elements() / columns_,
                                                   columns_)} {}

  [[nodiscard]] OpNeeds needs() const { return {.scratch_bytes = scratch_}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::add_bias(p.device.compute, o.x[0], o.y, o.parameter[0], rows(p), columns_);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::column_sum(p.device.compute, o.dy, rows(p), columns_, o.gradient[0], p.accumulate,
                     p.device.scratch);
  }

 private:
  // Pixels of an image, which is stored channels-last.
  [[nodiscard]] std::int64_t rows(Pass<cuda::RankDevice> const& p) const {
    return p.elements(shape_) / columns_;
  }

  Shape shape_;
  int columns_;
  std::int64_t scratch_;
};

}  // namespace tandem
