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
#include <tandem/schedule/table/row_ends.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/table/step_rules.hpp>
#include <tandem/schedule/verify/step_run.hpp>
#include <tandem/schedule/verify/verdict.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace tandem::detail {

/// The actions of a row that a table of passes and messages does not have.
constexpr bool is_tail(ActionKind kind) { return kind > ActionKind::receive_backward; }

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
        first_stage_{first_stage(map, device)},
        ends_{row, map},
        memory_{3 * map.stages},
        updated_{memory_.data()},
        exchanged_{updated_ + map.stages},
        unreduced_{exchanged_ + map.stages} {
    if (rules.sums_gradients(map)) {
      rules.each_bucket(map, device, [this](int stage, int) {
        ++buckets_;
        known_ = known_ && stage >= 0 && stage < map_.stages && map_.device[stage] == device_;
        if (known_) {
          ++unreduced_[stage];
        }
      });
    }
  }

  /// Whether the rules' buckets are of stages that the device has.
  [[nodiscard]] constexpr bool knows_buckets() const { return known_; }

  constexpr Verdict judge() {
    for (at_ = 0; at_ < row_.size && verdict_; ++at_) {
      Action const& action = row_.data[at_];
      if (is_tail(action.kind)) {
        judge(action);
      }
    }
    if (verdict_) {
      complete();
    }
    return verdict_;
  }

 private:
  constexpr Action of(ActionKind kind, int stage, int index = 0) const {
    return {.kind = kind, .stage = static_cast<std::int16_t>(stage), .index = index};
  }
  constexpr Action of_device(ActionKind kind) const { return of(kind, first_stage_); }

  constexpr void fail(Flaw flaw, Action action, Action other = {.index = -1}) {
    verdict_ = {.flaw = flaw, .rank = device_, .position = at_, .action = action, .other = other};
  }

  constexpr bool stands_behind(Action const& wanted) const {
    for (int i = at_ + 1; i < row_.size; ++i) {
      if (row_.data[i] == wanted) {
        return true;
      }
    }
    return false;
  }

  // False, and what is wrong noted, unless what the action needs was there.
  constexpr bool needs(Action const& action, bool there, Action const& needed) {
    if (!there) {
      if (stands_behind(needed)) {
        fail(Flaw::before_its_input, action, needed);
      } else {
        fail(Flaw::missing, needed, action);
      }
    }
    return there;
  }
  constexpr bool needs_pass(Action const& action, int last) {
    return last < at_ || needs(action, false, row_.data[last]);
  }
  constexpr bool needs_losses(Action const& action) {
    return needs(action, awaited_ || !rules_.sums_losses(map_), of_device(ActionKind::await_loss));
  }
  // The buckets of all the device's stages, or of one, are reduced.
  constexpr bool needs_buckets(Action const& action, int stage = -1) {
    bool there = true;
    for (int s = 0; s < map_.stages; ++s) {
      there = there && ((stage >= 0 && s != stage) || unreduced_[s] == 0);
    }
    int wanted = -1;
    if (!there) {
      rules_.each_bucket(map_, device_, [&](int s, int bucket) {
        if (wanted < 0 && bucket >= next_ && (stage < 0 || s == stage)) {
          wanted = bucket;
        }
      });
    }
    return there || needs(action, false, bucket(wanted));
  }

  constexpr Action bucket(int index) const {
    int stage = first_stage_;
    rules_.each_bucket(map_, device_,
                       [&](int s, int bucket) { stage = bucket == index ? s : stage; });
    return of(ActionKind::reduce_gradient, stage, index);
  }

  constexpr int twin(int stage) const { return (stage + map_.parts()) % map_.stages; }

  constexpr bool is_foreign(Action const& action) const {
    bool const of_device = action.stage == first_stage_ && action.index == 0;
    switch (action.kind) {
      case ActionKind::reduce_gradient:
        return action.index < 0 || action.index >= buckets_ || action != bucket(action.index);
      case ActionKind::begin_loss:
      case ActionKind::await_loss:
        return !of_device || !rules_.sums_losses(map_);
      case ActionKind::reduce_norm:
        return !of_device || !rules_.sums_norm(map_);
      case ActionKind::update:
        return rules_.keeps_two() ? action.index != 0 : !of_device;
      case ActionKind::exchange:
        return action.index != 0 || !rules_.keeps_two();
      default:
        return true;
    }
  }

  // Counts an action that stands once.
  constexpr bool first_time(Action const& action, int& done) {
    if (done++ > 0) {
      fail(Flaw::doubled, action);
      return false;
    }
    return true;
  }

  constexpr void judge(Action const& action) {
    int const s = action.stage;
    if (s < 0 || s >= map_.stages) {
      fail(Flaw::unknown_stage, action);
      verdict_.count = map_.stages;
    } else if (map_.device[s] != device_) {
      fail(Flaw::wrong_device, action);
      verdict_.other_rank = map_.device[s];
    } else if (action.version != 0 || is_foreign(action)) {
      fail(Flaw::foreign_tail, action);
    } else {
      judge_known(action);
    }
  }

  constexpr void judge_known(Action const& action) {
    switch (action.kind) {
      case ActionKind::reduce_gradient:
        reduce(action);
        break;
      case ActionKind::begin_loss:
        if (first_time(action, begun_)) {
          needs_pass(action, ends_.last_forward());
        }
        break;
      case ActionKind::await_loss:
        if (first_time(action, awaited_)) {
          needs(action, begun_ > 0, of_device(ActionKind::begin_loss));
        }
        break;
      case ActionKind::reduce_norm:
        if (first_time(action, norms_) && needs_pass(action, ends_.last())) {
          needs_buckets(action);
        }
        break;
      case ActionKind::update:
        rules_.keeps_two() ? update_stage(action) : update(action);
        break;
      default:
        exchange(action);
    }
  }

  constexpr void reduce(Action const& action) {
    if (action.index < next_) {
      fail(Flaw::doubled, action);
    } else if (action.index > next_) {
      Action const earlier = bucket(next_);
      stands_behind(earlier) ? fail(Flaw::reduced_out_of_order, action, earlier)
                             : fail(Flaw::missing, earlier, action);
    } else if (needs_pass(action, early_ ? ends_.last(action.stage) : ends_.last())) {
      ++next_;
      --unreduced_[action.stage];
    }
  }

  constexpr void update(Action const& action) {
    if (first_time(action, updates_) && needs_pass(action, ends_.last()) && needs_buckets(action) &&
        needs_losses(action)) {
      needs(action, norms_ > 0 || !rules_.sums_norm(map_), of_device(ActionKind::reduce_norm));
    }
  }

  // One stage of one of two models is updated.
  constexpr void update_stage(Action const& action) {
    int const s = action.stage;
    if (first_time(action, updated_[s]) && needs_pass(action, ends_.last(s)) &&
        needs_buckets(action, s) && needs_losses(action)) {
      needs(action, exchanged_[s] > 0 || !rules_.averaging.overlapped, of(ActionKind::exchange, s));
    }
  }

  constexpr void exchange(Action const& action) {
    int const s = action.stage;
    if (!first_time(action, exchanged_[s]) || !needs_pass(action, ends_.last(s)) ||
        !needs_losses(action) || rules_.averaging.overlapped) {
      return;
    }
    int const other = twin(s);
    if (needs(action, updated_[s] > 0, of(ActionKind::update, s)) &&
        map_.device[other] == device_) {
      needs(action, updated_[other] > 0, of(ActionKind::update, other));
    }
  }

  constexpr void complete() {
    auto const there = [this](bool is, Action const& action) {
      if (!is && verdict_) {
        fail(Flaw::missing, action);
      }
    };
    there(next_ == buckets_, bucket(next_));
    bool const sums = rules_.sums_losses(map_);
    there(begun_ > 0 || !sums, of_device(ActionKind::begin_loss));
    there(awaited_ > 0 || !sums, of_device(ActionKind::await_loss));
    there(norms_ > 0 || !rules_.sums_norm(map_), of_device(ActionKind::reduce_norm));
    there(updates_ > 0 || rules_.keeps_two(), of_device(ActionKind::update));
    for (int s = 0; s < map_.stages && rules_.keeps_two(); ++s) {
      if (map_.device[s] == device_) {
        there(updated_[s] > 0, of(ActionKind::update, s));
        there(exchanged_[s] > 0, of(ActionKind::exchange, s));
      }
    }
  }

  ActionSpan row_;
  StageMapView const& map_;
  StepRules const& rules_;
  int device_;
  bool early_;
  int first_stage_;
  RowEnds ends_;
  Scratch<int> memory_;
  int* updated_;    // updates of each stage, where it has its own
  int* exchanged_;  // … and exchanges
  int* unreduced_;  // buckets of each stage
  int buckets_ = 0;
  bool known_ = true;
  int next_ = 0;  // bucket
  int begun_ = 0;
  int awaited_ = 0;
  int norms_ = 0;
  int updates_ = 0;
  int at_ = 0;
  Verdict verdict_;
};

}  // namespace tandem::detail

namespace tandem {

/// The table without the tails of its rows: passes and messages.
template <int Devices, int Length>
constexpr auto without_tail(ActionTable<Devices, Length> const& table) {
  ActionTable<Devices, Length> rows;
  for (int d = 0; d < Devices; ++d) {
    for (Action const& action : row_of(table, d)) {
      if (!detail::is_tail(action.kind)) {
        rows.add(d, action);
      }
    }
  }
  return rows;
}
TANDEM_ONCE ActionRows without_tail(ActionRows const& table);

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
    bool const early = begins_gradients_early(map, rules, reduces_early, d);
    detail::TailOfRow row{row_of(table, d), map, rules, d, early};
    if (!row.knows_buckets()) {
      return {.flaw = Flaw::unsound_rules, .rank = d};
    }
    verdict = row.judge();
  }
  return verdict
             ? detail::StepRun<Table>{table, map, rules, reduces_early, microbatches * rules.chunks,
                                      depth}
                   .run()
             : verdict;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ActionRows without_tail(ActionRows const& table) {
  ActionRows rows(table.size());
  for (std::size_t d = 0; d < table.size(); ++d) {
    for (Action const& action : table[d]) {
      if (!detail::is_tail(action.kind)) {
        rows[d].push_back(action);
      }
    }
  }
  return rows;
}

}  // namespace tandem

#endif
