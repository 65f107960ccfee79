// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pad2d and Upsample on Host, portable kernels.

#include <tandem/kernels/functors/resample_axes.hpp>
#include <tandem/kernels/host/resample.hpp>
#include <tandem/layers/resample.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Both, in either mode.
template <class T, class Axis>
class ResampleOp {
 public:
  explicit ResampleOp(Resampling<Axis> const& resampling) : resampling_{resampling} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T> const& o, Pass<Device> const& p) const {
    resample_forward(p.device.team, resampling_, p.batch, o.x[0], o.y);
  }
  void input_gradient(Operands<T> const& o, Pass<Device> const& p) const {
    resample_gradient(p.device.team, resampling_, p.batch, o.dy, o.dx[0]);
  }

 private:
  Resampling<Axis> resampling_;
};

}  // namespace host

template <class... Options, class Precision>
struct Op<Pad2d<Options...>, BasicHost<Portable, Precision>>
    : host::ResampleOp<typename Precision::Scalar, PadAxis> {
  explicit Op(OpSetup const& setup)
      : host::ResampleOp<typename Precision::Scalar, PadAxis>{
            padded(setup.node.in, Pad2d<Options...>::padding, Pad2d<Options...>::mode)} {}
};

template <int Scale, class Mode, class Precision>
struct Op<Upsample<Scale, Mode>, BasicHost<Portable, Precision>>
    : host::ResampleOp<typename Precision::Scalar, UpsampleAxis<Upsample<Scale, Mode>::bilinear>> {
  explicit Op(OpSetup const& setup)
      : host::ResampleOp<typename Precision::Scalar, UpsampleAxis<Upsample<Scale, Mode>::bilinear>>{
            enlarged<Upsample<Scale, Mode>::bilinear>(setup.node.in, Scale)} {}
};

}  // namespace tandem
