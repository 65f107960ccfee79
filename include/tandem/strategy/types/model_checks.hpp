// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences for arguments of ModelParallel that do not go together, and for leaves that cannot
/// be kept; pipeline_checks.hpp has those of Pipeline.

#include <tandem/strategy/cut/model_shape.hpp>
#include <tandem/strategy/cut/placed.hpp>
#include <tandem/strategy/types/model_options.hpp>

namespace tandem {

namespace detail {

/// What a strategy at fault is, so that its sentence stays the only error.
struct NoModel : OneDeviceModel<1> {
  using Model = OneDeviceModel<1>;
  static constexpr int ranks = 1;
  template <int Replicas, class...>
  static constexpr Batching batching_for{.replicas = Replicas};
  static constexpr Batching batching{};
};

/// Whether @p First says how to cut: the next Split, a number of parts, a table.
template <class... Arguments>
struct BeginsWithACut {
  static constexpr bool value = false;
};
template <class First, class... Rest>
struct BeginsWithACut<First, Rest...> {
  static constexpr bool value = IsSplit<First> || CutsTops<First> || IsPlacement<First>;
};

/// Whether all behind it are options, or further Splits.
template <class... Arguments>
struct RestIsOptions {
  static constexpr bool value = false;
};
template <class First, class... Rest>
struct RestIsOptions<First, Rest...> {
  static constexpr bool value =
      ((ModelOption<Rest> || IsMicrobatches<Rest> || (IsSplit<First> && IsSplit<Rest>)) && ...);
};

template <class... Arguments>
inline constexpr bool recomputes_placed = (IsPlacement<Arguments> || ...) &&
                                          (IsCheckpoint<Arguments> || ...);

template <class... Arguments>
concept ModelArguments = BeginsWithACut<Arguments...>::value &&
    RestIsOptions<Arguments...>::value && !recomputes_placed<Arguments...>;

template <class... Arguments>
struct ModelArgumentsAreSound {
  static constexpr bool value = true;
  static constexpr bool begins = BeginsWithACut<Arguments...>::value;
  static constexpr bool options = !begins || RestIsOptions<Arguments...>::value;
  static_assert(begins,
                "ModelParallel<How, Options...>: say first how the model is cut: Split<a>, "
                "Split<b>, ... or Auto<Parts> or Placed<table>");
  static_assert(options,
                "ModelParallel<How, Options...>: options behind Split<a>, Split<b>, ... or "
                "Auto<Parts> or Placed<table> are Microbatches, Reproducible, Checkpoint, "
                "BucketBytes and Slices");
  static_assert(!options || !recomputes_placed<Arguments...>,
                "ModelParallel<Placed<table>, Checkpoint<...>>: a placed network's activations "
                "are kept; leave Checkpoint out, or cut by Split or Auto");
};

// The numbers are of one replica.
template <bool Reproducible, int Leaves, int Microbatches, int Copies>
struct ModelKeepsLeaves {
  static constexpr Batching checked(Batching const& batching) { return batching; }
  static_assert(
      !Reproducible ||
          (Microbatches % Copies == 0 && Leaves >= Copies && Leaves % Copies == 0 &&
           leaves_fit({.microbatches = Microbatches / Copies, .leaves = Leaves / Copies})),
      "Reproducible<Leaves>: the leaves of one copy of the model (Leaves / replicas, and half of "
      "that in Chimera) must be a power of two that divides its microbatches; write other Leaves "
      "(ModelKeepsLeaves names the leaves, microbatches and copies of a replica)");
};

}  // namespace detail

}  // namespace tandem
