// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Metrics<...>: several metrics of one trainer.

#include <string_view>

#include <tandem/core/metric_values.hpp>
#include <tandem/layers/loss.hpp>

namespace tandem {

namespace detail {

/// Fields that a line of a log has besides: of its names, a metric may have none.
inline constexpr std::string_view reserved_names[8] = {
    "kind", "step", "epoch", "samples", "loss", "learning_rate", "gradient_norm", "seconds"};

constexpr bool is_reserved(std::string_view name) {
  for (std::string_view const other : reserved_names) {
    if (name == other) {
      return true;
    }
  }
  return name.empty();
}

/// Whether no two of @p count names are equal.
constexpr bool names_differ(std::string_view const* name, int count) {
  for (int i = 0; i < count; ++i) {
    for (int other = 0; other < i; ++other) {
      if (name[i] == name[other]) {
        return false;
      }
    }
  }
  return true;
}

template <bool AreMetrics, int Count, bool NamesDiffer, bool NamesAreFree>
struct MetricsFit {
  static constexpr bool value = true;
  static_assert(AreMetrics,
                "Metrics<M...>: each is a metric, such as Accuracy or TopK<5>: a type that has "
                "static constexpr std::string_view name");
  static_assert(Count >= 1 && Count <= most_metrics, "Metrics<M...>: give one to eight metrics");
  static_assert(!AreMetrics || NamesDiffer,
                "Metrics<M...>: two metrics have the same name; give each a name of its own");
  static_assert(!AreMetrics || NamesAreFree,
                "Metrics<M...>: a metric's name may be neither empty nor that of another field of "
                "a log, such as loss or step; give it one of its own");
};

}  // namespace detail

/// Several metrics at once, each under its own name: Trainer<Net, S, Host, SoftmaxCrossEntropy<>,
/// Metrics<Accuracy, TopK<5>>>. The first is the `metric` of reports and results.
template <class... Ms>
struct Metrics {
  static_assert(
      detail::MetricsFit<(Metric<Ms> && ...), static_cast<int>(sizeof...(Ms)), true, true>::value);
  static constexpr std::string_view name = "metrics";
  using refused = void;  // nothing more is said of it
};
template <Metric... Ms>
  requires(sizeof...(Ms) >= 1 && sizeof...(Ms) <= most_metrics)
struct Metrics<Ms...> {
  static constexpr std::string_view name = "metrics";
  static constexpr int count = static_cast<int>(sizeof...(Ms));
  static constexpr std::string_view names[sizeof...(Ms)] = {std::string_view{Ms::name}...};
  static_assert(detail::MetricsFit<true, count, detail::names_differ(names, count),
                                   !(detail::is_reserved(Ms::name) || ...)>::value);
};

/// The names of a trainer's metrics, in order; none where there is no metric, whose name is "".
template <class M>
struct MetricNames {
  static constexpr std::string_view list[1] = {std::string_view{M::name}};
  static constexpr int count = std::string_view{M::name}.empty() ? 0 : 1;
};
template <Metric... Ms>
  requires requires { Metrics<Ms...>::count; }
struct MetricNames<Metrics<Ms...>> {
  static constexpr auto const& list = Metrics<Ms...>::names;
  static constexpr int count = Metrics<Ms...>::count;
};

}  // namespace tandem
