// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SyncBatchNorm2d on Host, channels-last, with the ReLU behind it where the graph has fused one.

#include <cstdint>
#include <span>

#include <tandem/core/mesh.hpp>
#include <tandem/kernels/functors/batch_norm_sums.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/ops/onednn/batch_norm.hpp>
#include <tandem/ops/onednn/batch_norm_steps.hpp>
#include <tandem/ops/phases.hpp>

namespace tandem {

namespace host::channels_last {

/// BatchNormOp's passes, for an engine that has nothing to add, and the same cut in phases; between
/// them the engine adds sums() over the replicas.
///
/// The sums of the own gradients stay in BatchNormSaved, for the weight gradient.
template <class T>
class SyncBatchNormOp {
 public:
  SyncBatchNormOp(OpSetup const& setup, double epsilon)
      : alone_{setup, epsilon}, steps_{setup, epsilon}, summed_{setup.wants_input_gradient} {}

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds needs = alone_.needs();
    needs.saved_bytes = sums_offset() + BatchNormSums::elements(steps_.channels) *
                                            static_cast<std::int64_t>(sizeof(double));
    return needs;
  }

  void forward(Operands<T, float> const& o, Pass<Device> const& p) const { alone_.forward(o, p); }
  void input_gradient(Operands<T, float> const& o, Pass<Device> const& p) const {
    alone_.input_gradient(o, p);
  }
  void weight_gradient(Operands<T, float> const& o, Pass<Device> const& p) const {
    alone_.weight_gradient(o, p);
  }

  /// What is added over the replicas, in forward and in backward: part of what is saved.
  [[nodiscard]] std::span<double> sums(Operands<T, float> const& o) const {
    return {reinterpret_cast<double*>(o.saved + sums_offset()),
            static_cast<std::size_t>(BatchNormSums::elements(steps_.channels))};
  }

  void local_sums(Operands<T, float> const& o, Pass<Device> const& p) const {
    steps_.moments(o, p);
    BatchNormSaved<float> const own = steps_.saved(o);
    BatchNormSums const all = joint(o);
    *all.count = static_cast<double>(steps_.rows(p));
    for (int c = 0; c < steps_.channels; ++c) {
      set_shifted_sums(all, c, *all.count,
                       {static_cast<double>(own.mean[c]), static_cast<double>(own.variance[c])},
                       shift(o, c));
    }
  }

  void forward_synchronized(Operands<T, float> const& o, Pass<Device> const& p) const {
    BatchNormSaved<float> const s = steps_.saved(o);
    for (int c = 0; c < steps_.channels; ++c) {
      ChannelMoments const moments = moments_of(joint(o), c, shift(o, c));
      s.mean[c] = static_cast<float>(moments.mean);
      s.variance[c] = static_cast<float>(moments.variance);
      s.inverse_deviation[c] = inverse_deviation_of(moments.variance, steps_.epsilon);
    }
    steps_.apply(o, p, steps_.batch_affine(o, p));
  }

  void local_gradient_sums(Operands<T, float> const& o, Pass<Device> const& p) const {
    steps_.gradient_sums(o, p);
    BatchNormSaved<float> const own = steps_.saved(o);
    BatchNormSums const all = joint(o);
    *all.count = static_cast<double>(steps_.rows(p));
    for (int c = 0; c < steps_.channels; ++c) {
      all.first[c] = static_cast<double>(own.sum_dy[c]);
      all.second[c] = static_cast<double>(own.sum_dy_x[c]);
    }
  }

  void input_gradient_synchronized(Operands<T, float> const& o, Pass<Device> const& p) const {
    RowScratch const scratch = steps_.scratch_of(p);
    float* const slope = scratch.constant(1);
    float* const offset = scratch.constant(2);
    BatchNormSums const all = joint(o);
    BatchNormSaved<float> const s = steps_.saved(o);
    for (int c = 0; c < steps_.channels; ++c) {
      float const inverse = s.inverse_deviation[c];
      slope[c] = -(static_cast<float>(all.second[c] / *all.count) * inverse * inverse);
      offset[c] = -static_cast<float>(all.first[c] / *all.count);
    }
    steps_.input_gradient(o, p, steps_.batch_affine(o, p), slope, offset);
  }

  /// Gain and bias of the own samples, which the engine adds over the replicas later; of the
  /// statistics of all the share of the own samples.
  void weight_gradient_synchronized(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (!summed_) {
      steps_.gradient_sums(o, p);
    }
    steps_.weight_gradient(o, p, static_cast<std::int64_t>(*joint(o).count));
  }

  using Sums = Collective<Axis::data, Joined::sum, &SyncBatchNormOp::sums>;
  using ForwardPhases = Phases<Compute<&SyncBatchNormOp::local_sums>, Sums,
                               Compute<&SyncBatchNormOp::forward_synchronized>>;
  using InputGradientPhases = Phases<Compute<&SyncBatchNormOp::local_gradient_sums>, Sums,
                                     Compute<&SyncBatchNormOp::input_gradient_synchronized>>;
  using WeightGradientPhases = Phases<Compute<&SyncBatchNormOp::weight_gradient_synchronized>>;

 private:
  [[nodiscard]] std::int64_t sums_offset() const {
    return (alone_.needs().saved_bytes + 7) / 8 * 8;
  }
  [[nodiscard]] BatchNormSums joint(Operands<T, float> const& o) const {
    return BatchNormSums::at(sums(o).data(), steps_.channels);
  }
  static double shift(Operands<T, float> const& o, int c) {
    return static_cast<double>(o.parameter[2][c]);
  }

  BatchNormOp<T> alone_;
  BatchNormSteps<T> steps_;
  bool summed_;
};

}  // namespace host::channels_last

template <class... Options, class Precision>
struct Op<SyncBatchNorm2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::channels_last::SyncBatchNormOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::SyncBatchNormOp<typename Precision::Scalar>{
            setup, SyncBatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem
