// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SyncBatchNorm2d on Cuda, with the ReLU behind it where the graph has fused one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/mesh.hpp>
#include <tandem/kernels/cuda/batch_norm_moments.cuh>
#include <tandem/kernels/cuda/synchronized_batch_norm.cuh>
#include <tandem/kernels/functors/batch_norm_sums.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/ops/cuda/batch_norm.cuh>
#include <tandem/ops/phases.hpp>

namespace tandem {

namespace cuda {

/// BatchNormOp, and the same with the passes cut in phases; between them the engine adds sums()
/// over the replicas. An engine with nothing to add calls BatchNormOp's own passes.
///
/// The sums of the own gradients stay in BatchNormSaved, for the weight gradient.
template <class Precision>
class SyncBatchNormOp : public BatchNormOp<Precision> {
  using Base = BatchNormOp<Precision>;

 public:
  using Base::Base;
  using typename Base::P;
  using typename Base::T;

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds needs = Base::needs();
    needs.saved_bytes = sums_offset() + BatchNormSums::elements(this->channels_) *
                                            static_cast<std::int64_t>(sizeof(double));
    needs.scratch_bytes =
        std::max(needs.scratch_bytes, batch_norm_joint_scratch_bytes<P>(this->channels_));
    return needs;
  }

  /// What is added over the replicas, in forward and in backward: part of what is saved.
  [[nodiscard]] std::span<double> sums(Operands<T, P> const& o) const {
    return {reinterpret_cast<double*>(o.saved + sums_offset()),
            static_cast<std::size_t>(BatchNormSums::elements(this->channels_))};
  }

  void local_sums(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    BatchNormSaved<P> const own = this->saved(o);
    batch_norm_moments(p.device.compute, o.x[0], this->rows(p), this->channels_, this->epsilon_,
                       own.mean, own.inverse_deviation, own.variance, p.device.scratch,
                       this->strides_.x);
    batch_norm_local_sums(p.device.compute, this->rows(p), this->channels_, own,
                          this->running_mean(o), joint(o));
  }

  void forward_synchronized(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    BatchNormSaved<P> const s = this->saved(o);
    batch_norm_joint_statistics(p.device.compute, this->channels_, joint(o), this->running_mean(o),
                                this->epsilon_, s);
    detail::batch_norm_apply(p.device.compute, o.x[0], this->rows(p), this->channels_,
                             detail::BatchNormSource<P>{this->gain(o), this->bias(o), s.mean,
                                                        s.inverse_deviation, this->epsilon_, false},
                             this->relu_, o.y, this->strides_);
  }

  void local_gradient_sums(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    Base::sums(o, p);
    batch_norm_local_gradient_sums(p.device.compute, this->rows(p), this->channels_, this->saved(o),
                                   joint(o));
  }

  void input_gradient_synchronized(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    batch_norm_joint_input_gradient(p.device.compute, o.x[0], o.dy, this->rows(p), this->channels_,
                                    this->gain(o), this->bias(o), this->relu_, this->saved(o),
                                    joint(o), o.dx[0], p.device.scratch, this->strides_);
  }

  /// Gain and bias of the own samples, which the engine adds over the replicas later; of the
  /// statistics of all the share of the own samples.
  void weight_gradient_synchronized(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    if (!this->summed_) {
      Base::sums(o, p);
    }
    batch_norm_joint_weight_gradient(p.device.compute, this->channels_, p.share, this->saved(o),
                                     joint(o), this->gradients(o), p.accumulate);
  }

  using Sums = Collective<Axis::data, Joined::sum, &SyncBatchNormOp::sums>;
  using ForwardPhases = Phases<Compute<&SyncBatchNormOp::local_sums>, Sums,
                               Compute<&SyncBatchNormOp::forward_synchronized>>;
  using InputGradientPhases = Phases<Compute<&SyncBatchNormOp::local_gradient_sums>, Sums,
                                     Compute<&SyncBatchNormOp::input_gradient_synchronized>>;
  using WeightGradientPhases = Phases<Compute<&SyncBatchNormOp::weight_gradient_synchronized>>;

 private:
  [[nodiscard]] std::int64_t sums_offset() const { return (Base::needs().saved_bytes + 7) / 8 * 8; }
  [[nodiscard]] BatchNormSums joint(Operands<T, P> const& o) const {
    return BatchNormSums::at(sums(o).data(), this->channels_);
  }
};

}  // namespace cuda

template <class... Options, class Kernels, class Precision>
struct Op<SyncBatchNorm2d<Options...>, BasicCuda<Kernels, Precision>>
    : cuda::SyncBatchNormOp<Precision> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::SyncBatchNormOp<Precision>{setup, SyncBatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem
