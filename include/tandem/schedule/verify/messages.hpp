// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Messages: the rules of verify() for messages, which a device may have to wait for, and the queue
/// of the devices that can go on.

#include <tandem/core/scratch.hpp>
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
      int const channel = channels_.of(part, forward);
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
      int const channel = channels_.of(part, forward);
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
      return next_message(channels_.of(part_[d], forward), false);
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

}  // namespace tandem::detail
