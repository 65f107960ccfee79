// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// walk: a rank's loop over its row of actions.

#include <atomic>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// Does one action of @p rank, which has run_forward(action), run_backward(action) and
/// run_other(action). Whether the row goes on.
template <class Rank>
TANDEM_INLINE bool act(Action const& action, Rank& rank) {
  if (action.kind == ActionKind::forward) {
    rank.run_forward(action);
  } else if (action.kind == ActionKind::backward) {
    rank.run_backward(action);
  } else {
    return rank.run_other(action);
  }
  return true;
}

/// All actions up to the one of kind `end`; @p progress says which one the rank is at. Forward and
/// backward, which nearly all actions are, are told apart here, others elsewhere.
template <class Rank>
void walk(Action const* next, std::atomic<std::uint64_t>& progress, Rank& rank) {
  for (;; ++next) {
    progress.store(pack(*next), std::memory_order_relaxed);
    if (!act(*next, rank)) {
      return;
    }
  }
}

/// The same with @p f called for each action, for traces and for debugging.
template <class F>
void walk_each(Action const* next, std::atomic<std::uint64_t>& progress, F const& f) {
  for (; next->kind != ActionKind::end; ++next) {
    progress.store(pack(*next), std::memory_order_relaxed);
    f(*next);
  }
}

}  // namespace tandem
