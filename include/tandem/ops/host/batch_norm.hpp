// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BatchNorm2d on Host, portable kernels.

#include <tandem/kernels/host/batch_norm.hpp>
#include <tandem/kernels/host/batch_norm_evaluation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Statistics of the microbatch in training; running ones in evaluation and where frozen.
///
/// saved holds mean, inverse deviation and biased variance, (C) each. The gradient slots of the
/// running statistics receive share * (mean, unbiased variance), so that the sum over a step's
/// microbatches is their average, whoever computed them.
template <class T>
class BatchNormOp {
 public:
  BatchNormOp(OpSetup const& setup, double epsilon)
      : channels_{setup.node.in[0]},
        pixels_{std::int64_t{setup.node.in[1]} * setup.node.in[2]},
        frozen_{setup.node.frozen},
        epsilon_{static_cast<T>(epsilon)} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true, .saved_bytes = 3 * channels_ * static_cast<std::int64_t>(sizeof(T))};
  }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    if (p.training && !frozen_) {
      Saved const s = saved(o);
      batch_norm_forward(p.device.team, p.batch, channels_, pixels_, o.x[0], gain(o), bias(o),
                         epsilon_, o.y, s.mean, s.inverse_deviation, s.variance);
    } else {
      batch_norm_evaluation_forward(p.device.team, p.batch, channels_, pixels_, o.x[0], gain(o),
                                    bias(o), running_mean(o), running_variance(o), epsilon_, o.y);
    }
  }

  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    if (frozen_) {
      batch_norm_evaluation_input_gradient(p.device.team, p.batch, channels_, pixels_, o.dy,
                                           gain(o), running_variance(o), epsilon_, o.dx[0]);
    } else {
      Saved const s = saved(o);
      batch_norm_input_gradient(p.device.team, p.batch, channels_, pixels_, o.x[0], o.dy, gain(o),
                                s.mean, s.inverse_deviation, o.dx[0]);
    }
  }

  void weight_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    Saved const s = saved(o);
    batch_norm_parameter_gradient(p.device.team, p.batch, channels_, pixels_, o.x[0], o.dy, s.mean,
                                  s.inverse_deviation, o.gradient[0], o.gradient[1], p.accumulate);
    batch_norm_statistics(p.device.team, channels_, p.batch * pixels_, static_cast<T>(p.share),
                          s.mean, s.variance, o.gradient[2], o.gradient[3], p.accumulate);
  }

 protected:
  struct Saved {
    T* mean;
    T* inverse_deviation;
    T* variance;
  };

  [[nodiscard]] Saved saved(Operands<T> const& o) const {
    T* const memory = reinterpret_cast<T*>(o.saved);
    return {memory, memory + channels_, memory + 2 * channels_};
  }
  static T const* gain(Operands<T> const& o) { return o.parameter[0]; }
  static T const* bias(Operands<T> const& o) { return o.parameter[1]; }
  static T const* running_mean(Operands<T> const& o) { return o.parameter[2]; }
  static T const* running_variance(Operands<T> const& o) { return o.parameter[3]; }

  int channels_;
  std::int64_t pixels_;
  bool frozen_;
  T epsilon_;
};

}  // namespace host

template <class... Options, class Precision>
struct Op<BatchNorm2d<Options...>, BasicHost<Portable, Precision>>
    : host::BatchNormOp<typename Precision::Scalar> {
  explicit Op(OpSetup const& setup)
      : host::BatchNormOp<typename Precision::Scalar>{setup, BatchNorm2d<Options...>::epsilon} {}
};

}  // namespace tandem
