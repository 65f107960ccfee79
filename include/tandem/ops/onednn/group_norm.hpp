// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GroupNorm and InstanceNorm2d on Host, channels-last: oneDNN 2 has no such primitive.

#include <tandem/kernels/channels_last/group_norm.hpp>
#include <tandem/layers/group_norm.hpp>
#include <tandem/ops/host/group_norm.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host::channels_last {

struct GroupNormByPixels {
  static void forward(Team& team, auto const&... rest) {
    channels_last::group_norm_forward(team, rest...);
  }
  static void gradient(Team& team, auto const&... rest) {
    channels_last::group_norm_gradient(team, rest...);
  }
};

}  // namespace host::channels_last

template <int Count, class... Options, class Precision>
struct Op<GroupNorm<Count, Options...>, BasicHost<OneDnn, Precision>>
    : host::GroupNormOpOf<GroupNorm<Count, Options...>, Precision,
                          host::channels_last::GroupNormByPixels> {
  using host::GroupNormOpOf<GroupNorm<Count, Options...>, Precision,
                            host::channels_last::GroupNormByPixels>::GroupNormOpOf;
};

template <class... Options, class Precision>
struct Op<InstanceNorm2d<Options...>, BasicHost<OneDnn, Precision>>
    : host::GroupNormOpOf<InstanceNorm2d<Options...>, Precision,
                          host::channels_last::GroupNormByPixels> {
  using host::GroupNormOpOf<InstanceNorm2d<Options...>, Precision,
                            host::channels_last::GroupNormByPixels>::GroupNormOpOf;
};

}  // namespace tandem
