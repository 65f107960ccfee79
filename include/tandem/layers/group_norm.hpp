// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GroupNorm and InstanceNorm2d: groups of channels of each sample normalised by themselves.

#include <concepts>
#include <string_view>

#include <tandem/graph/layer.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

/// A norm with a weight and a bias, as a GroupNorm has unless it is told otherwise; and one without
/// either, as an InstanceNorm2d.
struct Affine {
  static constexpr bool affine = true;
};
struct NoAffine {
  static constexpr bool affine = false;
};

template <class Option>
concept GroupNormOption = requires {
  Option::epsilon;
}
|| requires { Option::affine; };

namespace detail {

template <int Count, class... Options>
struct GroupNormIsSound {
  static constexpr bool value = true;
  static_assert(Count >= 1, "GroupNorm<Groups, Options...>: give a positive number of groups");
  static_assert((GroupNormOption<Options> && ...),
                "GroupNorm<Groups, Options...>: options are Epsilon and NoAffine");
};

template <class... Options>
struct InstanceNorm2dIsSound {
  static constexpr bool value = true;
  static_assert((GroupNormOption<Options> && ...),
                "InstanceNorm2d<Options...>: options are Epsilon and Affine");
};

template <class... Options>
constexpr bool affine_of(bool otherwise) {
  bool affine = otherwise;
  [[maybe_unused]] auto const apply = [&]<class Option>(Option const*) {
    if constexpr (requires { Option::affine; }) {
      affine = Option::affine;
    }
  };
  (apply(static_cast<Options const*>(nullptr)), ...);
  return affine;
}

// In `Count` groups, 0: of one channel each.
template <int Count, bool HasParameters, class... Options>
struct GroupNormLayer {
  static constexpr double epsilon = gather_options<Options...>().epsilon;
  static constexpr bool affine = HasParameters;

  static constexpr int groups(Shape in) { return Count > 0 ? Count : in[0]; }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Kept kept(Shape in) {
    return Kept::of(true, false, 0, 2 * (std::int64_t{groups(in)} + in[0]));
  }
  static constexpr Parameters parameters(Shape in) {
    if constexpr (affine) {
      Shape const channels = vector_shape(in[0]);
      return Parameters{Parameter{"weight", channels, Init::constant(1.0F)},
                        Parameter{"bias", channels, Init::constant(0.0F)}};
    } else {
      return {};
    }
  }
};

}  // namespace detail

/// y = (x - mean) / sqrt(variance + epsilon) weight + bias, mean and variance of C / Count
/// neighbouring channels of a sample, over all its pixels. Options: Epsilon (1e-5), NoAffine.
///
/// Shapes: x (B, C, H, W) or (B, C), weight and bias (C); y as x.
/// Saves:  of each sample mean and 1 / sqrt(variance + epsilon) of each group, and two sums of each
///         channel.
/// Init:   weight 1, bias 0.
/// No sample sees another: training and evaluation are the same, and no strategy changes it.
/// Source: Wu, He, arXiv:1803.08494, section 3
/// The primary template is the error path.
template <int Count, class... Options>
struct GroupNorm {
  static constexpr std::string_view name = "GroupNorm";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::GroupNormIsSound<Count, Options...>::value);
};

template <int Count, GroupNormOption... Options>
  requires(Count >= 1)
struct GroupNorm<Count, Options...>
    : detail::GroupNormLayer<Count, detail::affine_of<Options...>(true), Options...> {
  using layer = GroupNorm;
  static constexpr std::string_view name = "GroupNorm";

  static constexpr Fault fault(Shape in) {
    if (in.timed) {
      return Fault::a_sequence;
    }
    return in[0] % Count == 0 ? Fault::none : Fault::groups;
  }
};

/// A GroupNorm of one channel a group, without weight and bias unless it is told Affine; it keeps
/// no running statistics. Options: Epsilon (1e-5), Affine.
///
/// Shapes: x (B, C, H, W); y as x.
/// Source: Ulyanov, Vedaldi, Lempitsky, arXiv:1607.08022
/// The primary template is the error path.
template <class... Options>
struct InstanceNorm2d {
  static constexpr std::string_view name = "InstanceNorm2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::InstanceNorm2dIsSound<Options...>::value);
};

template <GroupNormOption... Options>
struct InstanceNorm2d<Options...>
    : detail::GroupNormLayer<0, detail::affine_of<Options...>(false), Options...> {
  using layer = InstanceNorm2d;
  static constexpr std::string_view name = "InstanceNorm2d";

  static constexpr Fault fault(Shape in) {
    return in.rank == 3 ? Fault::none : Fault::not_an_image;
  }
};

}  // namespace tandem
