// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sharding: of what replicas have a part each.

#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/value.hpp>

namespace tandem {

/// What replicas have a part of each: nothing, the optimizer's state (ZeRO-1), gradients too
/// (ZeRO-2), weights too (ZeRO-3).
/// Source: Rajbhandari et al., "ZeRO", arXiv:1910.02054
enum class Sharding { none, state, gradients, parameters };

/// "none" and so on.
constexpr char const* sharding_name(Sharding shard) {
  constexpr char const* names[] = {"none", "state", "gradients", "parameters"};
  return names[static_cast<int>(shard)];
}

namespace detail {

/// So many of a strategy, each with its part of what @p shard says.
inline StrategyValue replicated(StrategyValue value, int replicas, Sharding shard) {
  Batching& batching = value.batching;
  batching.replicas = replicas;
  batching.sharded_state = shard >= Sharding::state;
  batching.sharded_gradients = shard >= Sharding::gradients;
  batching.sharded_parameters = shard == Sharding::parameters;
  return value;
}

}  // namespace detail

}  // namespace tandem
