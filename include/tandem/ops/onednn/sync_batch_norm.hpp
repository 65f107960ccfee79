// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SyncBatchNorm2d on Host, channels-last, with the ReLU behind it where the graph has fused one.

#include <cstdint>
#include <span>

#include <tandem/kernels/functors/batch_norm_sums.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/ops/onednn/batch_norm.hpp>

namespace tandem {

namespace host::channels_last {

/// BatchNormOp, and the same with the passes cut in halves; between them the engine adds sums()
/// over the replicas. An engine with nothing to add calls BatchNormOp's own passes.
///
/// The sums of the own gradients stay in BatchNormSaved, for the weight gradient.
template <class T>
class SyncBatchNormOp : public BatchNormOp<T> {
  using Base = BatchNormOp<T>;

 public:
  using Base::Base;

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds needs = Base::needs();
    needs.saved_bytes = sums_offset() + BatchNormSums::elements(this->channels_) *
                                            static_cast<std::int64_t>(sizeof(double));
    return needs;
  }

  /// What is added over the replicas, in forward and in backward: part of what is saved.
  [[nodiscard]] std::span<double> sums(Operands<T, float> const& o) const {
    return {reinterpret_cast<double*>(o.saved + sums_offset()),
            static_cast<std::size_t>(BatchNormSums::elements(this->channels_))};
  }

  void local_sums(Operands<T, float> const& o, Pass<Device> const& p) const {
    BatchNormSaved const own = this->saved(o);
    batch_norm_moments<T>(p.device.team, this->x(o), this->rows(p), this->channels_, this->epsilon_,
                          own, p.device.scratch);
    BatchNormSums const all = joint(o);
    *all.count = static_cast<double>(this->rows(p));
    for (int c = 0; c < this->channels_; ++c) {
      set_shifted_sums(all, c, *all.count,
                       {static_cast<double>(own.mean[c]), static_cast<double>(own.variance[c])},
                       shift(o, c));
    }
  }

  void forward_synchronized(Operands<T, float> const& o, Pass<Device> const& p) const {
    BatchNormSaved const s = this->saved(o);
    for (int c = 0; c < this->channels_; ++c) {
      ChannelMoments const moments = moments_of(joint(o), c, shift(o, c));
      s.mean[c] = static_cast<float>(moments.mean);
      s.variance[c] = static_cast<float>(moments.variance);
      s.inverse_deviation[c] = inverse_deviation_of(moments.variance, this->epsilon_);
    }
    this->apply(o, p, this->batch_affine(o, p));
  }

  void local_gradient_sums(Operands<T, float> const& o, Pass<Device> const& p) const {
    Base::sums(o, p);
    BatchNormSaved const own = this->saved(o);
    BatchNormSums const all = joint(o);
    *all.count = static_cast<double>(this->rows(p));
    for (int c = 0; c < this->channels_; ++c) {
      all.first[c] = static_cast<double>(own.sum_dy[c]);
      all.second[c] = static_cast<double>(own.sum_dy_x[c]);
    }
  }

  void input_gradient_synchronized(Operands<T, float> const& o, Pass<Device> const& p) const {
    RowScratch const scratch = this->scratch_of(p);
    float* const slope = scratch.constant(1);
    float* const offset = scratch.constant(2);
    BatchNormSums const all = joint(o);
    BatchNormSaved const s = this->saved(o);
    for (int c = 0; c < this->channels_; ++c) {
      float const inverse = s.inverse_deviation[c];
      slope[c] = -(static_cast<float>(all.second[c] / *all.count) * inverse * inverse);
      offset[c] = -static_cast<float>(all.first[c] / *all.count);
    }
    batch_norm_input_gradient<T>(p.device.team, this->x(o), this->dy(o), this->rows(p),
                                 this->channels_, this->batch_affine(o, p), this->relu_, slope,
                                 offset, {o.dx[0], this->x_stride_});
  }

  /// Gain and bias of the own samples, which the engine adds over the replicas later; of the
  /// statistics of all the share of the own samples.
  void weight_gradient_synchronized(Operands<T, float> const& o, Pass<Device> const& p) const {
    if (!this->summed_) {
      Base::sums(o, p);
    }
    batch_norm_weight_gradient(
        static_cast<std::int64_t>(*joint(o).count), this->channels_, p.share, this->saved(o),
        BatchNormGradients{o.gradient[0], o.gradient[1], o.gradient[2], o.gradient[3]},
        p.accumulate);
  }

 private:
  [[nodiscard]] std::int64_t sums_offset() const { return (Base::needs().saved_bytes + 7) / 8 * 8; }
  [[nodiscard]] BatchNormSums joint(Operands<T, float> const& o) const {
    return BatchNormSums::at(sums(o).data(), this->channels_);
  }
  static double shift(Operands<T, float> const& o, int c) {
    return static_cast<double>(o.parameter[2][c]);
  }
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
