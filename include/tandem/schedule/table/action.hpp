// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Action: one entry of a rank's program, in the grammar of PyTorch's pipelining schedules.
///
/// "0F3" is the forward pass of stage 0 on microbatch 3, "0B3" its whole backward pass, "0I3" and
/// "0W3" the input gradient and the weight gradient apart; "2SEND_F1" sends what stage 2 made of
/// microbatch 1, "2RECV_B1" receives the gradient of that. "0REDUCE_GRAD1" awaits bucket 1 of the
/// device's gradients, "0BEGIN_LOSS" begins to sum the losses and "0AWAIT_LOSS" awaits that, "0U"
/// is the update, "0X" awaits the average of the stage's weights with those of its other copy.
/// "0F3@2" reads weights that have had two updates, in asynchronous pipelines. Every action has a
/// name, so that an error can say which one was not reached.

#include <bit>
#include <cstdint>
#include <string>

#include <tandem/core/config.hpp>

namespace tandem {

enum class ActionKind : std::uint8_t {
  forward,
  backward,
  input_gradient,
  weight_gradient,
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
  reduce_gradient,
  begin_loss,
  await_loss,
  reduce_norm,
  update,
  exchange,
  end,  ///< stands behind a row, so that a rank need not count
};

/// What a rank does next; `index` is the replica's microbatch, or the bucket of a reduction.
/// Eight bytes without a gap, so that a rank reports one with a single store.
struct Action {
  ActionKind kind = ActionKind::forward;
  std::uint8_t version = 0;  ///< updates that the weights have had, 0 in synchronous strategies
  std::int16_t stage = 0;
  std::int32_t index = 0;

  friend constexpr bool operator==(Action const&, Action const&) = default;
};

constexpr bool is_compute(ActionKind kind) { return kind <= ActionKind::weight_gradient; }

constexpr bool is_message(ActionKind kind) {
  return kind >= ActionKind::send_forward && kind <= ActionKind::receive_backward;
}
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward;
}

/// Whether a message is of a value, not of a gradient.
constexpr bool goes_forward(ActionKind message) {
  return message == ActionKind::send_forward || message == ActionKind::receive_forward;
}

/// Actions that a table of passes and messages does not have.
constexpr bool is_tail(ActionKind kind) { return kind > ActionKind::receive_backward; }

/// How an action is written, and whether a number stands behind it.
struct ActionName {
  char const* text;
  bool numbered;
};

constexpr ActionName name_of(ActionKind kind) {
  constexpr ActionName names[] = {
      {"F", true},           {"B", true},           {"I", true},           {"W", true},
      {"SEND_F", true},      {"RECV_F", true},      {"SEND_B", true},      {"RECV_B", true},
      {"REDUCE_GRAD", true}, {"BEGIN_LOSS", false}, {"AWAIT_LOSS", false}, {"REDUCE_NORM", false},
      {"U", false},          {"X", false},          {"END", false}};
  return names[static_cast<int>(kind)];
}

/// "0F3", "0F3@2", "0REDUCE_GRAD1", "0U".
TANDEM_COLD inline std::string to_string(Action const& action) {
  ActionName const name = name_of(action.kind);
  return std::to_string(action.stage) + name.text +
         (name.numbered ? std::to_string(action.index) : std::string{}) +
         (action.version > 0 ? "@" + std::to_string(action.version) : std::string{});
}

/// "1F2 (microbatch 2)", "0REDUCE_GRAD1 (bucket 1)", "0U"; "" for the end of a row, which a rank is
/// at when it is at none.
TANDEM_ONCE TANDEM_COLD std::string in_words(Action const& action);

/// An action in one word, for a progress board that other threads read.
constexpr std::uint64_t pack(Action const& action) { return std::bit_cast<std::uint64_t>(action); }

/// A rank that is at none of its actions, and one that waits for the program to bring a step.
inline constexpr std::uint64_t at_no_action = pack({.kind = ActionKind::end});
inline constexpr std::uint64_t awaiting_a_step = pack({.kind = ActionKind::end, .index = 1});

constexpr Action unpack_action(std::uint64_t word) { return std::bit_cast<Action>(word); }

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string in_words(Action const& action) {
  if (action.kind == ActionKind::end) {
    return {};
  }
  bool const bucket = action.kind == ActionKind::reduce_gradient;
  return to_string(action) +
         (name_of(action.kind).numbered
              ? (bucket ? " (bucket " : " (microbatch ") + std::to_string(action.index) + ")"
              : std::string{});
}

}  // namespace tandem

#endif
