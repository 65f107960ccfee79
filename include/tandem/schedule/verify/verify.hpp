// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// verify(): whether an action table can be run, at compile time or at run time.
///
/// The rows are executed with counters in place of tensors: a device goes on as long as it can and
/// is then woken by what it waits for; a SEND waits for a free place, a RECV for data. Each kind of
/// rules is a part of its own: Passes, Messages, and of tables with updates Updates.

#include <tandem/core/contract.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/verify/messages.hpp>
#include <tandem/schedule/verify/passes.hpp>
#include <tandem/schedule/verify/table_state.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem {

namespace detail {

/// Of a table that has no updates: one of synchronous training, without what ends its step.
template <class Table>
class NoUpdates {
 public:
  static constexpr Flaw foreign = Flaw::foreign_action;

  constexpr NoUpdates(TableState<Table>&, Messages<Table> const& messages) : messages_{messages} {}

  constexpr bool admits(Action const& action) const {
    return action.kind <= ActionKind::receive_backward && action.version == 0;
  }
  constexpr Step run(int, Action const&) const { return Step::done; }  // admits() refused it
  constexpr Step read_weights(int, Action const&) const { return Step::done; }
  constexpr Action awaited(int d) const { return messages_.awaited(d); }
  constexpr Step finish() const { return Step::done; }

 private:
  Messages<Table> const& messages_;
};

/// @tparam Rules  what a table may have besides passes and messages: NoUpdates or Updates
template <class Table, class Rules = NoUpdates<Table>>
class Verification {
 public:
  template <class... Extra>
  constexpr Verification(Table const& table, StageMapView const& map, int microbatches, int chunks,
                         int depth, Extra const&... extra)
      : at_{table, map, microbatches, depth, chunks},
        passes_{at_},
        messages_{at_, microbatches * chunks},
        rules_{at_, messages_, extra...} {}
  Verification(Verification const&) = delete;  // its parts refer to each other
  Verification& operator=(Verification const&) = delete;

  constexpr Verdict run() {
    for (int d = messages_.next(); d >= 0; d = messages_.next()) {
      ActionSpan const row = row_of(at_.table, d);
      for (int& at = at_.position[d]; at < row.size; ++at) {
        Step const step = advance(d, row.data[at]);
        if (step == Step::failed) {
          return at_.verdict;
        }
        if (step == Step::waiting) {
          break;
        }
      }
    }
    for (int d = 0; d < at_.map.devices; ++d) {
      if (!has_ended(d)) {
        return stuck();
      }
    }
    if (passes_.finish() == Step::done) {
      rules_.finish();
    }
    return at_.verdict;
  }

 private:
  constexpr bool has_ended(int d) const { return at_.position[d] == row_of(at_.table, d).size; }

  constexpr Step advance(int d, Action const& action) {
    if (!rules_.admits(action)) {
      return at_.fail(Rules::foreign, d, action);
    }
    int const s = action.stage;
    if (s < 0 || s >= at_.map.stages) {
      at_.verdict.count = at_.map.stages;
      return at_.fail(Flaw::unknown_stage, d, action);
    }
    if (at_.map.device[s] != d) {
      at_.verdict.other_rank = at_.map.device[s];
      return at_.fail(Flaw::wrong_device, d, action);
    }
    if (action.kind >= ActionKind::update) {
      return rules_.run(d, action);
    }
    int const first = at_.first_microbatch(s);
    if (action.index < first || action.index >= first + at_.share) {
      at_.verdict.first = first;
      at_.verdict.count = at_.share;
      return at_.fail(Flaw::unknown_microbatch, d, action);
    }
    switch (action.kind) {
      case ActionKind::forward:
        return with_weights(d, action, passes_.forward(d, action));
      case ActionKind::weight_gradient:
        return passes_.weight_gradient(d, action);
      case ActionKind::send_forward:
        return messages_.send(d, action, true);
      case ActionKind::receive_forward:
        return messages_.receive(d, action, true);
      case ActionKind::send_backward:
        return messages_.send(d, action, false);
      case ActionKind::receive_backward:
        return messages_.receive(d, action, false);
      default:
        return with_weights(d, action, passes_.backward(d, action));
    }
  }

  constexpr Step with_weights(int d, Action const& action, Step pass) {
    return pass == Step::done ? rules_.read_weights(d, action) : pass;
  }

  constexpr Verdict stuck() {
    int at = 0;
    for (int d = 0; d < at_.map.devices; ++d) {
      if (has_ended(d)) {
        continue;
      }
      at = d;
      Action wanted = rules_.awaited(d);
      int const peer = at_.map.device[wanted.stage];
      if (!at_.to_come(peer, wanted)) {
        Action const action = at_.action_of(d);
        bool const sends = Messages<Table>::sends(action);
        at_.fail(sends ? Flaw::unmatched_send : Flaw::unmatched_receive, d, action, wanted);
        at_.verdict.other_rank = peer;
        return at_.verdict;
      }
    }
    for (int d = 0; d < at_.map.devices; ++d) {  // each waits for another: on to those in a circle
      at = at_.map.device[rules_.awaited(at).stage];
    }
    Action const wanted = rules_.awaited(at);
    at_.fail(Flaw::deadlock, at, at_.action_of(at), wanted);
    at_.verdict.other_rank = at_.map.device[wanted.stage];
    at_.verdict.waiting = at_.action_of(at_.verdict.other_rank);
    return at_.verdict;
  }

  TableState<Table> at_;
  Passes<Table> passes_;
  Messages<Table> messages_;
  Rules rules_;
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
/// @param chunks  of time, of each microbatch, where chunked() has made the table: then the
///                backwards of a microbatch stand behind all its forwards, and as many more
///                messages may be in flight, see Channels
/// @throws ContractError  microbatches < 1, depth < 0 or chunks < 1
template <class Table>
constexpr Verdict verify(Table const& table, StageMapView const& map, int microbatches,
                         int depth = 1, int chunks = 1) {
  expects(microbatches >= 1 && depth >= 0 && chunks >= 1,
          "verify(table, map, microbatches, depth, chunks): give 1 microbatch or more, depth 0 or "
          "more, 1 chunk or more");
  if (!is_sound(map) || map.devices != devices_of(table)) {
    return {.flaw = Flaw::unsound_map, .rank = devices_of(table), .count = map.devices};
  }
  if (microbatches % map.copies != 0) {
    return {.flaw = Flaw::uneven_copies, .first = microbatches, .count = map.copies};
  }
  return detail::Verification<Table>{table, map, microbatches, chunks, depth}.run();
}

}  // namespace tandem
