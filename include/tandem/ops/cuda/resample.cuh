// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pad2d and Upsample on Cuda.

#include <tandem/kernels/cuda/resample.cuh>
#include <tandem/kernels/functors/resample_axes.hpp>
#include <tandem/layers/resample.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Both, in either mode.
template <class T, class P, class Axis>
class ResampleOp {
 public:
  explicit ResampleOp(Resampling<Axis> const& resampling) : resampling_{resampling} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    resample_forward(p.device.compute, resampling_, p.batch, o.x[0], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    resample_gradient(p.device.compute, resampling_, p.batch, o.dy, o.dx[0]);
  }

 private:
  Resampling<Axis> resampling_;
};

}  // namespace cuda

template <class... Options, class Kernels, class Precision>
struct Op<Pad2d<Options...>, BasicCuda<Kernels, Precision>>
    : cuda::ResampleOp<typename Precision::Scalar, typename Precision::Master, PadAxis> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::ResampleOp<typename Precision::Scalar, typename Precision::Master, PadAxis>{
            padded(setup.node.in, Pad2d<Options...>::padding, Pad2d<Options...>::mode)} {}
};

template <int Scale, class Mode, class Kernels, class Precision>
struct Op<Upsample<Scale, Mode>, BasicCuda<Kernels, Precision>>
    : cuda::ResampleOp<typename Precision::Scalar, typename Precision::Master,
                       UpsampleAxis<Upsample<Scale, Mode>::bilinear>> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::ResampleOp<typename Precision::Scalar, typename Precision::Master,
                         UpsampleAxis<Upsample<Scale, Mode>::bilinear>>{
            enlarged<Upsample<Scale, Mode>::bilinear>(setup.node.in, Scale)} {}
};

}  // namespace tandem
