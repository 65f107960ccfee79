// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// verify(): whether an action table can be run, at compile time or at run time.
///
/// The rows are executed with counters in place of tensors: a device goes on as long as it can and
/// is then woken by what it waits for; a SEND waits for a free place, a RECV for data. Each kind of
/// rules is a part of its own: Passes, Messages, and of tables with updates Updates.

#include <tandem/core/contract.hpp>
#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/verify/channels.hpp>
#include <tandem/schedule/verify/table_state.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem::detail {

template <class Table>
class Messages {
 public:
  constexpr Messages(TableState<Table>& state, int microbatches)
      : at_{state},
        channels_{state.map, microbatches, state.depth, state.chunks},
        waits_{4 * state.map.devices, -1},
        part_{waits_.data()},
        waits_for_{part_ + state.map.devices},
        offered_{waits_for_ + state.map.devices},
        queue_{offered_ + state.map.devices} {
    for (int d = 0; d < state.map.devices; ++d) {
      queue_[queued_++] = d;
    }
  }

  /// The next device that can go on, or -1.
  constexpr int next() { return taken_ < queued_ ? queue_[taken_++ % at_.map.devices] : -1; }

  /// The device cannot go on until it is woken by the same number: a channel, or one above all
  /// channels, for what is no message.
  constexpr Step wait(int d, int channel) {
    waits_for_[d] = channel;
    return Step::waiting;
  }
  constexpr void wake(int d, int channel) {
    if (waits_for_[d] == channel) {
      waits_for_[d] = -1;
      queue_[queued_++ % at_.map.devices] = d;
    }
  }

  constexpr Step send(int d, Action const& action, bool forward) {
    int const s = action.stage;
    int& moved = at_.moved(action.kind, s);
    int& part = part_[d];
    int& offered = offered_[d];
    if (part < 0) {
      if (moved != action.index) {
        return at_.not_its_turn(d, action, moved, action.kind);
      }
      int const first = first_out(s, forward);
      if (first < 0) {
        return at_.fail(Flaw::nothing_to_send, d, action);
      }
      if ((forward ? at_.forwarded : at_.backed)[s] <= action.index) {
        return at_.lacks(d, action, forward ? ActionKind::forward : ActionKind::backward, s);
      }
      part = first;
    }
    for (; part >= 0; part = next_out(part, forward)) {
      int const channel = at_.map.channel(part, forward);
      if (offered < 0) {
        if (channels_.full(channel)) {
          return wait(d, channel);
        }
        channels_.send(channel, part);
        wake(far_end(part, forward), channel);
        offered = at_.depth == 0 ? part : -1;
      }
      if (offered >= 0 && !channels_.empty(channel)) {
        return wait(d, channel);
      }
      offered = -1;
    }
    moved = action.index + 1;
    return Step::done;
  }

  constexpr Step receive(int d, Action const& action, bool forward) {
    int& moved = at_.moved(action.kind, action.stage);
    int& part = part_[d];
    if (part < 0) {
      if (moved != action.index) {
        return at_.not_its_turn(d, action, moved, action.kind);
      }
      part = first_out(action.stage, !forward);
      if (part < 0) {
        return at_.fail(Flaw::nothing_to_receive, d, action);
      }
    }
    for (; part >= 0; part = next_out(part, !forward)) {
      int const channel = at_.map.channel(part, forward);
      if (channels_.empty(channel)) {
        return wait(d, channel);
      }
      if (channels_.next(channel) != part) {
        return at_.fail(Flaw::out_of_fifo_order, d, action, next_message(channel, true));
      }
      channels_.take(channel);
      wake(far_end(part, !forward), channel);
    }
    moved = action.index + 1;
    return Step::done;
  }

  /// What the action of a device that waits is waiting for.
  constexpr Action awaited(int d) const {
    Action const action = at_.action_of(d);
    bool const forward =
        action.kind == ActionKind::send_forward || action.kind == ActionKind::receive_forward;
    if (sends(action)) {
      return next_message(at_.map.channel(part_[d], forward), false);
    }
    StageEdge const edge = at_.map.edge[part_[d]];
    return {.kind = forward ? ActionKind::send_forward : ActionKind::send_backward,
            .stage = forward ? edge.from : edge.to,
            .index = action.index};
  }

  static constexpr bool sends(Action const& action) {
    return action.kind == ActionKind::send_forward || action.kind == ActionKind::send_backward;
  }

 private:
  constexpr int first_out(int stage, bool forward) const {
    return forward ? at_.edges.crossing_out[stage] : at_.edges.crossing_in[stage];
  }
  constexpr int next_out(int edge, bool forward) const {
    return forward ? at_.edges.next_out[edge] : at_.edges.next_in[edge];
  }

  // The device at the other end of an edge, seen from its lower stage or from its higher one.
  constexpr int far_end(int edge, bool from_lower) const {
    return at_.map.device[from_lower ? at_.map.edge[edge].to : at_.map.edge[edge].from];
  }

  // The action that sent, or that will receive, the next message in flight.
  constexpr Action next_message(int channel, bool sender) const {
    int const e = channels_.next(channel);
    bool const forward = channel % 2 == 0;
    StageEdge const edge = at_.map.edge[e];
    return {.kind = forward ? (sender ? ActionKind::send_forward : ActionKind::receive_forward)
                            : (sender ? ActionKind::send_backward : ActionKind::receive_backward),
            .stage = forward == sender ? edge.from : edge.to,
            .index = at_.first_microbatch(edge.from) + channels_.taken(e, forward)};
  }

  TableState<Table>& at_;
  Channels channels_;
  Scratch<int> waits_;
  int* part_;       // of each device, the edge that its message waits at, or -1
  int* waits_for_;  // … the channel that it waits for, or -1
  int* offered_;    // at depth 0: the edge whose message lies there to be taken, or -1
  int* queue_;      // a ring of the devices that can go on, each at most once
  int queued_ = 0;  // all that ever were
  int taken_ = 0;   // … that next() gave
};

template <class Table>
class Passes {
 public:
  constexpr explicit Passes(TableState<Table>& state) : at_{state} {}

  constexpr Step forward(int d, Action const& action) {
    int const s = action.stage;
    if (at_.forwarded[s] != action.index) {
      return at_.not_its_turn(d, action, at_.forwarded[s], ActionKind::forward);
    }
    if (at_.edges.crossing_in[s] >= 0 &&
        at_.moved(ActionKind::receive_forward, s) <= action.index) {
      return at_.lacks(d, action, ActionKind::receive_forward, s);
    }
    for (int e = at_.edges.local_in[s]; e >= 0; e = at_.edges.next_in[e]) {
      if (at_.forwarded[at_.map.edge[e].from] <= action.index) {
        return at_.lacks(d, action, ActionKind::forward, at_.map.edge[e].from);
      }
    }
    ++at_.forwarded[s];
    return Step::done;
  }

  /// B, or I.
  constexpr Step backward(int d, Action const& action) {
    int const s = action.stage;
    if (at_.backed[s] != action.index) {
      return at_.not_its_turn(d, action, at_.backed[s], action.kind);
    }
    if (action.kind == ActionKind::backward && at_.retired[s] != action.index) {
      return at_.not_its_turn(d, action, at_.retired[s], ActionKind::weight_gradient);
    }
    if (int const last = last_of_microbatch(action.index); at_.forwarded[s] <= last) {
      return at_.lacks(d, action, ActionKind::forward, s, last);
    }
    if (at_.edges.crossing_out[s] >= 0 &&
        at_.moved(ActionKind::receive_backward, s) <= action.index) {
      return at_.lacks(d, action, ActionKind::receive_backward, s);
    }
    for (int e = at_.edges.local_out[s]; e >= 0; e = at_.edges.next_out[e]) {
      if (at_.backed[at_.map.edge[e].to] <= action.index) {
        return at_.lacks(d, action, ActionKind::backward, at_.map.edge[e].to);
      }
    }
    ++at_.backed[s];
    if (action.kind == ActionKind::backward) {
      ++at_.retired[s];
    }
    return Step::done;
  }

  constexpr Step weight_gradient(int d, Action const& action) {
    int const s = action.stage;
    if (at_.retired[s] != action.index) {
      return at_.not_its_turn(d, action, at_.retired[s], ActionKind::weight_gradient);
    }
    if (at_.backed[s] <= action.index) {
      return at_.lacks(d, action, ActionKind::input_gradient, s);
    }
    ++at_.retired[s];
    return Step::done;
  }

  /// All rows have ended: were all microbatches passed through all stages?
  constexpr Step finish() {
    for (int s = 0; s < at_.map.stages; ++s) {
      int const end = at_.first_microbatch(s) + at_.share;
      auto const stage = static_cast<std::int16_t>(s);
      int const d = at_.map.device[s];
      if (at_.forwarded[s] < end) {
        return at_.fail(Flaw::missing, d, {ActionKind::forward, 0, stage, at_.forwarded[s]});
      }
      if (at_.backed[s] < end) {
        return at_.fail(Flaw::missing, d, {ActionKind::backward, 0, stage, at_.backed[s]});
      }
      if (at_.retired[s] < end) {
        return at_.fail(Flaw::missing, d, {ActionKind::weight_gradient, 0, stage, at_.retired[s]});
      }
    }
    return Step::done;
  }

 private:
  // Backward begins with the chunk that forward ends with.
  constexpr int last_of_microbatch(int index) const {
    return at_.chunks == 1 ? index : (index / at_.chunks + 1) * at_.chunks - 1;
  }

  TableState<Table>& at_;
};

}  // namespace tandem::detail

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
