// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Channels: the messages in flight while a table is verified. A channel is a link in one
/// direction.

#include <algorithm>
#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem::detail {

/// A message is known by its edge: those of one edge are sent and taken in ascending order.
///
/// Of chunks of time, those of a whole microbatch may be in flight for each one that may without:
/// what is sent has a place for each chunk.
class Channels {
 public:
  /// @param chunks  of time, of a microbatch; @p microbatches counts them all
  constexpr Channels(StageMapView const& map, int microbatches, int depth, int chunks = 1)
      : capacity_{capacity(map, microbatches, depth * chunks)},
        memory_{std::int64_t{2} * map.links * (std::int64_t{capacity_} + 2) + 2 * map.edges},
        message_{memory_.data()},
        sent_{message_ + 2 * map.links * capacity_},
        gone_{sent_ + 2 * map.links},
        taken_{gone_ + 2 * map.links} {}

  constexpr bool empty(int channel) const { return sent_[channel] == gone_[channel]; }
  constexpr bool full(int channel) const { return sent_[channel] - gone_[channel] == capacity_; }

  /// The edge of the next message. @pre not empty
  constexpr int next(int channel) const {
    return message_[channel * capacity_ + gone_[channel] % capacity_];
  }
  constexpr void send(int channel, int edge) {
    message_[channel * capacity_ + sent_[channel]++ % capacity_] = edge;
  }
  constexpr void take(int channel) {
    ++taken_[2 * next(channel) + channel % 2];
    ++gone_[channel];
  }
  /// Messages of an edge that were taken.
  constexpr int taken(int edge, bool forward) const { return taken_[2 * edge + (forward ? 0 : 1)]; }

 private:
  // Places of a ring. A message of an edge goes out once for each microbatch of a copy; which link
  // has the most edges is counted only where rings would be large, as they are in no constant.
  static constexpr int capacity(StageMapView const& map, int microbatches, int depth) {
    std::int64_t most = std::int64_t{microbatches} * map.edges;
    if (std::min<std::int64_t>(depth, most) * map.links > 65'536) {
      Scratch<int> edges{map.links};
      int busiest = 0;
      for (int e = 0; e < map.edges; ++e) {
        busiest = map.crosses(e) ? std::max(busiest, ++edges[map.edge[e].link]) : busiest;
      }
      most = std::int64_t{microbatches / map.copies} * busiest;
    }
    return std::max(1, static_cast<int>(std::min<std::int64_t>(depth, most)));
  }

  int capacity_;  // messages in flight
  Scratch<int> memory_;
  int* message_;  // the edges of those in flight, a ring for each channel
  int* sent_;
  int* gone_;
  int* taken_;
};

}  // namespace tandem::detail
