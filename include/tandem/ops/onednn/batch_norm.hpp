// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BatchNorm2d on Host, channels-last, with the ReLU behind it where the graph has fused one.

#include <algorithm>

#include <tandem/kernels/channels_last/batch_norm.hpp>
#include <tandem/kernels/channels_last/row_sums.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/ops/onednn/batch_norm_steps.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host::channels_last {

/// Statistics of the microbatch in training; running ones in evaluation and where frozen.
///
/// The gradient slots of the running statistics receive share * (mean, unbiased variance), so that
/// the sum over a step's microbatches is their average, whoever computed them. `saved` is a
/// BatchNormSaved; the sums in it are made by input_gradient, or by weight_gradient where there is
/// none.
template <class T>
class BatchNormOp {
 public:
  BatchNormOp(OpSetup const& setup, double epsilon)
      : steps_{setup, epsilon}, frozen_{setup.node.frozen}, summed_{setup.wants_input_gradient} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = BatchNormSaved<float>::bytes(steps_.channels),
            .scratch_bytes = RowScratch::bytes(steps_.largest * steps_.pixels, steps_.channels)};
  }

  /// An empty microbatch has no statistics; its gradients are 0.
  void forward(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (p.batch == 0) {
      return;
    }
    if (p.training && !frozen_) {
      steps_.moments(o, p);
      steps_.apply(o, p, steps_.batch_affine(o, p));
    } else {
      steps_.apply(o, p, steps_.running_affine(o, p));
    }
  }

  void input_gradient(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (p.batch == 0) {
      return;
    }
    if (!frozen_) {
      steps_.gradient_sums(o, p);
    }
    RowScratch const scratch = steps_.scratch_of(p);
    float* const slope = scratch.constant(1);
    float* const offset = scratch.constant(2);
    BatchNormAffine const a = frozen_ ? steps_.running_affine(o, p) : steps_.batch_affine(o, p);
    BatchNormSaved<float> const s = steps_.saved(o);
    auto const count = static_cast<float>(steps_.rows(p));
    for (int c = 0; c < steps_.channels; ++c) {
      float const inverse = frozen_ ? 0.0F : s.inverse_deviation[c];
      slope[c] = frozen_ ? 0.0F : -(s.sum_dy_x[c] / count * inverse * inverse);
      offset[c] = frozen_ ? 0.0F : -(s.sum_dy[c] / count);
    }
    steps_.input_gradient(o, p, a, slope, offset);
  }

  /// The engine never calls it where the layer is frozen.
  void weight_gradient(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (p.batch == 0) {
      for (int i = 0; i < 4 && !p.accumulate; ++i) {
        std::fill(o.gradient[i], o.gradient[i] + steps_.channels, 0.0F);
      }
      if (steps_.absorbed != 0 && !p.accumulate) {
        std::fill_n(o.gradient[steps_.absorbed], steps_.channels, 0.0F);
      }
      return;
    }
    if (!summed_) {
      steps_.gradient_sums(o, p);
    }
    steps_.weight_gradient(o, p, steps_.rows(p));
  }

 private:
  BatchNormSteps<T> steps_;
  bool frozen_;
  bool summed_;
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
