// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ModelParallel: one model cut over several devices, one microbatch at a time.

#include <tandem/strategy/cut/model_shape.hpp>
#include <tandem/strategy/cut/placed.hpp>
#include <tandem/strategy/types/model_checks.hpp>
#include <tandem/strategy/types/model_options.hpp>

namespace tandem {

namespace detail {

// How is a TopSplits, an Auto or a Placed.
template <class How, int Microbatches>
struct SequentialModel {
  using HowType = How;
  static constexpr int devices = How::parts;
  static constexpr int copies = 1;

  template <class Net>
  struct Cut {
    static constexpr auto partition = How::template partition<Net>();
    static constexpr auto map = chain_map<devices>();
    static constexpr auto table =
        lower(sequential_table<devices, 2 * Microbatches>(map, Microbatches), map);
  };
};
template <IsPlacement How, int Microbatches>
struct SequentialModel<How, Microbatches> : PlacedModel<How, Microbatches> {};

}  // namespace detail

/// The model is cut; each device has a part of it, and one of them works at a time.
///
///   device 0 | layers 0 … a-1 | F0             B0 | F1 …
///   device 1 | the rest       |    F0       B0    |
///
/// How: ModelParallel<Split<a>, Split<b>, …> by consecutive top-level layers, the counts adding up
/// to the network's; ModelParallel<Auto<M>> likewise, the compiler balancing static costs;
/// ModelParallel<Placed<table>> any node on any device, so that branches run at the same time.
/// Options behind it: Microbatches, Reproducible, Checkpoint, BucketBytes, Slices.
/// Memory: a device has the parameters and the activations of its part only.
/// Comm: each tensor that crosses, and its gradient, once a microbatch.
/// The primary template is the error path.
template <class... Arguments>
struct ModelParallel : detail::NoModel {
  static_assert(detail::ModelArgumentsAreSound<Arguments...>::value);
};

template <class... Arguments>
  requires detail::ModelArguments<Arguments...>
struct ModelParallel<Arguments...>
    : detail::SequentialModel<typename detail::Cutting<Arguments...>::type,
                              detail::gather_batching<1, Arguments...>().microbatches> {
  using Model = detail::SequentialModel<typename detail::Cutting<Arguments...>::type,
                                        detail::gather_batching<1, Arguments...>().microbatches>;
  static constexpr Mesh mesh{Axis::model, Model::devices};
  static constexpr int ranks = mesh.size();
  static constexpr CheckpointRule checkpoint = detail::checkpoint_of<Arguments...>();
  /// In so many replicas, with options of the strategy around it.
  template <int Replicas, class... More>
  static constexpr Batching batching_for =
      detail::gather_batching<Replicas, Arguments..., More...>();
  static constexpr Batching batching =
      detail::ModelKeepsLeaves<batching_for<1>.reproducible, batching_for<1>.leaves,
                               batching_for<1>.microbatches, 1>::checked(batching_for<1>);
};

}  // namespace tandem
