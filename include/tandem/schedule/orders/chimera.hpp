// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Chimera: two pipelines in opposite directions on the same devices.

#include <algorithm>
#include <limits>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

namespace detail {

/// `each` microbatches down and as many up, both in the order of 1F1B, merged in steps of one pass.
/// Where both directions could go on, a backward goes before a forward, and of two alike that of
/// the later stage. (Without the first rule, two devices may block each other's sends.) The middle
/// one of an odd number of devices has the same stage of both: of two alike it takes the one that
/// came first, and that of the first copy where both came together.
template <class Sink>
class ChimeraMerge {
 public:
  constexpr ChimeraMerge(int devices, int each, Sink& sink)
      : devices_{devices},
        each_{each},
        sink_{sink},
        forwards_{2 * devices},
        backwards_{2 * devices},
        chosen_{devices} {}

  constexpr void run() {
    int left = 4 * each_ * devices_;
    for (int time = 0; left > 0; ++time) {
      for (int r = 0; r < devices_; ++r) {  // all choose before any goes on
        int const down = r;
        int const up = 2 * devices_ - 1 - r;
        bool const alike = forward_next(down) == forward_next(up);
        bool const middle = up - devices_ == r;
        if (middle) {
          note_arrivals(time);
        }
        bool const down_first = !alike   ? forward_next(up)
                                : middle ? came_[0] <= came_[1]
                                         : r >= devices_ / 2;
        int const first = down_first ? down : up;
        int const second = down_first ? up : down;
        chosen_[r] = ready(first) ? first : ready(second) ? second : -1;
      }
      for (int r = 0; r < devices_; ++r) {
        if (chosen_[r] >= 0) {
          emit(r, chosen_[r]);
          --left;
        }
      }
    }
  }

 private:
  // Whether 1F1B has a forward next on this stage.
  constexpr bool forward_next(int stage) const {
    int const warm_up = std::min(devices_ - 1 - stage % devices_, each_);
    return forwards_[stage] < each_ && forwards_[stage] - backwards_[stage] <= warm_up;
  }

  constexpr bool ready(int stage) const {
    int const part = stage % devices_;
    if (forward_next(stage)) {
      return part == 0 || forwards_[stage - 1] > forwards_[stage];
    }
    return backwards_[stage] < forwards_[stage] &&
           (part == devices_ - 1 || backwards_[stage + 1] > backwards_[stage]);
  }

  // Since when the next pass of either copy could begin on the middle device.
  constexpr void note_arrivals(int time) {
    for (int copy = 0; copy < 2; ++copy) {
      if (came_[copy] == never && ready(copy * devices_ + devices_ / 2)) {
        came_[copy] = time;
      }
    }
  }

  constexpr void emit(int device, int stage) {
    if (devices_ - 1 - device == device) {
      came_[stage / devices_] = never;
    }
    int const first = stage / devices_ * each_;
    if (forward_next(stage)) {
      sink_(device, pass(ActionKind::forward, stage, first + forwards_[stage]++));
    } else {
      sink_(device, pass(ActionKind::backward, stage, first + backwards_[stage]++));
    }
  }

  static constexpr int never = std::numeric_limits<int>::max();

  int devices_;
  int each_;
  Sink& sink_;
  Scratch<int> forwards_;  // done so far, of each stage
  Scratch<int> backwards_;
  Scratch<int> chosen_;           // stage that goes on, of each device
  int came_[2] = {never, never};  // to the middle device, of each copy
};

}  // namespace detail

/// Stage k of the first copy is on device k, of the second on device p - 1 - k; each copy takes
/// half of the microbatches.
///
/// Idle for p - 2 passes where 1F1B is for 2 (p - 1), if F = B and m >= p: the next microbatches of
/// one direction fill the gaps of the other. Each device has two stages' parameters; p / 2 + 1 to p
/// microbatches are live on it if m = p, and p + 1 at most if there are more.
/// @pre    devices and microbatches are even
/// Source: Li and Hoefler, arXiv:2107.06925
struct Chimera {
  static constexpr char const* name = "chimera";
  static constexpr ScheduleWords words{.type = "Pipeline<Chimera, {count}, ",
                                       .devices = "an even number",
                                       .microbatches = "an even number of microbatches, 2 or more",
                                       .least_devices = 2,
                                       .multiple_of_devices = 2};
  static constexpr int chunks = 1;
  static constexpr int copies = 2;
  static constexpr bool splits_backward = false;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 2 && devices % 2 == 0 && microbatches >= 2 && microbatches % 2 == 0;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    detail::ChimeraMerge<Sink>{devices, microbatches / 2, sink}.run();
  }

  template <int Parts, int Count, bool Fits>
  struct Takes {
    static constexpr bool value = true;
    static_assert(
        Fits,
        "Pipeline<Chimera, Count, ...>: the parts of the model and Count must be even, 2 or more");
  };
};

}  // namespace tandem
