// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// walk: a rank's loop over its row of actions; at_stage: from a stage's number, known when a rank
/// runs, to its index, known to the compiler.

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// Does one action of @p rank, which has run_forward(action), run_backward(action) and
/// run_other(action). Whether the row goes on.
template <class Rank>
TANDEM_INLINE bool act(Action action, Rank& rank) {
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
    std::uint64_t const word = pack(*next);
    progress.store(word, std::memory_order_relaxed);
    if (!act(unpack_action(word), rank)) {  // read once
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

/// Calls @p f with the index of the local stage @p id of a DeviceProgram, as a type.
template <class Program, class F>
TANDEM_INLINE void at_stage(int id, F const& f) {
  if constexpr (Program::stages.count == 1) {
    f(std::integral_constant<int, 0>{});
  } else {
    [&]<int... S>(std::integer_sequence<int, S...>) {
      (void)((Program::stages.stage[S].id == id && (f(std::integral_constant<int, S>{}), true)) ||
             ...);
    }
    (std::make_integer_sequence<int, Program::stages.count>{});
  }
}

}  // namespace tandem
