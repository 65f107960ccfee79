// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MessageClocks: when each message of a simulated step is sent, arrives and is taken.

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_edges.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem::detail {

/// Where a device is: the next action of its row, and of a send or receive the next edge.
struct Cursor {
  int next = 0;
  int edge = -1;         // meant only where moving
  bool moving = false;   // some messages of the action are moved, or offered
  bool offered = false;  // at depth 0: sent, and not yet taken
  Ticks clock = 0;
};

/// Messages of one link and direction, in the order in which they are sent; they lie from `first`.
struct ClockedChannel {
  int first = 0;
  int all = 0;
  int sent = 0;
  int received = 0;
};

struct MessageTimes {
  Ticks arrival = 0;
  Ticks taken = 0;
};

constexpr Ticks later(Ticks a, Ticks b) { return a > b ? a : b; }

/// An action of stages that exist, and of a microbatch that may.
constexpr bool is_known(Action const& action, StageMapView const& map) {
  return action.stage >= 0 && action.stage < map.stages && action.index >= 0;
}

class MessageClocks {
 public:
  template <class Table>
  constexpr MessageClocks(Table const& table, StageMapView const& map, StageEdges const& edges,
                          Ticks transfer, int depth)
      : map_{map},
        edges_{edges},
        transfer_{transfer},
        depth_{depth},
        channel_{map.channels()},
        message_{count(table)} {}

  /// Whether there are any messages: else passes wait for passes.
  [[nodiscard]] constexpr bool any() const { return any_; }

  /// Moves the messages of a send or receive as far as that is possible, and the clock to when the
  /// last one is moved. @returns whether all are; sets @p progress if one was moved or offered
  constexpr bool move(Action const& action, Cursor& cursor, bool& progress) {
    if (!cursor.moving) {
      cursor.edge = edges_.first(action);
      cursor.moving = true;
    }
    for (; cursor.edge >= 0; cursor.edge = edges_.next(action.kind, cursor.edge)) {
      ClockedChannel& channel = channel_of(action, cursor.edge);
      if (is_send(action.kind) ? !send(channel, cursor, progress) : !receive(channel, cursor)) {
        return false;
      }
      progress = true;
    }
    cursor.moving = false;
    return true;
  }

 private:
  template <class Table>
  constexpr int count(Table const& table) {
    for (int d = 0; d < devices_of(table); ++d) {
      for (Action const& action : row_of(table, d)) {
        any_ = any_ || is_message(action.kind);
        bool const sends = is_send(action.kind) && is_known(action, map_);
        for (int e = sends ? edges_.first(action) : -1; e >= 0; e = edges_.next(action.kind, e)) {
          ++channel_of(action, e).all;
        }
      }
    }
    int all = 0;
    for (int c = 0; c < map_.channels(); ++c) {
      channel_[c].first = all;
      all += channel_[c].all;
    }
    return all;
  }

  constexpr ClockedChannel& channel_of(Action const& action, int edge) {
    return channel_[map_.channel(edge, goes_forward(action.kind))];
  }

  constexpr bool send(ClockedChannel& channel, Cursor& cursor, bool& progress) {
    if (!cursor.offered) {
      int const before = channel.sent - depth_;  // what must be taken to make a place
      if (depth_ > 0 && before >= 0) {
        if (channel.received <= before) {
          return false;
        }
        cursor.clock = later(cursor.clock, message_[channel.first + before].taken);
      }
      message_[channel.first + channel.sent++].arrival = cursor.clock + transfer_;
      cursor.offered = depth_ <= 0;
      progress = true;
    }
    if (cursor.offered && channel.received == channel.sent) {
      cursor.clock = later(cursor.clock, message_[channel.first + channel.sent - 1].taken);
      cursor.offered = false;
    }
    return !cursor.offered;
  }

  constexpr bool receive(ClockedChannel& channel, Cursor& cursor) {
    if (channel.received == channel.sent) {
      return false;
    }
    MessageTimes& message = message_[channel.first + channel.received++];
    cursor.clock = later(cursor.clock, message.arrival);
    message.taken = cursor.clock;
    return true;
  }

  StageMapView map_;
  StageEdges const& edges_;
  Ticks transfer_;
  int depth_;
  bool any_ = false;
  Scratch<ClockedChannel> channel_;  // (link, direction)
  Scratch<MessageTimes> message_;
};

}  // namespace tandem::detail
