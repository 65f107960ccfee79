// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Options of strategies as types, and Batching, the value that they are lowered to.
///
/// DataParallel<3, Weighted<4, 4, 3>, Microbatches<2>, Reproducible<>>: options come in any order.

#include <concepts>
#include <cstdint>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/strategy/argument_rules.hpp>

namespace tandem {

// In these types the sentence stands last: clang drops the members behind one that fails.

/// Each replica takes its shard of the batch in Count parts, one after another (gradient
/// accumulation). The microbatch is the unit of batch-norm statistics.
template <int Count>
struct Microbatches {
  static constexpr int microbatches = Count >= 1 ? Count : 1;
  static_assert(detail::ArgumentIs<detail::Argument::microbatches, (Count >= 1), Count>::value);
};

/// Shards in proportion to these weights, for unequal devices; a weight of 0 is an empty shard.
template <int... Weights>
struct Weighted {
  static constexpr int count = sizeof...(Weights);
  static constexpr int weights[sizeof...(Weights) > 0 ? sizeof...(Weights) : 1] = {Weights...};
  static_assert(detail::ArgumentIs<detail::Argument::weights,
                                   (sizeof...(Weights) >= 1 && sizeof...(Weights) <= 64 &&
                                    ((Weights >= 0) && ...) && (0 + ... + Weights) > 0)>::value);
};

/// The same bits on any number of devices: gradients are added by a tree that the index of a leaf
/// fixes. A leaf is a run of consecutive microbatches; Leaves is how many the whole batch has, by
/// default one a microbatch. A replica needs 1 + log2(its leaves) gradient buffers.
template <int Leaves = 0>
struct Reproducible {
  static constexpr int leaves = Leaves >= 0 ? Leaves : 0;
  static_assert(detail::ArgumentIs<detail::Argument::leaves, (Leaves >= 0), Leaves>::value);
};

/// Each pair of Linears is computed in Count slices, as under TensorParallel<Count> (see there), on
/// as many devices as share it; their sums are joined by a tree that the index of a slice fixes.
/// With Reproducible the bits do not depend on that number then. A device with several slices
/// computes one after another.
template <int Count>
struct Slices {
  static constexpr int slices = Count >= 1 && Count <= 1024 ? Count : 1;
  static_assert(detail::ArgumentIs<detail::Argument::slices, slices == Count, Count>::value);
};

/// Sizes of the gradient buckets: the first small, so that reduction begins early.
template <std::int64_t First, std::int64_t Rest>
struct BucketBytes {
  static constexpr std::int64_t first_bucket = First;
  static constexpr std::int64_t bucket = Rest;
  static_assert(
      detail::ArgumentIs<detail::Argument::buckets, (First >= 1 && Rest >= 1), First, Rest>::value);
};

/// Gradients as they are sent: exact, or rounded to 16 bits.
enum class WireFormat : std::uint8_t { exact, bfloat16, float16 };

/// Gradients are rounded to E, BFloat16 or Float16, before they are summed over the replicas: half
/// the bytes to send for 8 or 11 bits of precision. Running averages of batch norm travel along.
/// Float16 has fewer bits below 6e-5 and none below 6e-8, and it ends at 65,504.
template <class E>
struct Wire {
  static constexpr WireFormat wire = std::same_as<E, BFloat16>  ? WireFormat::bfloat16
                                     : std::same_as<E, Float16> ? WireFormat::float16
                                                                : WireFormat::exact;
  static_assert(detail::ArgumentIs<detail::Argument::wire, wire != WireFormat::exact>::value);
};

/// Each replica has the optimizer's states of its own part of the parameters alone, 1/N of them,
/// and updates that part: gradients are added up where they are wanted, and the updated parameters
/// are gathered. The bits and the bytes sent of replicas that each update all.
/// Source: Rajbhandari et al. 2020, "ZeRO", stage 1.
struct ShardedState {
  static constexpr bool shards_state = true;
};

/// ShardedState, and gradients likewise: a bucket is added up over the replicas as soon as it is
/// whole, behind each microbatch, and a replica keeps the sums of its own part alone. Beside these
/// it has room for two buckets, the largest; see BucketBytes. The bits of ShardedState where a
/// replica has one microbatch; of several the sums have another order.
/// Comm: of each microbatch a reduce-scatter of all gradients, of a step a gather of the
///       parameters; one of the gradients for their norm.
/// Source: Rajbhandari et al. 2020, "ZeRO", stage 2.
struct ShardedGradients : ShardedState {
  static constexpr bool shards_gradients = true;
};

/// ShardedGradients, and parameters likewise: a replica keeps its part of each bucket, and each
/// pass gathers a bucket before its first layer needs it, while the one before is at work, in one
/// of two slots of the largest one's size, and drops it. Frozen parameters are whole everywhere.
/// Bits as of ShardedGradients. On Cuda, in 16 bits with slots of rounded ones beside these, and on
/// Host in Fp32 and Fp64, without layouts of the ops' own.
/// Comm: of each microbatch a gather of all parameters in forward, one in backward, and a
///       reduce-scatter of all gradients; of a step one gather of these for their norm.
/// Source: Rajbhandari et al. 2020, "ZeRO", stage 3.
struct ShardedParameters : ShardedGradients {
  static constexpr bool shards_parameters = true;
};

/// Pipeline<Schedule, Count, Chunks<K>, Split<a>, Split<b>, …>: the rows of each sequence come in K
/// chunks of time, one after another. A device hands a chunk on when it has it, and goes on with
/// the next: a wave through the devices, with the batch whole.
template <int Count>
struct Chunks {
  static constexpr int time_chunks = Count >= 1 ? Count : 1;
  static_assert(detail::ArgumentIs<detail::Argument::time_chunks, (Count >= 1), Count>::value);
};

/// How the global batch becomes an ordered list of microbatches, and who takes which: replica r the
/// `microbatches` consecutive ones from r * microbatches.
struct Batching {
  int replicas = 1;
  int microbatches = 1;  ///< of one replica
  int chunks = 1;        ///< of time, in which each microbatch's rows come
  int shards = 0;        ///< weighted shards; 0: all microbatches alike
  int weight[64] = {};
  bool reproducible = false;
  int leaves = 1;  ///< of one replica: runs of microbatches whose sums a fixed tree joins
  int all_leaves =
      0;  ///< of all replicas, where Reproducible<Leaves> says how many; 0: it does not
  WireFormat wire = WireFormat::exact;
  bool sharded_state = false;       ///< a replica has its part of the optimizer's states alone
  bool sharded_gradients = false;   ///< and of the gradients
  bool sharded_parameters = false;  ///< and of the parameters
  int slices = 0;  ///< of each pair of Linears; 0: one on each device that shares it
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;

  [[nodiscard]] constexpr int all_microbatches() const { return replicas * microbatches; }
  /// Passes of one replica, forward as backward: one for each chunk of each microbatch.
  [[nodiscard]] constexpr int passes() const { return microbatches * chunks; }
  /// The index among all of them of a replica's microbatch @p own.
  [[nodiscard]] constexpr int global(int replica, int own) const {
    return replica * microbatches + own;
  }
  /// Who takes a microbatch, counted over all replicas.
  [[nodiscard]] constexpr int replica_of(int global) const { return global / microbatches; }
  /// Which of the replica's @p copies of the model takes it: each has as many, in order.
  [[nodiscard]] constexpr int copy_of(int global, int copies) const {
    return global % microbatches * copies / microbatches;
  }
  /// Where a replica has the model in @p copies, each for its run of the microbatches: leaves of
  /// one.
  [[nodiscard]] constexpr int leaves_of_copy(int copies) const {
    return leaves > copies ? leaves / copies : 1;
  }
  /// Microbatches of a leaf: those whose gradients are added in place.
  [[nodiscard]] constexpr int leaf(int copies) const {
    return sharded_gradients && replicas > 1 ? 1 : microbatches / copies / leaves_of_copy(copies);
  }

  friend constexpr bool operator==(Batching const&, Batching const&) = default;
};

namespace detail {

/// Of a model that a type may ask for: so many of 2,047 microbatches each are as many as an int
/// counts.
inline constexpr int most_replicas = 1 << 20;

template <class T>
concept IsMicrobatches = requires {
  T::microbatches;
};
template <class... Options>
inline constexpr bool counts_microbatches = (IsMicrobatches<Options> || ...);

}  // namespace detail

template <class Option>
concept BatchingOption = requires {
  Option::microbatches;
}
|| requires { Option::weights; }
|| requires { Option::leaves; }
|| requires { Option::first_bucket; }
|| requires { Option::wire; }
|| requires { Option::shards_state; }
|| requires { Option::slices; };

namespace detail {

// For sentences: of a variable compilers do not go on to say what each requirement lacks.
template <class... Options>
inline constexpr bool are_batching_options = (BatchingOption<Options> && ...);

template <class Option>
constexpr void apply_batching_option(Batching& batching) {
  if constexpr (requires { Option::microbatches; }) {
    batching.microbatches = Option::microbatches;
  } else if constexpr (requires { Option::weights; }) {
    batching.shards = Option::count;
    for (int shard = 0; shard < Option::count && shard < 64; ++shard) {
      batching.weight[shard] = Option::weights[shard];
    }
  } else if constexpr (requires { Option::leaves; }) {
    batching.reproducible = true;
    batching.all_leaves = Option::leaves;
  } else if constexpr (requires { Option::wire; }) {
    batching.wire = Option::wire;
  } else if constexpr (requires { Option::shards_state; }) {
    batching.sharded_state = true;
    batching.sharded_gradients = requires { Option::shards_gradients; };
    batching.sharded_parameters = requires { Option::shards_parameters; };
  } else if constexpr (requires { Option::slices; }) {
    batching.slices = Option::slices;
  } else {
    batching.first_bucket_bytes = Option::first_bucket;
    batching.bucket_bytes = Option::bucket;
  }
}

/// The leaves of one replica; 0 where those of all are no multiple of the replicas.
constexpr int leaves_of_replica(Batching const& batching) {
  int const all = batching.all_leaves;
  return !batching.reproducible         ? 1
         : all == 0                     ? batching.microbatches
         : all % batching.replicas == 0 ? all / batching.replicas
                                        : 0;
}

// The options gathered. Options of other kinds are for others.
template <int Replicas, class... Options>
constexpr Batching gather_batching(int microbatches = 1) {
  Batching batching{.replicas = Replicas, .microbatches = microbatches};
  [[maybe_unused]] auto const take = [&]<class Option>(Option const*) {
    if constexpr (BatchingOption<Option>) {
      apply_batching_option<Option>(batching);
    }
  };
  (take(static_cast<Options const*>(nullptr)), ...);
  batching.leaves = leaves_of_replica(batching);
  return batching;
}

constexpr Batching cut_time(Batching batching, int chunks) {
  batching.chunks = chunks;
  return batching;
}

constexpr bool leaves_fit(Batching const& b) {
  bool const power_of_two = b.leaves > 0 && (b.leaves & (b.leaves - 1)) == 0;
  return power_of_two && b.microbatches % b.leaves == 0;
}

}  // namespace detail

}  // namespace tandem
