// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Action: one entry of a rank's program, in the grammar of PyTorch's pipelining schedules.
///
/// "0F3" is the forward pass of stage 0 on microbatch 3, "0B3" its whole backward pass;
/// "0REDUCE_GRAD1" awaits bucket 1 of the stage's gradients, "0REDUCE_LOSS" the losses, "0U" is the
/// update. Every action has a name, so that an error can say which one was not reached.

#include <bit>
#include <cstdint>
#include <string>

namespace tandem {

enum class ActionKind : std::uint16_t {
  forward,
  backward,
  reduce_gradient,
  reduce_loss,
  update,
  end,  ///< stands behind a row, so that a rank need not count
};

/// What a rank does next; `index` is the replica's microbatch, or the bucket of a reduction.
/// Eight bytes without a gap, so that a rank reports one with a single store.
struct Action {
  ActionKind kind = ActionKind::forward;
  std::int16_t stage = 0;
  std::int32_t index = 0;

  friend constexpr bool operator==(Action const&, Action const&) = default;
};

/// A rank's program for one step: `length` actions, and behind them one of kind `end`.
template <int Length>
struct ActionRow {
  static constexpr int length = Length;
  Action action[Length + 1] = {};
};

/// "0F3", "0REDUCE_GRAD1", "0U".
inline std::string to_string(Action const& action) {
  std::string text = std::to_string(action.stage);
  switch (action.kind) {
    case ActionKind::forward:
      return text + "F" + std::to_string(action.index);
    case ActionKind::backward:
      return text + "B" + std::to_string(action.index);
    case ActionKind::reduce_gradient:
      return text + "REDUCE_GRAD" + std::to_string(action.index);
    case ActionKind::reduce_loss:
      return text + "REDUCE_LOSS";
    case ActionKind::update:
      return text + "U";
    case ActionKind::end:
      return text + "END";
  }
  return text;
}

/// An action in one word, for a progress board that other threads read.
constexpr std::uint64_t pack(Action const& action) { return std::bit_cast<std::uint64_t>(action); }

constexpr Action unpack_action(std::uint64_t word) { return std::bit_cast<Action>(word); }

}  // namespace tandem
