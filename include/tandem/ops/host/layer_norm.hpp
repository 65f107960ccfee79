// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LayerNorm and RmsNorm on Host, with oneDNN and without.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/kernels/host/layer_norm.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// saved holds mean (not of an RMS norm) and inverse deviation of each row, and the gradients of
/// weight and bias, which input_gradient makes on its way and weight_gradient only adds; where
/// there is no input_gradient, weight_gradient makes them.
template <class T, class P, bool Centered, bool Bias>
class NormOp {
 public:
  NormOp(OpSetup const& setup, double epsilon)
      : shape_{setup.node.in},
        channels_{tandem::detail::row_size(shape_)},
        rows_{shape_.rows(std::max(setup.batch, 1), shape_[0])},
        epsilon_{epsilon},
        sums_are_made_{setup.wants_input_gradient} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = (2 * rows_ + 2 * channels_) * static_cast<std::int64_t>(sizeof(P)),
            .scratch_bytes = norm_scratch_bytes<T>(rows_, channels_)};
  }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    norm_forward<Centered>(p.device.team, p.rows(shape_), channels_, o.x[0], o.parameter[0],
                           Bias ? o.parameter[1] : nullptr, epsilon_, o.y, mean(o), inverse(o));
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    gradient(o, p, o.dx[0]);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    if (!sums_are_made_) {
      gradient(o, p, nullptr);
    }
    for (int i = 0; i < (Bias ? 2 : 1); ++i) {
      P const* const sum = sums(o) + i * channels_;
      for (int c = 0; c < channels_; ++c) {
        o.gradient[i][c] = sum[c] + (p.accumulate ? o.gradient[i][c] : P{0});
      }
    }
  }

 private:
  void gradient(Operands<T, P> const& o, Pass<Device> const& p, T* dx) const {
    norm_gradient<Centered>(p.device.team, p.rows(shape_), channels_, o.x[0], o.dy, o.parameter[0],
                            mean(o), inverse(o), dx, sums(o), Bias ? sums(o) + channels_ : nullptr,
                            p.device.scratch);
  }
  [[nodiscard]] P* mean(Operands<T, P> const& o) const { return reinterpret_cast<P*>(o.saved); }
  [[nodiscard]] P* inverse(Operands<T, P> const& o) const { return mean(o) + rows_; }
  [[nodiscard]] P* sums(Operands<T, P> const& o) const { return mean(o) + 2 * rows_; }

  Shape shape_;
  int channels_;
  std::int64_t rows_;  // at most
  double epsilon_;
  bool sums_are_made_;
};

}  // namespace host

template <class... Options, class Kernels, class Precision>
struct Op<LayerNorm<Options...>, BasicHost<Kernels, Precision>>
    : host::NormOp<typename Precision::Scalar, typename Precision::Master, true,
                   LayerNorm<Options...>::bias> {
  explicit Op(OpSetup const& setup)
      : host::NormOp<typename Precision::Scalar, typename Precision::Master, true,
                     LayerNorm<Options...>::bias>{setup, LayerNorm<Options...>::epsilon} {}
};

template <class... Options, class Kernels, class Precision>
struct Op<RmsNorm<Options...>, BasicHost<Kernels, Precision>>
    : host::NormOp<typename Precision::Scalar, typename Precision::Master, false, false> {
  explicit Op(OpSetup const& setup)
      : host::NormOp<typename Precision::Scalar, typename Precision::Master, false, false>{
            setup, RmsNorm<Options...>::epsilon} {}
};

}  // namespace tandem
