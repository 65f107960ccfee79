// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MessageClocks, CollectiveClocks: when the messages of a simulated step are sent, arrive and are
/// taken, and when its collectives begin and end.

#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/effects.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem::detail {

/// Where a device is.
struct Cursor {
  int next = 0;          // action of its row
  int effect = 0;        // the next
  bool offered = false;  // at depth 0: sent, and not yet taken
  Ticks clock = 0;
};

constexpr Ticks later(Ticks a, Ticks b) { return a > b ? a : b; }

class MessageClocks {
 public:
  constexpr MessageClocks(StepEffects const& effects, StageMapView const& map, Ticks transfer,
                          int depth)
      : transfer_{transfer},
        depth_{depth},
        channel_{map.channels()},
        message_{count(effects, map)} {}

  /// Sends a message, or takes it, and moves the clock to when that is done. @returns whether it
  /// is; sets @p progress if the message was offered
  constexpr bool move(Effect const& effect, Cursor& cursor, bool& progress) {
    Channel& channel = channel_[effect.meets];
    return effect.kind == EffectKind::send ? send(channel, cursor, progress)
                                           : receive(channel, cursor);
  }

 private:
  /// Messages in the order in which they are sent; they lie from `first`.
  struct Channel {
    std::int64_t first = 0;
    int sent = 0;
    int received = 0;
  };
  struct Times {
    Ticks arrival = 0;
    Ticks taken = 0;
  };

  constexpr std::int64_t count(StepEffects const& effects, StageMapView const& map) {
    std::int64_t all = 0;
    for (int c = 0; c < map.channels(); ++c) {
      channel_[c].first = all;
      all += effects.sends(c);
    }
    return all;
  }

  constexpr bool send(Channel& channel, Cursor& cursor, bool& progress) {
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

  constexpr bool receive(Channel& channel, Cursor& cursor) {
    if (channel.received == channel.sent) {
      return false;
    }
    Times& message = message_[channel.first + channel.received++];
    cursor.clock = later(cursor.clock, message.arrival);
    message.taken = cursor.clock;
    return true;
  }

  Ticks transfer_;
  int depth_;
  Scratch<Channel> channel_;
  Scratch<Times> message_;
};

/// What sums of gradients and averages take beside the rows.
struct CollectiveCosts {
  Ticks among = 0;  ///< several devices
  Ticks alone = 0;  ///< of one device, with its replicas
  Ticks lead = 0;   ///< so long before a pass ends the sums that it begins do
};

/// A collective begins when the last of its devices has come to it; sums of gradients and averages
/// also when each of these has ended the one before, since a device does one at a time.
class CollectiveClocks {
 public:
  constexpr CollectiveClocks(StepEffects const& effects, int devices, CollectiveCosts const& costs)
      : effects_{effects},
        devices_{devices},
        costs_{costs},
        meeting_{effects.collectives()},
        came_{effects.collectives() * devices},
        link_{devices} {}

  constexpr void come(int device, Effect const& effect, Ticks clock) {
    int const c = effect.meets;
    Meeting& meeting = meeting_[c];
    meeting.time.begin = later(meeting.time.begin, clock);
    came_[std::int64_t{c} * devices_ + device] = true;
    if (++meeting.came == effects_.members(c)) {
      run(c, meeting);
    }
  }

  /// Moves the clock to when it has ended. @returns whether that is known
  constexpr bool wait(Effect const& effect, Ticks& clock) const {
    Meeting const& meeting = meeting_[effect.meets];
    bool const known = meeting.came == effects_.members(effect.meets);
    clock = known ? later(clock, meeting.time.end) : clock;
    return known;
  }

  [[nodiscard]] constexpr Interval time(int collective) const { return meeting_[collective].time; }

 private:
  struct Meeting {
    int came = 0;
    Interval time{};
  };

  constexpr void run(int c, Meeting& meeting) {
    if (StepEffects::is_of_all(c)) {
      meeting.time.end = meeting.time.begin;
      return;
    }
    bool const* const came = came_.data() + std::int64_t{c} * devices_;
    for (int d = 0; d < devices_; ++d) {
      meeting.time.begin = came[d] ? later(meeting.time.begin, link_[d]) : meeting.time.begin;
    }
    meeting.time.end = meeting.time.begin + (effects_.members(c) > 1 ? costs_.among : costs_.alone);
    for (int d = 0; d < devices_; ++d) {
      link_[d] = came[d] ? meeting.time.end : link_[d];
    }
  }

  StepEffects const& effects_;
  int devices_;
  CollectiveCosts costs_;
  Scratch<Meeting> meeting_;
  Scratch<bool> came_;   // (collective, device)
  Scratch<Ticks> link_;  // when a device's last collective ends
};

}  // namespace tandem::detail
