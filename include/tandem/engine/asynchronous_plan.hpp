// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The RankPlan of a device of an asynchronous pipeline.

#include <tandem/engine/rank_plan.hpp>

namespace tandem {

/// No rows, since the device never comes to the end of one: each_action() says what it does next.
template <class Program>
RankPlan make_asynchronous_plan(Batching const& batching) {
  LocalStage const& stage = Program::stages.stage[0];
  return {.batching = batching,
          .stages = {{.first = stage.first, .last = stage.last, .live = Program::places.live()}}};
}

}  // namespace tandem
