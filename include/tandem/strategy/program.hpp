// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Program: a network, a strategy and an element size lowered to everything that an engine runs.
///
/// Each step is a constexpr variable of its own, and none is a template argument: three variables
/// get three budgets of the compiler, and symbols stay short.

#include <tandem/graph/lower.hpp>
#include <tandem/strategy/data_parallel.hpp>
#include <tandem/strategy/parameter_layout.hpp>
#include <tandem/strategy/schedule.hpp>

namespace tandem {

/// What each rank does, known to the compiler.
template <class Net, class S, int ElementBytes>
struct Program {
  using Network = Net;
  static constexpr auto const& graph = tandem::graph<Net>;
  static constexpr Batching batching = S::batching;
  static constexpr int ranks = S::ranks;
  static constexpr auto layout =
      lay_out_parameters(graph, ElementBytes, batching.first_bucket_bytes, batching.bucket_bytes);
  static constexpr auto training =
      training_row<training_length(batching, layout.buckets)>(batching, layout.buckets);
  static constexpr auto forward = forward_row<forward_length(batching)>(batching);
};

}  // namespace tandem
