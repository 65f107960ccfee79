// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LayerNorm and RmsNorm on Cuda.

#include <algorithm>
#include <cstdint>

#include <tandem/kernels/cuda/row_norm.cuh>
#include <tandem/kernels/cuda/row_norm_weight_gradient.cuh>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/ops/dropout_columns.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// `saved` is a RowNormSaved. It may compute the sum that it is of, and a dropout before that.
template <class Precision, RowNorm Kind, bool Bias>
class NormOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  NormOp(OpSetup const& setup, double epsilon)
      : shape_{setup.node.in},
        channels_{tandem::detail::row_size(shape_)},
        rows_{shape_.rows(std::max(setup.batch, 1), shape_[0])},
        sums_{setup.node.fusion.sums >= 0},
        rate_{static_cast<float>(setup.dropout)},
        layer_{static_cast<std::uint32_t>(setup.dropout_index)},
        epsilon_{epsilon} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = RowNormSaved<P>::bytes(Kind, rows_),
            .scratch_bytes = row_norm_scratch_bytes<T>(rows_, channels_)};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    P const* const bias = Bias ? o.parameter[1] : nullptr;
    row_norm_forward<Kind>(p.device.compute, sums_ ? o.fused.summands[0] : o.x[0], p.rows(shape_),
                           channels_, static_cast<P const*>(o.parameter[0]), bias, epsilon_, o.y,
                           saved(o), sums_ ? o.fused.summands[1] : nullptr, o.fused.sum,
                           dropout(p));
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    row_norm_input_gradient<Kind>(p.device.compute, o.x[0], o.dy, p.rows(shape_), channels_,
                                  static_cast<P const*>(o.parameter[0]), saved(o), o.dx[0],
                                  o.fused.also);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    row_norm_weight_gradient<Kind>(p.device.compute, o.x[0], o.dy, p.rows(shape_), channels_,
                                   saved(o), o.gradient[0], Bias ? o.gradient[1] : nullptr,
                                   p.accumulate, p.device.scratch);
  }

 private:
  // None in evaluation.
  [[nodiscard]] RowDropout dropout(Pass<RankDevice> const& p) const {
    if (rate_ == 0.0F || !p.training) {
      return {};
    }
    return {{&p.state->seed, &p.state->step, layer_, static_cast<std::uint32_t>(p.first_sample)},
            rate_,
            dropout_rows(shape_, p),
            p.sequence.first_row()};
  }
  [[nodiscard]] RowNormSaved<P> saved(Operands<T, P> const& o) const {
    return RowNormSaved<P>::at(Kind, o.saved, rows_);
  }

  Shape shape_;
  int channels_;
  std::int64_t rows_;  // at most
  bool sums_;          // x[0] is what it computes first
  float rate_;         // of what it drops from the first summand, as Dropout of index layer_ would
  std::uint32_t layer_;
  double epsilon_;
};

}  // namespace cuda

template <class... Options, class Kernels, class Precision>
struct Op<LayerNorm<Options...>, BasicCuda<Kernels, Precision>>
    : cuda::NormOp<Precision, cuda::RowNorm::layer, LayerNorm<Options...>::bias> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::NormOp<Precision, cuda::RowNorm::layer, LayerNorm<Options...>::bias>{
            setup, LayerNorm<Options...>::epsilon} {}
};

template <class... Options, class Kernels, class Precision>
struct Op<RmsNorm<Options...>, BasicCuda<Kernels, Precision>>
    : cuda::NormOp<Precision, cuda::RowNorm::rms, false> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::NormOp<Precision, cuda::RowNorm::rms, false>{setup, RmsNorm<Options...>::epsilon} {}
};

}  // namespace tandem
