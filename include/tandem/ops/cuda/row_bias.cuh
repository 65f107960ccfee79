// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The bias of a Linear whose sum several ranks make, on Cuda.

#include <cstdint>

#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/layers/rows.hpp>
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
        scratch_{cuda::column_sum_scratch_bytes<T>(shape_.rows(setup.batch, shape_[0]),
                                                   detail::row_size(shape_))} {
    expects(shape_.rank != 3,
            "Trainer: TensorParallel of a Conv2d with a bias runs on Host; take Host, or NoBias");
  }

  [[nodiscard]] OpNeeds needs() const { return {.scratch_bytes = scratch_}; }

  void forward(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::add_bias(p.device.compute, o.x[0], o.y, o.parameter[0], p.rows(shape_),
                   detail::row_size(shape_));
  }
  void weight_gradient(Operands<T, P> const& o, Pass<cuda::RankDevice> const& p) const {
    cuda::column_sum(p.device.compute, o.dy, p.rows(shape_), detail::row_size(shape_),
                     o.gradient[0], p.accumulate, p.device.scratch);
  }

 private:
  Shape shape_;
  std::int64_t scratch_;
};

}  // namespace tandem
