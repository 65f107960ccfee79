// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BatchNorm2d on Host, channels-last, with the ReLU behind it where the graph has fused one.

#include <algorithm>
#include <cstdint>

#include <tandem/kernels/channels_last/batch_norm.hpp>
#include <tandem/kernels/channels_last/batch_norm_gradient.hpp>
#include <tandem/kernels/channels_last/row_sums.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host::channels_last {

/// Statistics of the microbatch in training; running ones in evaluation and where frozen.
///
/// Activations are (B, H, W, C), so a pixel is a row; x and y may be slices of wider pixels. The
/// gradient slots of the running statistics receive share * (mean, unbiased variance), so that the
/// sum over a step's microbatches is their average, whoever computed them. `saved` is a
/// BatchNormSaved; the sums in it are made by input_gradient, or by weight_gradient where there is
/// none.
template <class T>
class BatchNormOp {
 public:
  BatchNormOp(OpSetup const& setup, double epsilon)
      : channels_{setup.node.in[0]},
        pixels_{std::int64_t{setup.node.in[1]} * setup.node.in[2]},
        largest_{setup.batch},
        x_stride_{setup.x_stride > 0 ? setup.x_stride : channels_},
        y_stride_{setup.y_stride > 0 ? setup.y_stride : channels_},
        frozen_{setup.node.frozen},
        relu_{setup.node.relu},
        summed_{setup.wants_input_gradient},
        epsilon_{static_cast<float>(epsilon)} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = BatchNormSaved::bytes(channels_),
            .scratch_bytes = RowScratch::bytes(largest_ * pixels_, channels_)};
  }

  /// An empty microbatch has no statistics; its gradients are 0.
  void forward(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (p.batch == 0) {
      return;
    }
    if (p.training && !frozen_) {
      BatchNormSaved const s = saved(o);
      batch_norm_moments<T>(p.device.team, x(o), rows(p), channels_, epsilon_, s, p.device.scratch);
      apply(o, p, batch_affine(o, p));
    } else {
      apply(o, p, running_affine(o, p));
    }
  }

  void input_gradient(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (p.batch == 0) {
      return;
    }
    if (!frozen_) {
      sums(o, p);
    }
    RowScratch const scratch = scratch_of(p);
    float* const slope = scratch.constant(1);
    float* const offset = scratch.constant(2);
    BatchNormAffine const a = frozen_ ? running_affine(o, p) : batch_affine(o, p);
    BatchNormSaved const s = saved(o);
    auto const count = static_cast<float>(rows(p));
    for (int c = 0; c < channels_; ++c) {
      float const inverse = frozen_ ? 0.0F : s.inverse_deviation[c];
      slope[c] = frozen_ ? 0.0F : -(s.sum_dy_x[c] / count * inverse * inverse);
      offset[c] = frozen_ ? 0.0F : -(s.sum_dy[c] / count);
    }
    batch_norm_input_gradient<T>(p.device.team, x(o), dy(o), rows(p), channels_, a, relu_, slope,
                                 offset, {o.dx[0], x_stride_});
  }

  /// The engine never calls it where the layer is frozen.
  void weight_gradient(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (p.batch == 0) {
      for (int i = 0; i < 4 && !p.accumulate; ++i) {
        std::fill(o.gradient[i], o.gradient[i] + channels_, 0.0F);
      }
      return;
    }
    if (!summed_) {
      sums(o, p);
    }
    batch_norm_weight_gradient(
        rows(p), channels_, p.share, saved(o),
        BatchNormGradients{o.gradient[0], o.gradient[1], o.gradient[2], o.gradient[3]},
        p.accumulate);
  }

 protected:
  [[nodiscard]] std::int64_t rows(Pass<Device> const& p) const { return p.batch * pixels_; }
  [[nodiscard]] Rows<T const> x(Operands<T, float> const& o) const { return {o.x[0], x_stride_}; }
  [[nodiscard]] Rows<T const> dy(Operands<T, float> const& o) const { return {o.dy, y_stride_}; }
  [[nodiscard]] BatchNormSaved saved(Operands<T, float> const& o) const {
    return BatchNormSaved::at(o.saved, channels_);
  }
  [[nodiscard]] RowScratch scratch_of(Pass<Device> const& p) const {
    return {p.device.scratch, rows(p), channels_};
  }

  template <class Inverse>
  BatchNormAffine affine(Operands<T, float> const& o, Pass<Device> const& p, float const* center,
                         Inverse const& inverse) const {
    float* const scale = scratch_of(p).constant(0);
    for (int c = 0; c < channels_; ++c) {
      scale[c] = inverse(c) * o.parameter[0][c];
    }
    return {center, scale, o.parameter[1]};
  }
  [[nodiscard]] BatchNormAffine batch_affine(Operands<T, float> const& o,
                                             Pass<Device> const& p) const {
    BatchNormSaved const s = saved(o);
    return affine(o, p, s.mean, [&](int c) { return s.inverse_deviation[c]; });
  }
  [[nodiscard]] BatchNormAffine running_affine(Operands<T, float> const& o,
                                               Pass<Device> const& p) const {
    return affine(o, p, o.parameter[2], [&](int c) {
      return inverse_deviation_of(static_cast<double>(o.parameter[3][c]), epsilon_);
    });
  }

  void apply(Operands<T, float> const& o, Pass<Device> const& p, BatchNormAffine const& a) const {
    batch_norm_apply<T>(p.device.team, x(o), rows(p), channels_, a, relu_, {o.y, y_stride_});
  }
  void sums(Operands<T, float> const& o, Pass<Device> const& p) const {
    batch_norm_gradient_sums<T>(p.device.team, x(o), dy(o), rows(p), channels_, batch_affine(o, p),
                                relu_, saved(o), p.device.scratch);
  }

  int channels_;
  std::int64_t pixels_;
  std::int64_t largest_;  // samples of a microbatch
  std::int64_t x_stride_;
  std::int64_t y_stride_;
  bool frozen_;
  bool relu_;
  bool summed_;
  float epsilon_;
};

}  // namespace host::channels_last

template <class... Options, class Precision>
struct Op<BatchNorm2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::channels_last::BatchNormOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::BatchNormOp<typename Precision::Scalar>{
            setup, BatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem
