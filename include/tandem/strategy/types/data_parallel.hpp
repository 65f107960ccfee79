// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SingleDevice and DataParallel: strategies as types, each lowered to a Batching.

#include <concepts>

#include <tandem/core/mesh.hpp>
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
/// same microbatches as a weighted DataParallel), Reproducible, BucketBytes.
///
///   rank 0 | parameters | F0 B0 F1 B1 … | update
///
/// The primary template is the error path.
template <class... Options>
struct SingleDevice : OneDeviceModel<1> {
  static constexpr int ranks = 1;
  static constexpr Batching batching{};
  static_assert(detail::are_batching_options<Options...>,
                "SingleDevice<Options...>: options are Microbatches, Weighted, Reproducible and "
                "BucketBytes");
};

template <class... Options>
  requires(BatchingOption<Options>&&...)
struct SingleDevice<Options...>
    : OneDeviceModel<detail::gather_batching<1, Options...>().microbatches> {
  static constexpr int ranks = 1;
  static constexpr Batching batching = detail::gather_batching<1, Options...>();
  static_assert(
      batching.shards == 0 ||
          batching.microbatches % (batching.shards + (batching.shards == 0)) == 0,
      "SingleDevice<Microbatches<n>, Weighted<...>>: n must be a multiple of the number of "
      "weights");
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
  static_assert(!IsReproducible || !Rounds,
                "DataParallel<N, Wire<E>, Reproducible<>>: rounding on the way changes the bits "
                "with the number of devices; leave one of the two out");
};

template <int N, class... Options>
struct DataParallelIsSound {
  static constexpr Batching batching = gather_batching<N, Options...>();
  static constexpr Batching checked() { return batching; }
  static_assert(
      DataParallelOptionsStandAlone<batching.shards, N, leaves_fit(batching), batching.reproducible,
                                    batching.wire != WireFormat::exact>::value);
};

}  // namespace detail

/// A replica on each of N devices; each trains on its shard of the batch, and gradients are summed.
///
///   rank 0 | all parameters | microbatches 0 … k-1     | all-reduce by buckets, update
///   rank 1 | all parameters | microbatches k … 2k-1    | all-reduce by buckets, update
///
/// The global batch is split, never multiplied. Comm: one all-reduce a step of all gradients and
/// statistics, in buckets in the order in which backward makes them, while it goes on.
/// Options: Microbatches<k>, Weighted<w0, …> (N weights; largest remainder first, then lower rank),
/// Reproducible, Wire, BucketBytes. The primary template is the error path.
template <int N, class... Options>
struct DataParallel : OneDeviceModel<1> {
  static constexpr int ranks = 1;
  static constexpr Batching batching{};
  static_assert(N >= 1 && N <= detail::most_replicas,
                "DataParallel<N>: N must be from 1 to 1048576");
  static_assert(detail::are_batching_options<Options...>,
                "DataParallel<N, Options...>: options are Microbatches, Weighted, Reproducible, "
                "Wire and BucketBytes");
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

}  // namespace tandem
