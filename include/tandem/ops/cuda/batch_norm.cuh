// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BatchNorm2d on Cuda, with the ReLU behind it where the graph has fused one.

#include <cstdint>

#include <tandem/kernels/cuda/batch_norm.cuh>
#include <tandem/kernels/cuda/batch_norm_evaluation.cuh>
#include <tandem/kernels/cuda/batch_norm_gradient.cuh>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Statistics of the microbatch in training; running ones in evaluation and where frozen.
///
/// Activations are (B, H, W, C), so a channel is a column of B H W rows; x and y may be slices of
/// wider pixels. The gradient slots of the
/// running statistics receive share * (mean, unbiased variance), so that the sum over a step's
/// microbatches is their average, whoever computed them. `saved` is a BatchNormSaved; the sums in
/// it are made by input_gradient, or by weight_gradient where there is none.
template <class Precision>
class BatchNormOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  BatchNormOp(OpSetup const& setup, double epsilon)
      : channels_{setup.node.in[0]},
        pixels_{std::int64_t{setup.node.in[1]} * setup.node.in[2]},
        largest_{setup.batch},
        frozen_{setup.node.frozen},
        relu_{setup.node.fusion.relu},
        summed_{setup.wants_input_gradient},
        strides_{RowStrides{setup.x_stride, setup.y_stride}.of(setup.node.in[0])},
        absorbed_{setup.absorbed_bias},
        epsilon_{static_cast<P>(epsilon)} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = BatchNormSaved<P>::bytes(channels_),
            .scratch_bytes = batch_norm_scratch_bytes<T>(largest_ * pixels_, channels_)};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    if (p.training && !frozen_) {
      batch_norm_forward(p.device.compute, o.x[0], rows(p), channels_, gain(o), bias(o), epsilon_,
                         relu_, o.y, saved(o), p.device.scratch, strides_);
    } else {
      batch_norm_evaluation_forward(p.device.compute, o.x[0], rows(p), channels_, gain(o), bias(o),
                                    running_mean(o), running_variance(o), epsilon_, relu_, o.y,
                                    strides_);
    }
  }

  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    if (frozen_) {
      batch_norm_evaluation_input_gradient(p.device.compute, o.x[0], o.dy, rows(p), channels_,
                                           gain(o), bias(o), running_mean(o), running_variance(o),
                                           epsilon_, relu_, o.dx[0], strides_);
    } else {
      sums(o, p);
      batch_norm_input_gradient(p.device.compute, o.x[0], o.dy, rows(p), channels_, gain(o),
                                bias(o), relu_, saved(o), o.dx[0], strides_);
    }
  }

  /// Both gradients of a microbatch: those of the parameters in the kernel that sums.
  void both_gradients(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    sums(o, p, weights(o, p));
    batch_norm_input_gradient(p.device.compute, o.x[0], o.dy, rows(p), channels_, gain(o), bias(o),
                              relu_, saved(o), o.dx[0], strides_);
  }

  /// The engine never calls it where the layer is frozen.
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    if (summed_) {
      batch_norm_weight_gradient(p.device.compute, rows(p), channels_, p.share, saved(o),
                                 gradients(o), p.accumulate);
    } else {
      sums(o, p, weights(o, p));
    }
  }

 protected:
  [[nodiscard]] std::int64_t rows(Pass<RankDevice> const& p) const { return p.batch * pixels_; }
  [[nodiscard]] BatchNormSaved<P> saved(Operands<T, P> const& o) const {
    return BatchNormSaved<P>::at(o.saved, channels_);
  }
  template <class Weights = detail::NoBatchNormWeights>
  void sums(Operands<T, P> const& o, Pass<RankDevice> const& p, Weights const& weights = {}) const {
    batch_norm_gradient_sums(p.device.compute, o.x[0], o.dy, rows(p), channels_, gain(o), bias(o),
                             relu_, saved(o), p.device.scratch, strides_, weights);
  }
  [[nodiscard]] detail::BatchNormWeights<P> weights(Operands<T, P> const& o,
                                                    Pass<RankDevice> const& p) const {
    return {rows(p), p.share, saved(o), gradients(o), p.accumulate};
  }
  [[nodiscard]] BatchNormGradients<P> gradients(Operands<T, P> const& o) const {
    return {.gain = o.gradient[0],
            .bias = o.gradient[1],
            .mean = o.gradient[2],
            .variance = o.gradient[3],
            .absorbed = absorbed_ != 0 ? o.parameter[absorbed_] : nullptr,
            .absorbed_gradient = absorbed_ != 0 ? o.gradient[absorbed_] : nullptr};
  }
  static P const* gain(Operands<T, P> const& o) { return o.parameter[0]; }
  static P const* bias(Operands<T, P> const& o) { return o.parameter[1]; }
  static P const* running_mean(Operands<T, P> const& o) { return o.parameter[2]; }
  static P const* running_variance(Operands<T, P> const& o) { return o.parameter[3]; }

  int channels_;
  std::int64_t pixels_;
  std::int64_t largest_;  // samples of a microbatch
  bool frozen_;
  bool relu_;
  bool summed_;
  RowStrides strides_;  // of x, also of dx; of y, also of dy
  int absorbed_;        // see OpSetup::absorbed_bias
  P epsilon_;
};

}  // namespace cuda

template <class... Options, class Kernels, class Precision>
struct Op<BatchNorm2d<Options...>, BasicCuda<Kernels, Precision>> : cuda::BatchNormOp<Precision> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::BatchNormOp<Precision>{setup, BatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem
