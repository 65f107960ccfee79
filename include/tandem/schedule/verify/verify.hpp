// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// verify(): whether an action table can be run, at compile time or at run time.
///
/// The rows are executed with counters in place of tensors: a device goes on as long as it can and
/// is then woken by what it waits for; a SEND waits for a free place, a RECV for data. Since a
/// stage's actions of one kind stand in ascending order of microbatches, one counter of each kind
/// says all that was done.

#include <tandem/core/contract.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/verify/messages.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem {

namespace detail {

/// @tparam Rules  those of synchronous training, or of a table with updates
template <class Table, class Rules = MessageVerification<Table>>
class Verification : Rules {
  using Base = Rules;
  using typename Base::Step;

 public:
  template <class... Extra>
  constexpr Verification(Table const& table, StageMapView const& map, int microbatches, int depth,
                         Extra const&... extra)
      : Base{table, map, microbatches, depth, extra...} {}

  constexpr Verdict run() {
    for (int d = 0; d < map_.devices; ++d) {
      queue_[queued_++] = d;
    }
    for (int next = 0; next < queued_; ++next) {
      int const d = queue_[next % map_.devices];
      ActionSpan const row = row_of(table_, d);
      for (int& at = position_[d]; at < row.size; ++at) {
        Step const step = advance(d, row.data[at]);
        if (step == Step::failed) {
          return verdict_;
        }
        if (step == Step::waiting) {
          break;
        }
      }
    }
    for (int d = 0; d < map_.devices; ++d) {
      if (position_[d] < row_of(table_, d).size) {
        return stuck();
      }
    }
    return complete();
  }

 private:
  using Base::awaited;
  using Base::backed_;
  using Base::fail;
  using Base::forwarded_;
  using Base::in_row;
  using Base::map_;
  using Base::position_;
  using Base::queue_;
  using Base::queued_;
  using Base::retired_;
  using Base::sends;
  using Base::table_;
  using Base::verdict_;

  constexpr Step advance(int d, Action const& action) {
    if constexpr (Rules::has_updates) {
      if (!this->admits(action)) {
        return fail(Flaw::foreign_update, d, action);
      }
    } else if (action.kind > ActionKind::receive_backward || action.version != 0) {
      return fail(Flaw::foreign_action, d, action);
    }
    int const s = action.stage;
    if (s < 0 || s >= map_.stages) {
      verdict_.count = map_.stages;
      return fail(Flaw::unknown_stage, d, action);
    }
    if (map_.device[s] != d) {
      verdict_.other_rank = map_.device[s];
      return fail(Flaw::wrong_device, d, action);
    }
    if constexpr (Rules::has_updates) {
      if (action.kind >= ActionKind::update) {
        return action.kind == ActionKind::update ? this->update(d, action)
                                                 : this->exchange(d, action);
      }
    }
    int const first = this->first_microbatch(s);
    if (action.index < first || action.index >= first + this->share_) {
      verdict_.first = first;
      verdict_.count = this->share_;
      return fail(Flaw::unknown_microbatch, d, action);
    }
    if constexpr (Rules::has_updates) {
      Step const step = pass_or_message(d, action);
      return step == Step::done ? this->read_weights(d, action) : step;
    } else {
      return pass_or_message(d, action);
    }
  }

  constexpr Step pass_or_message(int d, Action const& action) {
    switch (action.kind) {
      case ActionKind::forward:
        return this->forward(d, action);
      case ActionKind::weight_gradient:
        return this->weight_gradient(d, action);
      case ActionKind::send_forward:
        return this->send(d, action, true);
      case ActionKind::receive_forward:
        return this->receive(d, action, true);
      case ActionKind::send_backward:
        return this->send(d, action, false);
      case ActionKind::receive_backward:
        return this->receive(d, action, false);
      default:
        return this->backward(d, action);
    }
  }

  constexpr Verdict stuck() {
    int at = 0;
    for (int d = 0; d < map_.devices; ++d) {
      if (position_[d] == row_of(table_, d).size) {
        continue;
      }
      at = d;
      Action wanted = awaited(d);
      int const peer = map_.device[wanted.stage];
      if (!in_row(peer, position_[peer], wanted)) {
        Action const action = row_of(table_, d)[position_[d]];
        fail(sends(action) ? Flaw::unmatched_send : Flaw::unmatched_receive, d, action, wanted);
        verdict_.other_rank = peer;
        return verdict_;
      }
    }
    for (int d = 0; d < map_.devices; ++d) {  // each waits for another: on to those in a circle
      at = map_.device[awaited(at).stage];
    }
    Action const wanted = awaited(at);
    fail(Flaw::deadlock, at, row_of(table_, at)[position_[at]], wanted);
    verdict_.other_rank = map_.device[wanted.stage];
    verdict_.waiting = row_of(table_, verdict_.other_rank)[position_[verdict_.other_rank]];
    return verdict_;
  }

  // All rows have ended: were all microbatches passed through all stages?
  constexpr Verdict complete() {
    for (int s = 0; s < map_.stages && verdict_; ++s) {
      int const end = this->first_microbatch(s) + this->share_;
      auto const stage = static_cast<std::int16_t>(s);
      if (forwarded_[s] < end) {
        fail(Flaw::missing, map_.device[s], {ActionKind::forward, 0, stage, forwarded_[s]});
      } else if (backed_[s] < end) {
        fail(Flaw::missing, map_.device[s], {ActionKind::backward, 0, stage, backed_[s]});
      } else if (retired_[s] < end) {
        fail(Flaw::missing, map_.device[s], {ActionKind::weight_gradient, 0, stage, retired_[s]});
      }
    }
    if constexpr (Rules::has_updates) {
      if (verdict_) {
        this->complete_updates();
      }
    }
    return verdict_;
  }
};

}  // namespace detail

/// Whether every forward and backward (B, or I and W) of each stage stands once for each microbatch
/// of its copy, on the stage's device, behind what it needs; whether messages are sent and received
/// in one order, and none is left over; and whether no device waits forever. A stage's actions of
/// one kind must stand in ascending order of microbatches.
///
/// Cost: about linear in the actions.
/// @param table  lowered: passes and messages, no reductions and no update
/// @param depth  messages that may be in flight in each link and direction; at 0, a SEND ends
///               together with its RECV
/// @throws ContractError  microbatches < 1 or depth < 0
template <class Table>
constexpr Verdict verify(Table const& table, StageMapView const& map, int microbatches,
                         int depth = 1) {
  expects(microbatches >= 1 && depth >= 0,
          "verify(table, map, microbatches, depth): give 1 microbatch or more, depth 0 or more");
  if (!is_sound(map) || map.devices != devices_of(table)) {
    return {.flaw = Flaw::unsound_map, .rank = devices_of(table), .count = map.devices};
  }
  if (microbatches % map.copies != 0) {
    return {.flaw = Flaw::uneven_copies, .first = microbatches, .count = map.copies};
  }
  return detail::Verification<Table>{table, map, microbatches, depth}.run();
}

}  // namespace tandem
