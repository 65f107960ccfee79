// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// each_action: what a stage of an asynchronous pipeline does in one round, derived from its rule.

#include <cstdint>

#include <tandem/schedule/rules/asynchrony.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// f(action) for each action of round @p g, in order: F(g), then B of the microbatch that is
/// delay(stage) earlier, with the messages around both, then the update if that B ends its step.
/// Rounds from @p all on, the number of microbatches, have no F: they drain the stage.
///
/// An index is a microbatch's number in the stream, and a version that of its weights, as far as
/// their types reach. asynchronous_table() has the same rows as a table.
template <class F>
constexpr void each_action(Asynchrony const& rule, int stage, std::int64_t g, std::int64_t all,
                           F const& f) {
  auto const act = [&](ActionKind kind, std::int64_t index, std::int64_t version = 0) {
    f(Action{.kind = kind,
             .version = static_cast<std::uint8_t>(version > 0 ? version : 0),
             .stage = static_cast<std::int16_t>(stage),
             .index = static_cast<std::int32_t>(index)},
      index);
  };
  bool const first = stage == 0;
  bool const last = stage + 1 == rule.devices;
  if (g < all) {
    if (!first) {
      act(ActionKind::receive_forward, g);
    }
    act(ActionKind::forward, g, rule.forward_version(stage, g));
    if (!last) {
      act(ActionKind::send_forward, g);
    }
  }
  std::int64_t const late = g - rule.delay(stage);
  if (late < 0 || late >= all) {
    return;
  }
  if (!last) {
    act(ActionKind::receive_backward, late);
  }
  act(ActionKind::backward, late, rule.backward_version(stage, late));
  if (!first) {
    act(ActionKind::send_backward, late);
  }
  if ((late + 1) % rule.microbatches == 0) {
    f(Action{.kind = ActionKind::update, .stage = static_cast<std::int16_t>(stage)}, late);
  }
}

}  // namespace tandem
