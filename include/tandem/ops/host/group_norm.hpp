// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GroupNorm and InstanceNorm2d on Host, portable kernels.

#include <algorithm>
#include <cstdint>

#include <tandem/kernels/functors/group_norm_geometry.hpp>
#include <tandem/kernels/host/group_norm.hpp>
#include <tandem/layers/group_norm.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Kernels on images whose maps stand one after another.
struct GroupNormByMaps {
  static void forward(Team& team, auto const&... rest) { group_norm_forward(team, rest...); }
  static void gradient(Team& team, auto const&... rest) { group_norm_gradient(team, rest...); }
};

/// Any of either layer: `saved` is a GroupNormSaved of each sample, whose sums input_gradient makes
/// on its way and weight_gradient only adds; where there is no input_gradient, weight_gradient
/// makes them.
template <class Kernels, class T, class P, bool Affine>
class GroupNormOp {
 public:
  GroupNormOp(OpSetup const& setup, int groups, double epsilon)
      : geometry_{setup.node.in[0], groups, setup.node.in.elements() / setup.node.in[0]},
        saved_{std::max(setup.batch, 1) * geometry_.saved() * static_cast<std::int64_t>(sizeof(P))},
        epsilon_{epsilon},
        sums_are_made_{setup.wants_input_gradient} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .saved_bytes = saved_}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    P const* const bias = Affine ? o.parameter[1] : nullptr;
    Kernels::forward(p.device.team, geometry_, p.batch, o.x[0], gain(o), bias, epsilon_, o.y,
                     saved(o));
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    Kernels::gradient(p.device.team, geometry_, p.batch, o.x[0], o.dy, gain(o), o.dx[0], saved(o));
  }
  void weight_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    if constexpr (Affine) {
      if (!sums_are_made_) {
        T* const none = nullptr;
        Kernels::gradient(p.device.team, geometry_, p.batch, o.x[0], o.dy, gain(o), none, saved(o));
      }
      group_norm_weight_gradient(p.device.team, geometry_, p.batch, saved(o), o.gradient[0],
                                 o.gradient[1], p.accumulate);
    }
  }

 private:
  [[nodiscard]] static P const* gain(Operands<T, P> const& o) {
    return Affine ? o.parameter[0] : nullptr;
  }
  [[nodiscard]] static P* saved(Operands<T, P> const& o) { return reinterpret_cast<P*>(o.saved); }

  GroupNormGeometry geometry_;
  std::int64_t saved_;
  double epsilon_;
  bool sums_are_made_;
};

template <class L, class Precision, class Kernels = GroupNormByMaps>
struct GroupNormOpOf
    : GroupNormOp<Kernels, typename Precision::Scalar, typename Precision::Master, L::affine> {
  explicit GroupNormOpOf(OpSetup const& setup)
      : GroupNormOp<Kernels, typename Precision::Scalar, typename Precision::Master, L::affine>{
            setup, L::groups(setup.node.in), L::epsilon} {}
};

}  // namespace host

template <int Count, class... Options, class Precision>
struct Op<GroupNorm<Count, Options...>, BasicHost<Portable, Precision>>
    : host::GroupNormOpOf<GroupNorm<Count, Options...>, Precision> {
  using host::GroupNormOpOf<GroupNorm<Count, Options...>, Precision>::GroupNormOpOf;
};

template <class... Options, class Precision>
struct Op<InstanceNorm2d<Options...>, BasicHost<Portable, Precision>>
    : host::GroupNormOpOf<InstanceNorm2d<Options...>, Precision> {
  using host::GroupNormOpOf<InstanceNorm2d<Options...>, Precision>::GroupNormOpOf;
};

}  // namespace tandem
