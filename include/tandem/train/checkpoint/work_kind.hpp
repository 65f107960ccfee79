// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WorkKind and GroupState: what ranks that have failed can still do.
///
/// Ranks that failed cannot work together again: what others wait for never comes. But each still
/// has its parameters, and where none was being changed they are whole, and can be saved.

#include <cstddef>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>

namespace tandem {

/// What a run does to parameters and optimizer states.
enum class WorkKind {
  looks,     ///< reads them, each rank on its own: download()
  gathers,   ///< reads them, of which each rank has a part, all ranks together
  computes,  ///< with them, all ranks together: evaluation
  restores,  ///< gives each rank back its own after computes, each on its own
  steps,     ///< changes them at the end, each rank in its update
  writes     ///< changes them
};

/// Whether all ranks of all processes do such work together, so that each process does as often.
constexpr bool is_together(WorkKind kind) {
  return kind == WorkKind::gathers || kind == WorkKind::computes || kind == WorkKind::steps;
}

/// What a rank that stalls in work of a kind does not return from.
constexpr char const* doing(WorkKind kind) {
  switch (kind) {
    case WorkKind::looks:
      return "reading its parameters";
    case WorkKind::gathers:
      return "gathering the states of its optimizer";
    case WorkKind::computes:
      return "evaluate() or predict()";
    case WorkKind::steps:
      return "a training step";
    default:
      return "taking parameters";
  }
}

/// What the ranks of a group can do.
enum class GroupState {
  works,     ///< everything
  readable,  ///< a rank has failed while no parameter was changed
  torn       ///< a rank has failed while parameters were changed: some may be of before, some after
};

/// Whether work of a kind can begin in @p state.
/// @throws ContractError  it cannot
TANDEM_ONCE void check_can(GroupState state, WorkKind kind);

/// The state after work of a kind has failed.
/// @param untouched  no rank of the replica that is saved has begun to change a parameter
/// @param arrived    each has what others had updated before
constexpr GroupState after_failure(GroupState before, WorkKind kind, bool untouched,
                                   bool arrived = true) {
  bool const whole = kind == WorkKind::looks || kind == WorkKind::gathers ||
                     kind == WorkKind::computes || (kind == WorkKind::steps && untouched);
  return whole && arrived && before != GroupState::torn ? GroupState::readable : GroupState::torn;
}

/// Whether all ranks of the first replica, which is the one that is saved, say so, such as that
/// they have not begun to change their parameters in the last step.
/// @param replica  which of the process's @p ranks it is
/// @param says     of a rank
template <class Ranks, class F>
bool all_say(Ranks const& ranks, MeshGroup const& replica, F const& says) {
  for (int device = 0; device < replica.count; ++device) {
    auto const local = static_cast<std::size_t>(replica[device]);
    if (local >= ranks.size() || !ranks[local] || !says(*ranks[local])) {
      return false;
    }
  }
  return true;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void check_can(GroupState state, WorkKind kind) {
  expects(state != GroupState::torn,
          "a rank of this trainer has failed, so its replicas may differ: make a new Trainer and "
          "load a checkpoint");
  expects(
      state == GroupState::works || kind != WorkKind::gathers,
      "a rank of this trainer has failed, and with ShardedState each rank has its part of the "
      "optimizer's states alone, with TensorParallel its slices of all, so that they cannot be "
      "gathered any more: with ShardedState export_model() still writes the weights; make a new "
      "Trainer and load the last checkpoint");
  expects(state == GroupState::works || kind == WorkKind::looks || kind == WorkKind::restores,
          "a rank of this trainer has failed, so its ranks cannot work together any more; no "
          "parameter was being changed, so save(), export_model() and parameters() go on: save, "
          "make a new Trainer and load that");
}

}  // namespace tandem

#endif
