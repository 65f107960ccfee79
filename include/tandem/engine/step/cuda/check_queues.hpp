// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// check_queues(): whether a step can end on GPUs whose streams share hardware queues.

#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/runtime/cuda/environment.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/verify/hardware_queues.hpp>
#include <tandem/schedule/verify/sentence.hpp>

namespace tandem::cuda {

/// Found by a Rank through its device. Nothing where a program has no links.
///
/// Cost: linear in the actions of all devices of a replica.
/// @param imported  rows to run in place of the strategy's; or null
/// @throws ContractError  a rank would wait forever; it says what to do
template <class Program>
TANDEM_COLD void check_queues(std::type_identity<Program>, ActionRows const* imported, int replicas,
                              RankDevice const& /*device*/) {
  if constexpr (Program::map.links > 0) {
    StepRules const rules{.replicas = replicas,
                          .averaging = Program::averaging,
                          .ties = Program::ties.crosses(),
                          .chunks = Program::batching.chunks};
    ActionRows const table = imported != nullptr ? *imported : rows_of(Program::table);
    Verdict const verdict =
        verify_queues(complete(table, Program::map, rules), Program::map, rules, hardware_queues());
    if (!verdict) {
      throw ContractError{"the step would not end: " + to_string(verdict)};
    }
  }
}

}  // namespace tandem::cuda
