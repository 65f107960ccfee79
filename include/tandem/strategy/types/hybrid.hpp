// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Hybrid: a strategy within a strategy, on the product of their devices.

#include <concepts>

#include <tandem/core/geometry.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/cut/model_shape.hpp>
#include <tandem/strategy/rules.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/types/model_checks.hpp>
#include <tandem/strategy/types/model_options.hpp>
#include <tandem/strategy/types/spatial_parallel.hpp>
#include <tandem/strategy/types/tensor_parallel.hpp>

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

template <class Part, bool Last>
struct HybridPart {
  static constexpr bool value = true;
  static constexpr bool replicates = Outer<Part>::is;
  static constexpr bool waits = Last && TrainsAsynchronously<Part>;
  static_assert(ArgumentIs<Argument::hybrid_outer, (Last || replicates)>::value);
  static_assert(ArgumentIs<Argument::hybrid_of_replicas, (!Last || !replicates)>::value);
  static_assert(
      ArgumentIs<Argument::hybrid_inner, (!Last || replicates || CutsModel<Part>)>::value);
  static_assert(RuleHolds<(waits ? Rule::replicas_asynchronous : Rule::none), Part, 0, 0>::value);
  static_assert(ArgumentIs<Argument::hybrid_microbatches, (Last || !Outer<Part>::counts)>::value);
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

/// @p Weights of @p Replicas
template <int Replicas, int Weights, bool Rounds, bool Reproducible>
struct HybridIsSound {
  static constexpr Batching checked(Batching const& batching) { return batching; }
  static constexpr bool weighs_each = Weights == 0 || Weights == Replicas;
  static_assert(ArgumentIs<Argument::hybrid_weights, weighs_each, Replicas, Weights>::value);
  static_assert(ArgumentIs<Argument::hybrid_exact, !(Rounds && Reproducible)>::value);
};

/// What a strategy around a model says of its two models, if it has two.
template <class Inner>
struct KeepsTogether {};
template <class Inner>
  requires requires { Inner::averaging; }
struct KeepsTogether<Inner> {
  static constexpr Averaging averaging = Inner::averaging;
};

/// What a strategy around one says of tiles of images, if there are any.
template <class Inner>
struct HasTilesOf {};
template <class Inner>
  requires requires { Inner::tiles; }
struct HasTilesOf<Inner> {
  static constexpr Extent2d tiles = Inner::tiles;
};

template <class Inner>
inline constexpr bool keeps_two_models = false;
template <class Inner>
  requires requires { Inner::averaging; }
inline constexpr bool keeps_two_models<Inner> = Inner::averaging.keeps_two();

}  // namespace detail

/// Replicas of a model that is itself cut over devices, or whose layers these share.
///
///   Hybrid<DataParallel<2>, ModelParallel<Split<5>, Split<9>>>, Hybrid<DataParallel<2>,
///   TensorParallel<2>>
///
///   rank 0 | replica 0, device 0        rank 2 | replica 1, device 0
///   rank 1 | replica 0, device 1        rank 3 | replica 1, device 1
///
/// The first part is the slowest in the order of the ranks. Several DataParallels multiply. The
/// gradients of a part of the model are summed over the ranks that have it. DataParallel<> takes as
/// many replicas as the program is started with devices for. Options of DataParallel
/// but Microbatches, which goes to the model inside; as many weights as there are replicas.
/// Source: Pal et al. 2019. The primary template is the error path.
template <class... Parts>
struct Hybrid : detail::NoModel {
  static constexpr bool nests = sizeof...(Parts) >= 2;
  static_assert(detail::ArgumentIs<detail::Argument::hybrid_of_two, nests>::value);
  static_assert(detail::PartsAreNested<nests, Parts...>::value);
};

namespace detail {

template <class... Parts>
inline constexpr bool deals_rows<Hybrid<Parts...>> = (deals_rows<Parts> || ...);

}  // namespace detail

template <int N, class... Options, class Inner>
  requires detail::ReplicatesModels<N, Options...> && detail::Replicable<Inner>
struct Hybrid<DataParallel<N, Options...>, Inner> : detail::KeepsTogether<Inner>,
                                                    detail::HasTilesOf<Inner> {
  using Model = Inner;
  static constexpr int devices = Inner::devices;
  static constexpr int copies = Inner::copies;
  static constexpr bool any_replicas = N == by_world;
  static constexpr int told = any_replicas ? 1 : N;  // replicas
  static constexpr Mesh mesh = Mesh{Axis::data, told} * Inner::mesh;
  static constexpr int ranks = mesh.size();
  static constexpr CheckpointRule checkpoint = Inner::checkpoint;
  static constexpr SpreadWishes wishes = detail::wishes_of<Inner>();
  template <int Replicas, class... More>
  static constexpr Batching batching_for =
      Inner::template batching_for<told * Replicas, Options..., More...>;
  static constexpr Batching
      batching = detail::ModelKeepsLeaves < batching_for<1>.reproducible && !any_replicas,
      batching_for<1>.leaves, batching_for<1>.microbatches,
      copies >
          ::checked(detail::HybridIsSound<batching_for<1>.replicas,
                                          any_replicas ? 0 : batching_for<1>.shards,
                                          batching_for<1>.wire != WireFormat::exact,
                                          batching_for<1>.reproducible>::checked(batching_for<1>));
  static constexpr bool inner_is_open = detail::takes_any_replicas<Inner>;
  static constexpr bool is_one = !any_replicas || Inner::template batching_for<1>.replicas == 1;
  static constexpr bool weighs = any_replicas && batching_for<1>.shards > 0;
  static_assert(
      detail::ArgumentIs<detail::Argument::hybrid_worlds, (!inner_is_open && is_one)>::value);
  static_assert(
      detail::ArgumentIs<detail::Argument::world_weights, (inner_is_open || !weighs)>::value);
  static_assert(
      detail::ArgumentIs<detail::Argument::hybrid_leaves, !(detail::keeps_two_models<Inner> &&
                                                            batching_for<1>.reproducible)>::value);

  template <class Net>
  using Cut = typename Inner::template Cut<Net>;
};

namespace detail {

/// Outer, each part of which is shared as Inner says.
template <class Outer, class Inner>
struct SharedModel : HasTilesOf<Inner> {
  using Model = typename Outer::Model;
  static constexpr int devices = Outer::devices;
  static constexpr int copies = Outer::copies;
  static constexpr Mesh mesh = Outer::mesh * Inner::mesh;
  static constexpr int ranks = mesh.size();
  static constexpr CheckpointRule checkpoint = Outer::checkpoint;

  template <class Net>
  using Cut = typename Outer::template Cut<Net>;
};

}  // namespace detail

/// A model that is cut over devices, each part of which several share:
///
///   Hybrid<Pipeline<OneFOneB, 8, Split<5>, Split<9>>, TensorParallel<2>>
///
///   rank 0 | part 0, slice 0    rank 2 | part 1, slice 0
///   rank 1 | part 0, slice 1    rank 3 | part 1, slice 1
///
/// Of TensorParallel's options stands here what it says of layers, of slices and of rows, of
/// SpatialParallel's none: the others are the model's.
template <class Outer, int N, class... Options>
  requires detail::Sliceable<Outer> && detail::DealsOutParts<N, Options...>
struct Hybrid<Outer, TensorParallel<N, Options...>>
    : detail::SharedModel<Outer, TensorParallel<N, Options...>> {
  static constexpr SpreadWishes wishes = detail::gather_wishes<Options...>();
  template <int Replicas, class... More>
  static constexpr Batching batching_for =
      Outer::template batching_for<Replicas, Options..., More...>;
  static constexpr Batching batching =
      detail::ModelKeepsLeaves<batching_for<1>.reproducible, batching_for<1>.leaves,
                               batching_for<1>.microbatches,
                               Outer::copies>::checked(batching_for<1>);
};
template <class Outer, int H, int W>
  requires detail::Sliceable<Outer> && detail::DealsTiles<H, W>
struct Hybrid<Outer, SpatialParallel<H, W>> : detail::SharedModel<Outer, SpatialParallel<H, W>> {
  template <int Replicas, class... More>
  static constexpr Batching batching_for = Outer::template batching_for<Replicas, More...>;
  static constexpr Batching batching = batching_for<1>;
};

template <int N, class... Options, class Second, class... Rest>
  requires detail::ReplicatesModels<N, Options...> &&(sizeof...(Rest) >= 1) &&
      detail::Replicable<Hybrid<Second, Rest...>> struct Hybrid<DataParallel<N, Options...>, Second,
                                                                Rest...>
      : Hybrid<DataParallel<N, Options...>, Hybrid<Second, Rest...>> {
  };

}  // namespace tandem
