// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MessageVerification: the rules of verify() for messages, which a device may have to wait for.

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/verify/channels.hpp>
#include <tandem/schedule/verify/passes.hpp>
#include <tandem/schedule/verify/verdict.hpp>

namespace tandem::detail {

template <class Table>
class MessageVerification : protected PassVerification<Table> {
 protected:
  using Base = PassVerification<Table>;
  using Base::backed_;
  using Base::depth_;
  using Base::edges_;
  using Base::fail;
  using Base::forwarded_;
  using Base::map_;
  using Base::position_;
  using Base::table_;
  using typename Base::Step;

  static constexpr bool has_updates = false;

  constexpr MessageVerification(Table const& table, StageMapView const& map, int microbatches,
                                int depth)
      : Base{table, map, microbatches, depth},
        channels_{map, microbatches, depth},
        waits_{4 * map.devices, -1},
        part_{waits_.data()},
        waits_for_{part_ + map.devices},
        offered_{waits_for_ + map.devices},
        queue_{offered_ + map.devices} {}

  constexpr int first_out(int stage, bool forward) const {
    return forward ? edges_.crossing_out[stage] : edges_.crossing_in[stage];
  }
  constexpr int next_out(int edge, bool forward) const {
    return forward ? edges_.next_out[edge] : edges_.next_in[edge];
  }

  // The device at the other end of an edge, seen from its lower stage or from its higher one.
  constexpr int far_end(int edge, bool from_lower) const {
    return map_.device[from_lower ? map_.edge[edge].to : map_.edge[edge].from];
  }

  constexpr Step wait(int d, int channel) {
    waits_for_[d] = channel;
    return Step::waiting;
  }
  constexpr void wake(int d, int channel) {
    if (waits_for_[d] == channel) {
      waits_for_[d] = -1;
      queue_[queued_++ % map_.devices] = d;
    }
  }

  constexpr Step send(int d, Action const& action, bool forward) {
    int const s = action.stage;
    int& moved = this->moved(action.kind, s);
    if (part_[d] < 0) {
      if (moved != action.index) {
        return this->not_its_turn(d, action, moved, action.kind);
      }
      if (first_out(s, forward) < 0) {
        return fail(Flaw::nothing_to_send, d, action);
      }
      if ((forward ? forwarded_ : backed_)[s] <= action.index) {
        return this->lacks(d, action, forward ? ActionKind::forward : ActionKind::backward, s);
      }
      part_[d] = first_out(s, forward);
    }
    for (; part_[d] >= 0; part_[d] = next_out(part_[d], forward)) {
      int const channel = channels_.of(part_[d], forward);
      if (offered_[d] < 0) {
        if (channels_.full(channel)) {
          return wait(d, channel);
        }
        channels_.send(channel, part_[d]);
        wake(far_end(part_[d], forward), channel);
        offered_[d] = depth_ == 0 ? part_[d] : -1;
      }
      if (offered_[d] >= 0 && !channels_.empty(channel)) {
        return wait(d, channel);
      }
      offered_[d] = -1;
    }
    moved = action.index + 1;
    return Step::done;
  }

  constexpr Step receive(int d, Action const& action, bool forward) {
    int& moved = this->moved(action.kind, action.stage);
    if (part_[d] < 0) {
      if (moved != action.index) {
        return this->not_its_turn(d, action, moved, action.kind);
      }
      part_[d] = first_out(action.stage, !forward);
      if (part_[d] < 0) {
        return fail(Flaw::nothing_to_receive, d, action);
      }
    }
    for (; part_[d] >= 0; part_[d] = next_out(part_[d], !forward)) {
      int const channel = channels_.of(part_[d], forward);
      if (channels_.empty(channel)) {
        return wait(d, channel);
      }
      if (channels_.next(channel) != part_[d]) {
        return fail(Flaw::out_of_fifo_order, d, action, next_message(channel, true));
      }
      channels_.take(channel);
      wake(far_end(part_[d], !forward), channel);
    }
    moved = action.index + 1;
    return Step::done;
  }

  // The action that sent, or that will receive, the next message in flight.
  constexpr Action next_message(int channel, bool sender) const {
    int const e = channels_.next(channel);
    bool const forward = channel % 2 == 0;
    StageEdge const edge = map_.edge[e];
    return {.kind = forward ? (sender ? ActionKind::send_forward : ActionKind::receive_forward)
                            : (sender ? ActionKind::send_backward : ActionKind::receive_backward),
            .stage = forward == sender ? edge.from : edge.to,
            .index = this->first_microbatch(edge.from) + channels_.taken(e, forward)};
  }

  // What the action of a device that waits is waiting for.
  constexpr Action awaited(int d) const {
    Action const action = row_of(table_, d)[position_[d]];
    bool const forward =
        action.kind == ActionKind::send_forward || action.kind == ActionKind::receive_forward;
    if (sends(action)) {
      return next_message(channels_.of(part_[d], forward), false);
    }
    StageEdge const edge = map_.edge[part_[d]];
    return {.kind = forward ? ActionKind::send_forward : ActionKind::send_backward,
            .stage = forward ? edge.from : edge.to,
            .index = action.index};
  }

  static constexpr bool sends(Action const& action) {
    return action.kind == ActionKind::send_forward || action.kind == ActionKind::send_backward;
  }

  Channels channels_;
  Scratch<int> waits_;
  int* part_;       // of each device, the edge that its message waits at, or -1
  int* waits_for_;  // … the channel that it waits for, or -1
  int* offered_;    // at depth 0: the edge whose message lies there to be taken, or -1
  int* queue_;      // a ring of the devices that can go on, each at most once
  int queued_ = 0;  // all that ever were
};

}  // namespace tandem::detail
