// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SingleDevice and DataParallel: strategies as types, each lowered to a Batching.

#include <concepts>

#include <tandem/core/mesh.hpp>
#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/cut/model_shape.hpp>

namespace tandem {

/// A way to train: a `mesh` of `ranks` devices, `devices` of them for each replica of the model,
/// `copies` of the model in a replica; how the batch is spread over the replicas, what is computed
/// again, and how a network is cut (see model_shape.hpp).
template <class S>
concept Strategy = requires {
  { S::mesh } -> std::convertible_to<Mesh>;
  { S::ranks } -> std::convertible_to<int>;
  { S::devices } -> std::convertible_to<int>;
  { S::copies } -> std::convertible_to<int>;
  { S::batching } -> std::convertible_to<Batching>;
  { S::checkpoint } -> std::convertible_to<CheckpointRule>;
  typename S::template Cut<void>;
};

/// Everything on one device. Options: Microbatches, Weighted (as many weights as shards, for the
/// same microbatches as a weighted DataParallel), Reproducible, BucketBytes, Slices.
///
///   rank 0 | parameters | F0 B0 F1 B1 … | update
///
/// The primary template is the error path.
template <class... Options>
struct SingleDevice : OneDeviceModel<1> {
  static constexpr int ranks = 1;
  static constexpr Batching batching{};
  static_assert(detail::ArgumentIs<detail::Argument::single_options,
                                   detail::are_batching_options<Options...>>::value);
};

template <class... Options>
  requires(BatchingOption<Options>&&...)
struct SingleDevice<Options...>
    : OneDeviceModel<detail::gather_batching<1, Options...>().microbatches> {
  static constexpr int ranks = 1;
  static constexpr Batching batching = detail::gather_batching<1, Options...>();
  static_assert(
      detail::ArgumentIs<detail::Argument::single_weights,
                         batching.microbatches % (batching.shards + (batching.shards == 0)) == 0,
                         batching.microbatches, batching.shards>::value);
  static_assert(detail::leaves_fit(batching),
                "Reproducible<Leaves>: the leaves must be a power of two that divides the "
                "microbatches; write Reproducible<1> for one leaf, or other Microbatches");
};

namespace detail {

/// The sentences for options that a DataParallel on its own cannot have.
template <int Shards, int N, bool LeavesFit, bool IsReproducible, bool Rounds>
struct DataParallelOptionsStandAlone {
  static constexpr bool value = true;
  static_assert(Shards == 0 || Shards == N,
                "DataParallel<N, Weighted<...>>: give N weights, one a device");
  static_assert(LeavesFit,
                "Reproducible<Leaves>: the leaves of one replica (Leaves / N) must be a power of "
                "two that divides its microbatches; write Reproducible<N> for one leaf a replica");
  static_assert(ArgumentIs<Argument::replicas_exact, !(IsReproducible && Rounds)>::value);
};

template <int N, class... Options>
struct DataParallelIsSound {
  static constexpr Batching batching = gather_batching<N, Options...>();
  static constexpr Batching checked() { return batching; }
  static_assert(
      DataParallelOptionsStandAlone<batching.shards, N, leaves_fit(batching), batching.reproducible,
                                    batching.wire != WireFormat::exact>::value);
};

/// Of DataParallel<by_world, Options...> on one device.
template <class... Options>
constexpr int microbatches_of_world() {
  Batching const named = gather_batching<1, Options...>();
  return !counts_microbatches<Options...> && named.all_leaves > 0 ? named.all_leaves
                                                                  : named.microbatches;
}

/// The sentences for options that no number of devices can have.
template <class... Options>
struct WorldOptionsAreSound {
  static constexpr Batching batching =
      gather_batching<1, Options...>(microbatches_of_world<Options...>());
  static constexpr Batching checked() { return batching; }
  static_assert(ArgumentIs<Argument::world_weights, batching.shards == 0>::value);
  static_assert(DataParallelOptionsStandAlone<0, 1, true, batching.reproducible,
                                              batching.wire != WireFormat::exact>::value);
};

/// Whether a strategy has as many replicas as the program is started with. Then its mesh, ranks and
/// batching are those of one.
template <class S>
inline constexpr bool takes_any_replicas = false;
template <class S>
  requires requires { S::any_replicas; }
inline constexpr bool takes_any_replicas<S> = S::any_replicas;

/// In how many slices a strategy computes each pair of Linears that it deals out; 1: in none.
template <class S>
inline constexpr int layer_slices_of = S::batching.slices > 0 ? S::batching.slices
                                                              : S::mesh.extent(Axis::tensor);

/// The microbatches of all replicas, where a strategy that takes any number says how many.
template <class S>
inline constexpr int all_microbatches_of = 0;
template <class S>
  requires requires { S::all_microbatches; }
inline constexpr int all_microbatches_of<S> = S::all_microbatches;

}  // namespace detail

/// A replica on each of N devices; each trains on its shard of the batch, and gradients are summed.
///
///   rank 0 | all parameters | microbatches 0 … k-1     | all-reduce by buckets, update
///   rank 1 | all parameters | microbatches k … 2k-1    | all-reduce by buckets, update
///
/// DataParallel<> has as many replicas as the program is started with: of .world, a process one, or
/// .world.devices; with options behind the name, DataParallel<by_world, Reproducible<8>>. Of these
/// Reproducible<Leaves> without Microbatches cuts the batch into as many microbatches as leaves, so
/// that the bits are the same on each number of devices that divides them; and
/// TrainerOptions::microbatches takes the place of both.
///
/// The global batch is split, never multiplied. Comm: one all-reduce a step of all gradients and
/// statistics, in buckets in the order in which backward makes them, while it goes on.
/// Options: Microbatches<k>, Weighted<w0, …> (N weights; largest remainder first, then lower rank),
/// Reproducible, Wire, BucketBytes, ShardedState, ShardedGradients, ShardedParameters, Slices.
/// The primary template is the error path.
template <int N = by_world, class... Options>
struct DataParallel : OneDeviceModel<1> {
  static constexpr int ranks = 1;
  static constexpr Batching batching{};
  static constexpr bool counts = (N >= 1 && N <= detail::most_replicas) || N == by_world;
  static_assert(detail::ArgumentIs<detail::Argument::replicas, counts, N>::value);
  static_assert(detail::ArgumentIs<detail::Argument::replicas_options,
                                   detail::are_batching_options<Options...>>::value);
};

template <int N, class... Options>
  requires(N >= 1 && N <= detail::most_replicas && (BatchingOption<Options> && ...))
struct DataParallel<N, Options...>
    : OneDeviceModel<detail::gather_batching<N, Options...>().microbatches> {
  static constexpr Mesh mesh{Axis::data, N};
  static constexpr int ranks = mesh.size();
  // Checked here and not in the class, which any call with a Hybrid among its types completes
  // (argument-dependent look-up): there these options are for the replicas of all parts.
  static constexpr Batching batching = detail::DataParallelIsSound<N, Options...>::checked();
};

/// What it says of itself is that of one replica.
template <class... Options>
  requires(BatchingOption<Options>&&...)
struct DataParallel<by_world, Options...>
    : OneDeviceModel<detail::microbatches_of_world<Options...>()> {
  static constexpr bool any_replicas = true;
  static constexpr Mesh mesh{};
  static constexpr int ranks = mesh.size();
  static constexpr Batching batching = detail::WorldOptionsAreSound<Options...>::checked();
  /// Of all replicas; 0: each has those of `batching`.
  static constexpr int all_microbatches =
      detail::counts_microbatches<Options...> ? 0 : batching.all_leaves;
};

}  // namespace tandem
