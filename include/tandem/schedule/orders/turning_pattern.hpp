// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TurningPattern: one microbatch's passes on each device, repeated every six passes: the building
/// block of VMin, VHalf, and ZeroBubbleV of few microbatches; SqueezedPattern lays out its table.

#include <algorithm>
#include <cstdint>
#include <limits>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>

namespace tandem::detail {

inline constexpr ActionKind split_passes[] = {ActionKind::forward, ActionKind::input_gradient,
                                              ActionKind::weight_gradient};

/// When devices do the first microbatch's passes, in passes of one stage.
struct TurningPattern {
  /// On the first device: F of the stage that goes down, F of the one that comes back up, then
  /// their I. No two are alike modulo 6.
  int first[4];
  int down;  ///< by which F and I that go away from the first device are later on each next one
  int up;    ///< by which those that come back to it are earlier
  int live;  ///< most microbatches of a stage that may be live on a device
};

/// A table that takes no longer than its pattern, if all passes take equally long. In each unit of
/// time a device does the next pass of the pattern if that can begin, else a weight gradient if one
/// waits, else, before its first I and behind its last F that goes down, any pass that can begin.
///
/// A forward that goes ahead leaves memory for those before it. So, of all passes that are left,
/// the one that stands first in the pattern can begin, once weight gradients that wait are done.
/// Cost:   a few dozen operations a device and unit of time.
/// Source: Qi et al., arXiv:2405.15362, whose program moves one pass ahead after the other
template <class Sink>
class SqueezedPattern {
 public:
  constexpr SqueezedPattern(TurningPattern const& pattern, int devices, int microbatches,
                            Sink& sink)
      : devices_{devices},
        microbatches_{microbatches},
        most_{pattern.live},
        sink_{sink},
        rows_{2 * std::int64_t{devices}},
        row_{rows_.data()},
        done_{row_ + devices} {
    for (int d = 0; d < devices; ++d) {
      for (int kind = 0; kind < 4; ++kind) {
        row_[d].time[kind] = pattern.first[kind] + d * (kind % 2 == 0 ? pattern.down : -pattern.up);
      }
      for (int kind = 0; kind < 2 && 2 * microbatches > most_; ++kind) {
        auto const all = static_cast<int>(row_[d].time[3 - kind] - row_[d].time[kind] + 3) / 6 + 1;
        row_[d].most[kind] = std::min(all, most_ - 1);
      }
    }
  }

  constexpr void write() {
    for (std::int64_t left = std::int64_t{6} * devices_ * microbatches_; left > 0;) {
      for (int d = 0; d < devices_; ++d) {
        done_[d] = row_[d];
      }
      for (int d = 0; d < devices_; ++d) {
        if (int const kind = choice(d); kind != none) {
          take(d, kind);
          --left;
        }
      }
    }
  }

 private:
  // Kinds of passes are numbered as in TurningPattern; 4 and 5 are W behind the I of 2 and 3.
  static constexpr int none = 6;

  struct Row {
    int next[none] = {};        // microbatch of each kind
    std::int64_t time[4] = {};  // where the next F and I stand in the pattern
    int most[2] = {std::numeric_limits<int>::max(), std::numeric_limits<int>::max()};  // live
  };

  // Microbatches of one of a device's stages, by its F, that are live.
  [[nodiscard]] static constexpr int live(Row const& row, int forward) {
    return row.next[forward] - row.next[5 - forward];
  }

  // Whether F or I can begin: it follows that of the device next to it, or its own kind before.
  [[nodiscard]] constexpr bool can(int device, int kind) const {
    Row const& own = row_[device];
    int const i = own.next[kind];
    if (i == microbatches_ ||
        (kind < 2 && (live(own, kind) == own.most[kind] || live(own, 0) + live(own, 1) == most_))) {
      return false;
    }
    int const from = kind % 2 == 0 ? device - 1 : device + 1;
    return from >= 0 && from < devices_ ? done_[from].next[kind] > i
                                        : kind == 0 || done_[device].next[kind - 1] > i;
  }

  [[nodiscard]] constexpr int choice(int device) const {
    Row const& own = row_[device];
    auto const head = static_cast<int>(std::min_element(own.time, own.time + 4) - own.time);
    if (can(device, head)) {
      return head;
    }
    for (int const kind : {4, 5}) {
      if (own.next[kind] < done_[device].next[kind - 2]) {
        return kind;
      }
    }
    bool const at_ends = own.next[2] == 0 || own.next[0] == microbatches_;
    for (int kind = 0; at_ends && kind < 4; ++kind) {
      std::int64_t const ahead = kind < 2 ? own.time[kind] - own.time[1 - kind] : 0;
      std::int64_t const before = ahead > 0 ? ahead / 6 + 1 : 0;  // forwards of the other stage
      if (can(device, kind) && (kind >= 2 || live(own, 0) + live(own, 1) + before < most_)) {
        return kind;
      }
    }
    return none;
  }

  constexpr void take(int device, int kind) {
    Row& own = row_[device];
    bool const second = kind == 1 || kind == 2 || kind == 4;
    sink_(device, pass(split_passes[kind / 2], second ? 2 * devices_ - 1 - device : device,
                       own.next[kind]++));
    if (kind < 4) {
      bool const ends = own.next[kind] == microbatches_;
      own.time[kind] = ends ? std::numeric_limits<std::int64_t>::max() : own.time[kind] + 6;
    }
  }

  int devices_;
  int microbatches_;
  int most_;
  Sink& sink_;
  Scratch<Row> rows_;  // now, and when the unit of time began
  Row* row_;
  Row* done_;
};

}  // namespace tandem::detail
