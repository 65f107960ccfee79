// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SyncBatchNorm2d on Host, portable kernels.

#include <cstdint>
#include <span>

#include <tandem/core/mesh.hpp>
#include <tandem/kernels/functors/batch_norm_sums.hpp>
#include <tandem/kernels/host/synchronized_batch_norm.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/ops/host/batch_norm.hpp>
#include <tandem/ops/phases.hpp>

namespace tandem {

namespace host {

/// BatchNormOp, and the same with the passes cut in phases; between them the engine adds sums()
/// over the replicas. An engine with nothing to add calls BatchNormOp's own passes.
template <class T>
class SyncBatchNormOp : public BatchNormOp<T> {
 public:
  using BatchNormOp<T>::BatchNormOp;

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds needs = BatchNormOp<T>::needs();
    needs.saved_bytes = sums_offset() + BatchNormSums::elements(this->channels_) *
                                            static_cast<std::int64_t>(sizeof(double));
    return needs;
  }

  /// What is added over the replicas, in forward and in backward: part of what is saved.
  [[nodiscard]] std::span<double> sums(Operands<T> const& o) const {
    return {reinterpret_cast<double*>(o.saved + sums_offset()),
            static_cast<std::size_t>(BatchNormSums::elements(this->channels_))};
  }

  void local_sums(Operands<T> const& o, Pass<Device> const& p) const {
    batch_norm_local_sums(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                          this->running_mean(o), joint(o));
  }

  void forward_synchronized(Operands<T> const& o, Pass<Device> const& p) const {
    auto const s = this->saved(o);
    batch_norm_joint_statistics(this->channels_, this->running_mean(o), joint(o), this->epsilon_,
                                s.mean, s.inverse_deviation, s.variance);
    batch_norm_evaluation_forward(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                                  this->gain(o), this->bias(o), s.mean, s.variance, this->epsilon_,
                                  o.y);
  }

  void local_gradient_sums(Operands<T> const& o, Pass<Device> const& p) const {
    batch_norm_local_gradient_sums(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                                   o.dy, this->saved(o).mean, joint(o));
  }

  void input_gradient_synchronized(Operands<T> const& o, Pass<Device> const& p) const {
    auto const s = this->saved(o);
    batch_norm_joint_input_gradient(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                                    o.dy, this->gain(o), s.mean, s.inverse_deviation, joint(o),
                                    o.dx[0]);
  }

  /// Gain and bias of the own samples, which the engine adds over the replicas later; of the
  /// statistics of all the share of the own samples.
  void weight_gradient_synchronized(Operands<T> const& o, Pass<Device> const& p) const {
    auto const s = this->saved(o);
    batch_norm_parameter_gradient(p.device.team, p.batch, this->channels_, this->pixels_, o.x[0],
                                  o.dy, s.mean, s.inverse_deviation, o.gradient[0], o.gradient[1],
                                  p.accumulate);
    batch_norm_statistics(p.device.team, this->channels_,
                          static_cast<std::int64_t>(*joint(o).count), static_cast<T>(p.share),
                          s.mean, s.variance, o.gradient[2], o.gradient[3], p.accumulate);
  }

  using Sums = Collective<Axis::data, Joined::sum, &SyncBatchNormOp::sums>;
  using ForwardPhases = Phases<Compute<&SyncBatchNormOp::local_sums>, Sums,
                               Compute<&SyncBatchNormOp::forward_synchronized>>;
  using InputGradientPhases = Phases<Compute<&SyncBatchNormOp::local_gradient_sums>, Sums,
                                     Compute<&SyncBatchNormOp::input_gradient_synchronized>>;
  using WeightGradientPhases = Phases<Compute<&SyncBatchNormOp::weight_gradient_synchronized>>;

 private:
  [[nodiscard]] std::int64_t sums_offset() const {
    return (BatchNormOp<T>::needs().saved_bytes + 7) / 8 * 8;
  }
  [[nodiscard]] BatchNormSums joint(Operands<T> const& o) const {
    return BatchNormSums::at(sums(o).data(), this->channels_);
  }
};

}  // namespace host

template <class... Options, class Precision>
struct Op<SyncBatchNorm2d<Options...>, BasicHost<Portable, Precision>>
    : host::SyncBatchNormOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::SyncBatchNormOp<typename Precision::Scalar>{setup,
                                                          SyncBatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem
