// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pad2d and Upsample on Host, channels-last.

#include <tandem/kernels/channels_last/resample.hpp>
#include <tandem/kernels/functors/resample_axes.hpp>
#include <tandem/layers/resample.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host::channels_last {

/// Both, in either mode.
template <class T, class P, class Axis>
class ResampleOp {
 public:
  explicit ResampleOp(Resampling<Axis> const& resampling) : resampling_{resampling} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::resample_forward(p.device.team, resampling_, p.batch, o.x[0], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    channels_last::resample_gradient(p.device.team, resampling_, p.batch, o.dy, o.dx[0]);
  }

 private:
  Resampling<Axis> resampling_;
};

}  // namespace host::channels_last

template <class... Options, class Precision>
struct Op<Pad2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::channels_last::ResampleOp<typename Precision::Scalar, typename Precision::Master,
                                      PadAxis> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::ResampleOp<typename Precision::Scalar, typename Precision::Master,
                                        PadAxis>{
            padded(setup.node.in, Pad2d<Options...>::padding, Pad2d<Options...>::mode)} {}
};

template <int Scale, class Mode, class Precision>
struct Op<Upsample<Scale, Mode>, BasicHost<OneDnn, Precision>>
    : host::channels_last::ResampleOp<typename Precision::Scalar, typename Precision::Master,
                                      UpsampleAxis<Upsample<Scale, Mode>::bilinear>> {
  explicit Op(OpSetup const& setup)
      : host::channels_last::ResampleOp<typename Precision::Scalar, typename Precision::Master,
                                        UpsampleAxis<Upsample<Scale, Mode>::bilinear>>{
            enlarged<Upsample<Scale, Mode>::bilinear>(setup.node.in, Scale)} {}
};

}  // namespace tandem
