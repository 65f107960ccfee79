// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The action tables of one stage: a training step, and a forward-only pass.
///
/// Backward follows each forward at once, so one microbatch is live at a time. The last backward
/// starts the reduction of each bucket as soon as its gradients are whole; the REDUCE_GRAD actions
/// behind it wait for them in the same order.

#include <tandem/strategy/action.hpp>
#include <tandem/strategy/options.hpp>

namespace tandem {

/// Actions of a training step of one stage: F0 B0 F1 B1 …, reductions if there are several
/// replicas, update.
constexpr int training_length(Batching const& batching, int buckets) {
  return 2 * batching.microbatches + (batching.replicas > 1 ? buckets + 1 : 0) + 1;
}

template <int Length>
constexpr ActionRow<Length> training_row(Batching const& batching, int buckets) {
  ActionRow<Length> row;
  int next = 0;
  auto const add = [&](ActionKind kind, int index) { row.action[next++] = {kind, 0, index}; };
  for (int m = 0; m < batching.microbatches; ++m) {
    add(ActionKind::forward, m);
    add(ActionKind::backward, m);
  }
  if (batching.replicas > 1) {
    for (int bucket = 0; bucket < buckets; ++bucket) {
      add(ActionKind::reduce_gradient, bucket);
    }
    add(ActionKind::reduce_loss, 0);
  }
  add(ActionKind::update, 0);
  add(ActionKind::end, 0);
  return row;
}

/// Actions of an evaluation or a prediction: F0 F1 …, and the sum of the losses.
constexpr int forward_length(Batching const& batching) {
  return batching.microbatches + (batching.replicas > 1 ? 1 : 0);
}

template <int Length>
constexpr ActionRow<Length> forward_row(Batching const& batching) {
  ActionRow<Length> row;
  for (int m = 0; m < batching.microbatches; ++m) {
    row.action[m] = {ActionKind::forward, 0, m};
  }
  if (batching.replicas > 1) {
    row.action[batching.microbatches] = {ActionKind::reduce_loss, 0, 0};
  }
  row.action[Length] = {ActionKind::end, 0, 0};
  return row;
}

}  // namespace tandem
