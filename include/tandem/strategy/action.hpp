// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Action: one entry of a rank's program, in the grammar of PyTorch's pipelining schedules.
///
/// "0F3" is the forward pass of stage 0 on microbatch 3, "0B3" its whole backward pass;
/// "0REDUCE_GRAD1" awaits bucket 1 of the stage's gradients, "0REDUCE_LOSS" the losses, "0U" is the
/// update. Every action has a name, so that an error can say which one was not reached.

#include <cstdint>
#include <string>

namespace tandem {

enum class ActionKind : std::uint8_t { forward, backward, reduce_gradient, reduce_loss, update };

/// What a rank does next; `index` is the replica's microbatch, or the bucket of a reduction.
struct Action {
  ActionKind kind = ActionKind::forward;
  std::int16_t stage = 0;
  std::int16_t index = 0;

  friend constexpr bool operator==(Action const&, Action const&) = default;
};

/// A rank's program for one step.
template <int Length>
struct ActionRow {
  static constexpr int length = Length;
  Action action[Length > 0 ? Length : 1] = {};
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
  }
  return text;
}

/// An action in one word, for a progress board that other threads read.
constexpr std::uint64_t pack(Action const& action) {
  return (std::uint64_t{static_cast<std::uint8_t>(action.kind)} << 32) |
         (std::uint64_t{static_cast<std::uint16_t>(action.stage)} << 16) |
         static_cast<std::uint16_t>(action.index);
}

constexpr Action unpack_action(std::uint64_t word) {
  return {static_cast<ActionKind>((word >> 32) & 0xFFU),
          static_cast<std::int16_t>((word >> 16) & 0xFFFFU),
          static_cast<std::int16_t>(word & 0xFFFFU)};
}

}  // namespace tandem
