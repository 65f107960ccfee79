// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What stands between the brackets of ModelParallel and Pipeline: how the model is cut, and
/// options.

#include <concepts>
#include <type_traits>

#include <tandem/graph/lower.hpp>
#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/cut/balance.hpp>
#include <tandem/strategy/cut/checkpoint_rule.hpp>
#include <tandem/strategy/cut/partition.hpp>

namespace tandem {

/// The next Count top-level layers of the network.
template <int Count>
struct Split {
  static constexpr int tops = Count;
  static_assert(detail::ArgumentIs<detail::Argument::split, (Count >= 1), Count>::value);
};

namespace detail {}  // namespace detail

/// The network's top-level layers in Parts runs, cut by the compiler so that the costliest run is
/// as cheap as it can be. Costs are static: see balance.hpp.
template <int Parts>
struct Auto {
  static constexpr int parts = Parts >= 1 ? Parts : 1;

  template <class Net>
  static constexpr auto partition() {
    constexpr int tops = graph<Net>.tops;
    static_assert(
        detail::ArgumentIs<detail::Argument::auto_tops, (parts <= tops), parts, tops>::value);
    if constexpr (parts <= tops) {
      return cut_tops(graph<Net>, balanced_tops<parts>(graph<Net>).of, parts);
    } else {
      return Partition<graph<Net>.nodes>{.parts = parts};
    }
  }
  static_assert(detail::ArgumentIs<detail::Argument::auto_parts, (Parts >= 1), Parts>::value);
};

/// Runs of @p Count top-level layers of a stage are computed again in the backward pass: only what
/// enters them is kept. Source: Chen et al. 2016.
template <int Count>
struct Every {
  static constexpr int every = Count;
  static_assert(detail::ArgumentIs<detail::Argument::every, (Count >= 1), Count>::value);
};

/// Only what enters a stage is kept, and all of it is computed again.
struct Boundaries {
  static constexpr int every = CheckpointRule::boundaries;
};

namespace detail {

template <class What>
concept CheckpointWhat = requires {
  { What::every } -> std::convertible_to<int>;
};

}  // namespace detail

/// Activations are computed again in the backward pass instead of being kept: memory for time, one
/// more forward pass. The same dropout masks and batch statistics; running statistics count once.
/// The primary template is the error path.
template <class What>
struct Checkpoint {
  static constexpr CheckpointRule rule{};
  static_assert(
      detail::ArgumentIs<detail::Argument::checkpoint, detail::CheckpointWhat<What>>::value);
};

template <detail::CheckpointWhat What>
struct Checkpoint<What> {
  static constexpr CheckpointRule rule{What::every};
};

namespace detail {

template <class T>
concept IsSplit = requires {
  T::tops;
};
template <class T>
concept IsCheckpoint = requires {
  T::rule.every;
};
/// A number of parts, and which top-level layers each has.
template <class T>
concept CutsTops = requires {
  { T::parts } -> std::convertible_to<int>;
};
template <class T>
concept IsSlices = requires {
  T::slices;
};
/// Behind the words that cut a model.
template <class T>
concept ModelOption = IsCheckpoint<T> || IsSlices<T> || requires {
  T::leaves;
} || requires {
  T::first_bucket;
};

template <class... Options>
constexpr CheckpointRule checkpoint_of() {
  CheckpointRule rule{};
  [[maybe_unused]] auto const take = [&]<class Option>(Option const*) {
    if constexpr (IsCheckpoint<Option>) {
      rule = Option::rule;
    }
  };
  (take(static_cast<Options const*>(nullptr)), ...);
  return rule;
}

// Given counts of top-level layers; empty until the first.
template <int... Tops>
struct TopSplits {
  static constexpr int parts = sizeof...(Tops);
  static constexpr int tops[] = {Tops..., 0};

  template <class Net>
  static constexpr auto partition() {
    constexpr int sum = (0 + ... + Tops);
    constexpr int all = graph<Net>.tops;
    static_assert(ArgumentIs<Argument::split_more, (sum >= all), sum, all>::value);
    static_assert(ArgumentIs<Argument::split_less, (sum <= all), sum, all>::value);
    return cut_tops(graph<Net>, tops, parts);
  }
};

template <int... A, int... B>
constexpr TopSplits<A..., B...> operator+(TopSplits<A...>, TopSplits<B...>) {
  return {};
}

template <class Argument>
constexpr auto splits_of() {
  if constexpr (IsSplit<Argument>) {
    return TopSplits<Argument::tops>{};
  } else {
    return TopSplits<>{};
  }
}

// How the model is cut: by Split<…>s, or as the first argument says.
template <class... Arguments>
struct Cutting {
  using type = void;
};
template <class First, class... Rest>
struct Cutting<First, Rest...> {
  using type = First;
};
template <IsSplit First, class... Rest>
struct Cutting<First, Rest...> {
  using type = decltype((splits_of<First>() + ... + splits_of<Rest>()));
};

}  // namespace detail

}  // namespace tandem
