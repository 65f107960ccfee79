// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// verify() of a whole step, as complete() writes it and ranks run it: passes, messages, and the
/// tail of reductions, updates and exchanges.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/effects.hpp>
#include <tandem/schedule/table/row_ends.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/verify/step_run.hpp>
#include <tandem/schedule/verify/verdict.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace tandem::detail {

/// Judges the tail of one row. @pre its passes and messages, without it, pass verify()
class TailOfRow {
 public:
  /// @param early  whether its gradients are on their way as its stages end
  constexpr TailOfRow(ActionSpan row, StageMapView const& map, StepRules const& rules, int device,
                      bool early)
      : row_{row},
        map_{map},
        rules_{rules},
        device_{device},
        early_{early},
        ends_{row, map},
        done_{std::int64_t{4} + 2 * map.stages + count_buckets()} {}

  /// Whether the rules' buckets are of stages that the device has.
  [[nodiscard]] constexpr bool knows_buckets() const { return known_; }

  constexpr Verdict judge() {
    for (at_ = 0; at_ < row_.size && verdict_; ++at_) {
      if (is_tail(row_[at_].kind)) {
        judge(row_[at_]);
      }
    }
    each_of_tail(map_, rules_, device_, [this](Action const& action, int i) {
      if (verdict_ && !done_[i]) {
        fail(Flaw::missing, action);
      }
    });
    return verdict_;
  }

 private:
  constexpr void fail(Flaw flaw, Action action, Action other = {.index = -1}) {
    verdict_ = {.flaw = flaw, .rank = device_, .position = at_, .action = action, .other = other};
  }

  constexpr int count_buckets() {
    int buckets = 0;
    if (rules_.sums_gradients(map_)) {
      rules_.each_bucket(map_, device_, [&](int stage, int) {
        ++buckets;
        known_ = known_ && stage >= 0 && stage < map_.stages && map_.device[stage] == device_;
      });
    }
    return buckets;
  }

  // Which of each_of_tail() it is; -1 if none.
  constexpr int number(Action const& action) const {
    int found = -1;
    each_of_tail(map_, rules_, device_,
                 [&](Action const& other, int i) { found = other == action ? i : found; });
    return found;
  }

  constexpr bool stands_behind(Action const& wanted) const {
    for (int i = at_ + 1; i < row_.size; ++i) {
      if (row_.data[i] == wanted) {
        return true;
      }
    }
    return false;
  }

  constexpr void judge(Action const& action) {
    int const s = action.stage;
    if (s < 0 || s >= map_.stages) {
      fail(Flaw::unknown_stage, action);
      verdict_.count = map_.stages;
    } else if (map_.device[s] != device_) {
      fail(Flaw::wrong_device, action);
      verdict_.other_rank = map_.device[s];
    } else if (int const own = number(action); own < 0) {
      fail(Flaw::foreign_tail, action);
    } else if (done_[own]) {
      fail(Flaw::doubled, action);
    } else {
      judge_order(action);
      done_[own] = true;
    }
  }

  constexpr void judge_order(Action const& action) {
    if (action.kind == ActionKind::reduce_gradient) {  // behind the bucket before it
      each_of_tail(map_, rules_, device_, [&](Action const& other, int i) {
        if (verdict_ && other.kind == action.kind && other.index < action.index && !done_[i]) {
          stands_behind(other) ? fail(Flaw::reduced_out_of_order, action, other)
                               : fail(Flaw::missing, other, action);
        }
      });
    }
    each_needed(action, row_, ends_, map_, rules_, device_, early_,
                [&](Action const& needed, int place, int i) {
                  if (!verdict_ || (place < 0 ? done_[i] : place < at_)) {
                    return;
                  }
                  if (place >= 0 || stands_behind(needed)) {
                    fail(Flaw::before_its_input, action, needed);
                  } else {
                    fail(Flaw::missing, needed, action);
                  }
                });
  }

  ActionSpan row_;
  StageMapView const& map_;
  StepRules const& rules_;
  int device_;
  bool early_;
  bool known_ = true;
  RowEnds ends_;
  Scratch<bool> done_;  // of each_of_tail()
  int at_ = 0;
  Verdict verdict_;
};

/// Whether the copies of each part have as many buckets. @pre they are of stages that there are
constexpr Verdict sums_alike(StageMapView const& map, StepRules const& rules) {
  Scratch<int> buckets{map.stages};
  for (int d = 0; d < map.devices; ++d) {
    rules.each_bucket(map, d, [&buckets](int stage, int) { ++buckets[stage]; });
  }
  for (int s = 0; s < map.stages; ++s) {
    if (buckets[s] != buckets[s % map.parts()]) {
      return {.flaw = Flaw::unsound_rules, .rank = map.device[s]};
    }
  }
  return {};
}

}  // namespace tandem::detail

namespace tandem {

namespace detail {

/// Where in a row with its tail the i-th action of those without it stands; the end behind the
/// last.
constexpr int position_with_tail(ActionSpan row, int i) {
  int at = 0;
  for (; at < row.size && (is_tail(row.data[at].kind) || i-- > 0); ++at) {
  }
  return at;
}

}  // namespace detail

/// verify() of a whole step: besides, whether each bucket of gradients is reduced once, behind the
/// passes that make it and before its update; losses and norms are summed once, before they are
/// read; each device, or of two models each stage, has one update; two models are exchanged once,
/// behind the update or, if overlapped, before it; and whether no device waits forever when each
/// collective blocks until all devices of its group are there.
///
/// Cost: about linear in the actions, and in the buckets squared.
/// @param table  complete(): passes, messages and the tail
/// @param rules  of the step; by their buckets, if they give any
/// @throws ContractError  microbatches < 1, depth < 0 or rules.replicas < 1
template <class Table>
constexpr Verdict verify(Table const& table, StageMapView const& map, int microbatches,
                         StepRules const& rules, int depth = 1) {
  expects(rules.replicas >= 1, "verify(table, map, microbatches, rules): give 1 replica or more");
  auto const passes = without_tail(table);
  Verdict verdict = verify(passes, map, microbatches, depth, rules.chunks);
  if (!verdict) {
    bool const placed = verdict.rank < devices_of(table);
    verdict.position =
        placed ? detail::position_with_tail(row_of(table, verdict.rank), verdict.position) : 0;
    return verdict;
  }
  if (rules.keeps_two() && map.copies != 2) {
    return {.flaw = Flaw::uneven_copies, .first = microbatches, .count = 2};
  }
  bool const reduces_early = row_order(passes, map, rules).reduces_early;
  for (int d = 0; d < map.devices && verdict; ++d) {
    bool const early = begins_gradients_early(map, rules.keeps_two(), reduces_early, d);
    detail::TailOfRow row{row_of(table, d), map, rules, d, early};
    if (!row.knows_buckets()) {
      return {.flaw = Flaw::unsound_rules, .rank = d};
    }
    verdict = row.judge();
  }
  if (verdict && map.copies > 1 && !rules.keeps_two()) {
    verdict = detail::sums_alike(map, rules);
  }
  return verdict
             ? detail::StepRun<Table>{table, map, reduces_early, microbatches, rules.chunks, depth}
                   .run()
             : verdict;
}

}  // namespace tandem
