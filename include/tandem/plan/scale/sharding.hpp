// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sharding: of what replicas have a part each.

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

/// The option of DataParallel that does so, behind a comma: ", ShardedState"; "" of none.
constexpr char const* sharding_option(Sharding shard) {
  constexpr char const* options[] = {"", ", ShardedState", ", ShardedGradients",
                                     ", ShardedParameters"};
  return options[static_cast<int>(shard)];
}

}  // namespace tandem
