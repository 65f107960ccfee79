// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elastic: several strategies that do one step in the same way, so that training may go on with
/// another of them on as many devices as there are.

#include <concepts>
#include <type_traits>

#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/elastic/down_to.hpp>
#include <tandem/strategy/elastic/elastic_checks.hpp>
#include <tandem/strategy/types/data_parallel.hpp>

namespace tandem {

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
