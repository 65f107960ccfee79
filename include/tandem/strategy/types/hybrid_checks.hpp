// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences for strategies that cannot stand within each other.

#include <concepts>

#include <tandem/core/mesh.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/types/model_checks.hpp>

namespace tandem {

namespace detail {

/// Cuts the model.
template <class S>
concept CutsModel = requires {
  typename S::Model;
  { S::devices } -> std::convertible_to<int>;
};

/// A pipeline that is never emptied between steps.
template <class S>
concept TrainsAsynchronously = requires {
  S::asynchrony;
};

/// Can be in several replicas.
template <class S>
concept Replicable = CutsModel<S> && !TrainsAsynchronously<S>;

/// Its devices' parts can be shared: one model, which is not shared yet.
template <class S>
concept Sliceable = Replicable<S> && S::mesh.extent(Axis::tensor) == 1 && !requires {
  S::averaging;
};

/// A number of replicas, or the world's.
constexpr bool counts_replicas(int n) { return (n >= 1 && n <= most_replicas) || n == by_world; }

template <int N, class... Options>
concept ReplicatesModels = counts_replicas(N) &&(BatchingOption<Options>&&...) &&
                           !counts_microbatches<Options...>;

/// A DataParallel; not looked into, since alone it may not be sound.
template <class S>
struct Outer {
  static constexpr bool is = false;
  static constexpr bool counts = false;
  static constexpr bool sound = true;
};
template <int N, class... Options>
struct Outer<DataParallel<N, Options...>> {
  static constexpr bool is = true;
  static constexpr bool counts = counts_microbatches<Options...>;
  static constexpr bool sound = counts_replicas(N) && (BatchingOption<Options> && ...);
};

template <class... Parts>
struct HybridIsNested {
  static constexpr bool value = true;
  static_assert(sizeof...(Parts) >= 2,
                "Hybrid<Outer, ..., Inner>: give a strategy and another within it, such as "
                "Hybrid<DataParallel<2>, ModelParallel<Split<a>, Split<b>>>");
};

template <class Part, bool Last>
struct HybridPart {
  static constexpr bool value = true;
  static_assert(Last || Outer<Part>::is,
                "Hybrid<Outer, ..., Inner>: all but the last must be DataParallel; replicas stand "
                "outside, and the model that is cut inside, behind it at most a TensorParallel<N> "
                "without options but Slices and SequenceRows, or a SpatialParallel<H, W>, of one "
                "model");
  static_assert(!Last || !Outer<Part>::is,
                "Hybrid<Outer, ..., Inner>: the last must be ModelParallel or Pipeline; for "
                "replicas of a whole model write DataParallel alone");
  static_assert(!Last || Outer<Part>::is || CutsModel<Part>,
                "Hybrid<Outer, ..., Inner>: the last must be a strategy that cuts the model: "
                "ModelParallel, Pipeline, TensorParallel or SpatialParallel");
  static_assert(!Last || !TrainsAsynchronously<Part>,
                "Hybrid<DataParallel<N>, Pipeline<asynchronous schedule, ...>>: replicas would "
                "wait for each other at every update; take a synchronous schedule inside, or the "
                "asynchronous pipeline alone");
  static_assert(Last || !Outer<Part>::counts,
                "Hybrid<DataParallel<N, Microbatches<k>>, Inner>: give the microbatches to the "
                "model inside, as ModelParallel<..., Microbatches<k>> or as Pipeline's Count");
};

/// A DataParallel whose own arguments are at fault has its own sentence.
template <class Part, bool Sound = Outer<Part>::sound>
struct OuterIsSound {
  static constexpr bool value = true;
};
template <class Part>
struct OuterIsSound<Part, false> {
  static constexpr bool value = true;
  static constexpr int ranks = Part::ranks;
  static_assert(ranks >= 1);
};

/// One sentence: of the first part at fault, from the outermost on.
template <bool Goes, class... Parts>
struct PartsAreNested {
  static constexpr bool value = true;
};
template <class First, class... Rest>
struct PartsAreNested<true, First, Rest...> {
  static constexpr bool value = true;
  static constexpr bool last = sizeof...(Rest) == 0;
  static constexpr bool goes = Outer<First>::is && !Outer<First>::counts && Outer<First>::sound;
  static_assert(HybridPart<First, last>::value);
  static_assert(last || OuterIsSound<First>::value);
  static_assert(PartsAreNested < goes && !last, Rest... > ::value);
};

template <class First, class Second, class... Rest>
struct HybridIsNested<First, Second, Rest...> {
  static constexpr bool value = true;
  static_assert(PartsAreNested<true, First, Second, Rest...>::value);
};

template <int Replicas, int Weights>
struct WeighsEachReplica {
  static constexpr bool value = true;
  static_assert(Weights == 0 || Weights == Replicas,
                "Hybrid<DataParallel<N, Weighted<...>>, Inner>: give one weight a replica of the "
                "model (WeighsEachReplica names the replicas and the weights)");
};

template <bool Rounds, bool Reproducible>
struct HybridIsExact {
  static constexpr bool value = true;
  static_assert(!Rounds || !Reproducible,
                "Hybrid<DataParallel<N, Wire<E>>, ...> and Reproducible: rounding on the way "
                "changes the bits with the number of devices; leave one of the two out");
};

template <int Replicas, int Weights, bool Rounds, bool Reproducible>
struct HybridIsSound {
  static constexpr Batching checked(Batching const& batching) { return batching; }
  static_assert(WeighsEachReplica<Replicas, Weights>::value);
  static_assert(HybridIsExact<Rounds, Reproducible>::value);
};

/// Of a DataParallel around others.
template <bool IsWorlds, bool InnerIsWorlds, bool HasInnerReplicas, bool IsWeighted>
struct ReplicasAreTold {
  static constexpr bool value = true;
  static_assert(!InnerIsWorlds && !(IsWorlds && HasInnerReplicas),
                "Hybrid<DataParallel<>, DataParallel<N>, ...>: replicas multiply, and those of "
                "DataParallel<> are all that the program is started with; leave the other out");
  static_assert(InnerIsWorlds || WorldIsUnweighted < IsWorlds && IsWeighted > ::value);
};

/// Replicas of a model of which devices have tiles of images.
template <bool IsTiled, bool IsReproducible, bool SharesState>
struct TiledModelIsSound {
  static constexpr bool value = true;
  static_assert(
      !IsTiled || !IsReproducible,
      "Hybrid<..., SpatialParallel<H, W>> with Reproducible<>: sums over an image's pixels "
      "are cut in H W, so that the bits depend on these; leave Reproducible out");
  static_assert(!IsTiled || IsReproducible || !SharesState,
                "Hybrid<DataParallel<D, ShardedState>, SpatialParallel<H, W>>: a device sums the "
                "gradients of all parameters over the tiles before they are shared; leave "
                "ShardedState out");
};

/// As CrossModelArgumentsAreSound says it, where Reproducible is an option of the strategy around.
template <bool KeepsTwo, bool IsReproducible>
struct TwoModelsAreSound {
  static constexpr bool value = true;
  static_assert(!KeepsTwo || !IsReproducible,
                "Hybrid<DataParallel<N, Reproducible<>>, CrossModelParallel<Rule, ...>>: this rule "
                "keeps two models, whose gradients are never added; leave Reproducible out, or "
                "average gradients");
};

}  // namespace detail

}  // namespace tandem
