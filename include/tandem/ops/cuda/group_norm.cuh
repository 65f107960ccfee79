// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GroupNorm and InstanceNorm2d on Cuda.

#include <algorithm>
#include <cstdint>

#include <tandem/kernels/cuda/group_norm.cuh>
#include <tandem/kernels/functors/group_norm_geometry.hpp>
#include <tandem/layers/group_norm.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any of either layer: `saved` is a GroupNormSaved of each sample, whose sums input_gradient makes
/// on its way and weight_gradient only adds; where there is no input_gradient, weight_gradient
/// makes them.
template <class Precision, bool Affine>
class GroupNormOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  GroupNormOp(OpSetup const& setup, int groups, double epsilon)
      : geometry_{setup.node.in[0], groups, setup.node.in.elements() / setup.node.in[0]},
        batch_{std::max(setup.batch, 1)},
        epsilon_{epsilon},
        sums_are_made_{setup.wants_input_gradient} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = batch_ * geometry_.saved() * static_cast<std::int64_t>(sizeof(P)),
            .scratch_bytes = group_norm_scratch_bytes<P>(geometry_, batch_)};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    P const* const bias = Affine ? o.parameter[1] : nullptr;
    group_norm_forward(p.device.compute, geometry_, p.batch, o.x[0], gain(o), bias, epsilon_, o.y,
                       saved(o));
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    group_norm_gradient(p.device.compute, geometry_, p.batch, o.x[0], o.dy, gain(o), o.dx[0],
                        saved(o), p.device.scratch);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    if constexpr (Affine) {
      if (!sums_are_made_) {
        T* const none = nullptr;
        group_norm_gradient(p.device.compute, geometry_, p.batch, o.x[0], o.dy, gain(o), none,
                            saved(o), p.device.scratch);
      }
      group_norm_weight_gradient(p.device.compute, geometry_, p.batch, saved(o), o.gradient[0],
                                 o.gradient[1], p.accumulate);
    }
  }

 private:
  [[nodiscard]] static P const* gain(Operands<T, P> const& o) {
    return Affine ? o.parameter[0] : nullptr;
  }
  [[nodiscard]] static P* saved(Operands<T, P> const& o) { return reinterpret_cast<P*>(o.saved); }

  GroupNormGeometry geometry_;
  std::int64_t batch_;
  double epsilon_;
  bool sums_are_made_;
};

template <class L, class Precision>
struct GroupNormOpOf : GroupNormOp<Precision, L::affine> {
  GroupNormOpOf(OpSetup const& setup, RankDevice&)
      : GroupNormOp<Precision, L::affine>{setup, L::groups(setup.node.in), L::epsilon} {}
};

}  // namespace cuda

template <int Count, class... Options, class Kernels, class Precision>
struct Op<GroupNorm<Count, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::GroupNormOpOf<GroupNorm<Count, Options...>, Precision> {
  using cuda::GroupNormOpOf<GroupNorm<Count, Options...>, Precision>::GroupNormOpOf;
};

template <class... Options, class Kernels, class Precision>
struct Op<InstanceNorm2d<Options...>, BasicCuda<Kernels, Precision>>
    : cuda::GroupNormOpOf<InstanceNorm2d<Options...>, Precision> {
  using cuda::GroupNormOpOf<InstanceNorm2d<Options...>, Precision>::GroupNormOpOf;
};

}  // namespace tandem
