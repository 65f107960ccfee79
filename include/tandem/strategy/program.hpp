// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Program: a network, a strategy and an element size lowered to everything that an engine runs.
///
/// Each step is a constexpr variable of its own, and none is a template argument: three variables
/// get three budgets of the compiler, and symbols stay short.

#include <tandem/graph/lower.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/strategy/data_parallel.hpp>
#include <tandem/strategy/parameter_layout.hpp>
#include <tandem/strategy/schedule.hpp>

namespace tandem {

namespace detail {

/// A variable of its own only where something is rewritten.
template <class Net, Rewrites R>
inline constexpr auto rewritten = rewrite(tandem::graph<Net>, R);

/// Reproducible bits must not depend on which siblings a device has, so it computes them one by
/// one.
constexpr Rewrites allowed(Rewrites wanted, bool reproducible) {
  wanted.merge_pointwise = wanted.merge_pointwise && !reproducible;
  return wanted;
}

template <class Net, Rewrites R>
constexpr auto const& graph_for() {
  if constexpr (R.fuse_relu || R.channels_last || R.merge_pointwise || R.place_concat) {
    return rewritten<Net, R>;
  } else {
    return tandem::graph<Net>;
  }
}

}  // namespace detail

/// What each rank does, known to the compiler.
/// @tparam ElementBytes  of a parameter
/// @tparam R             what the backend wants of the graph
template <class Net, class S, int ElementBytes, Rewrites R = Rewrites{}>
struct Program {
  using Network = Net;
  static constexpr Batching batching = S::batching;
  static constexpr auto const& graph =
      detail::graph_for<Net, detail::allowed(R, batching.reproducible)>();
  static constexpr int ranks = S::ranks;
  static constexpr auto layout =
      lay_out_parameters(graph, ElementBytes, batching.first_bucket_bytes, batching.bucket_bytes);
  static constexpr auto training =
      training_row<training_length(batching, layout.buckets)>(batching, layout.buckets);
  static constexpr auto forward = forward_row<forward_length(batching)>(batching);
};

}  // namespace tandem
