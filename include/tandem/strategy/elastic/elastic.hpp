// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elastic: several strategies that do one step in the same way, so that training may go on with
/// another of them on as many devices as there are.

#include <concepts>
#include <type_traits>

#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/elastic/down_to.hpp>
#include <tandem/strategy/types/data_parallel.hpp>

namespace tandem {

namespace detail {

template <class S>
inline constexpr bool is_down_to = false;
template <int Least>
inline constexpr bool is_down_to<DownTo<Least>> = true;

/// Whether two strategies cut every batch alike.
constexpr bool same_microbatches(Batching const& a, Batching const& b) {
  bool same = a.all_microbatches() == b.all_microbatches() && a.shards == b.shards;
  for (int shard = 0; shard < a.shards && shard < b.shards; ++shard) {
    same = same && a.weight[shard] == b.weight[shard];
  }
  return same;
}

/// Whether they add gradients by one tree, or none of them by any.
constexpr bool same_leaves(Batching const& a, Batching const& b) {
  return a.reproducible == b.reproducible &&
         (!a.reproducible || a.replicas * a.leaves == b.replicas * b.leaves);
}

template <class S>
constexpr bool goes_on_late = requires {
  S::asynchrony;
};

/// How a strategy keeps two models, which is nothing for those of one.
template <class S>
constexpr Averaging two_models_of() {
  if constexpr (requires { S::averaging; }) {
    return S::averaging;
  } else {
    return {};
  }
}

template <class... Arguments>
struct ElasticIsNamed {
  static constexpr bool value = true;
  static_assert(sizeof...(Arguments) > 0,
                "Elastic<Strategies...>: give the strategies to train by, from the most devices to "
                "the fewest, or Elastic<DataParallel<8>, DownTo<1>>");
  static_assert(sizeof...(Arguments) == 0 || !(is_down_to<Arguments> || ...),
                "Elastic<DataParallel<N, Options...>, DownTo<Least>>: DownTo stands behind one "
                "DataParallel of more than Least devices, without Weighted<...>, whose "
                "microbatches and leaves can be dealt to Least; list the strategies otherwise");
  static_assert((is_down_to<Arguments> || ...) || (Strategy<Arguments> && ...),
                "Elastic<Strategies...>: every argument must be a strategy, such as "
                "DataParallel<4> or SingleDevice<Microbatches<4>>");
};

/// In a list of several no strategy takes as many devices as the program is started with.
template <bool AnyIsWorlds>
struct ElasticTellsDevices {
  static constexpr bool value = true;
  static_assert(!AnyIsWorlds,
                "Elastic<Strategies...>: DataParallel<> goes on with any number of devices itself; "
                "give it to run() alone");
};

/// A strategy must be able to go on where the one before it in the list stopped.
template <class First, class Second>
struct GoesOnAs {
  static constexpr bool value = true;
  static constexpr Batching first = First::batching;
  static constexpr Batching second = Second::batching;
  static constexpr bool cuts_alike = same_microbatches(first, second);
  static_assert(First::ranks > Second::ranks,
                "Elastic<Strategies...>: list them from the most devices to the fewest, one of "
                "each number");
  static_assert(cuts_alike,
                "Elastic<Strategies...>: all must cut the batch into the same microbatches, and "
                "replicas times Microbatches<k> of two neighbours differ, or their weights: write "
                "DataParallel<4>, DataParallel<2, Microbatches<2>>, "
                "SingleDevice<Microbatches<4>>");
  static_assert(!cuts_alike || same_leaves(first, second),
                "Elastic<Strategies...>: all must be Reproducible with the same leaves, or none: "
                "write Reproducible<L> with one L in each of them");
  static_assert(first.wire == second.wire,
                "Elastic<Strategies...>: with Wire<E> in some only, others would train on other "
                "gradients; give it to all or to none");
  static_assert(two_models_of<First>() == two_models_of<Second>(),
                "Elastic<Strategies...>: CrossModelParallel trains two models; list strategies "
                "that keep two by the same rule, or none");
};

template <class... Strategies>
struct ElasticIsSound {
  static constexpr bool value = true;
  static_assert(!(goes_on_late<Strategies> || ...),
                "Elastic<Strategies...>: an asynchronous pipeline of another depth has another "
                "delay and trains otherwise; list synchronous strategies");
};
template <class First, class Second, class... Others>
  requires(takes_any_replicas<First> || takes_any_replicas<Second> ||
           (takes_any_replicas<Others> || ...))
struct ElasticIsSound<First, Second, Others...> {
  static constexpr bool value = ElasticTellsDevices < takes_any_replicas<First> ||
                                takes_any_replicas<Second> ||
                                (takes_any_replicas<Others> || ...) > ::value;
};
template <class First, class Second, class... Others>
struct ElasticIsSound<First, Second, Others...> {
  static constexpr bool value = true;
  static_assert(ElasticIsSound<First>::value);
  static_assert(GoesOnAs<First, Second>::value);
  static_assert(ElasticIsSound<Second, Others...>::value);
};

}  // namespace detail

namespace detail {

template <int I, class First, class... Others>
struct StrategyAt : StrategyAt<I - 1, Others...> {};
template <class First, class... Others>
struct StrategyAt<0, First, Others...> {
  using type = First;
};

}  // namespace detail

/// Strategies from the most devices to the fewest; run() takes the first that fits what is there.
///
///   Elastic<Hybrid<DataParallel<2>, ModelParallel<Split<5>, Split<9>, Microbatches<2>>>,
///           DataParallel<4>, DataParallel<2, Microbatches<2>>, SingleDevice<Microbatches<4>>>
///   Elastic<DataParallel<8, Reproducible<>>, DownTo<1>>   // on 8, 4, 2 or 1
///
/// All cut the global batch into the same microbatches, so that a checkpoint of one is taken up by
/// any other: with the same numbers but for the order of sums, and if all are Reproducible, which
/// means with the same leaves, and have the same Slices, with the same bits (`exact`).
/// Not asynchronous pipelines, whose delay is that of their depth.
/// The primary template is the error path.
template <class... Strategies>
struct Elastic {
  static_assert(detail::ElasticIsNamed<Strategies...>::value);
  static constexpr int count = 0;
};

template <class... Strategies>
  requires(sizeof...(Strategies) >= 1 && (Strategy<Strategies> && ...))
struct Elastic<Strategies...> {
  static constexpr int count = sizeof...(Strategies);
  /// Devices of each.
  static constexpr int ranks[sizeof...(Strategies)] = {Strategies::ranks...};
  static_assert(detail::ElasticIsSound<Strategies...>::value);
  template <int I>
  using At = typename detail::StrategyAt<I, Strategies...>::type;
  /// Whether going on with another keeps the bits.
  static constexpr bool exact =
      (Strategies::batching.reproducible && ...) &&
      ((detail::layer_slices_of<Strategies> == detail::layer_slices_of<At<0>>)&&...);
};

template <int N, class... Options, int Least>
  requires(detail::GoesDown<N, Least, Options...>)
struct Elastic<DataParallel<N, Options...>, DownTo<Least>>
    : detail::GoDown<Elastic, N, Least, Options...>::type {};

/// What run() trains by: a Strategy, or an Elastic of several.
template <class Plan>
struct StrategiesOf {
  using type = Plan;
};
template <Strategy S>
struct StrategiesOf<S> {
  using type = Elastic<S>;
};

}  // namespace tandem
