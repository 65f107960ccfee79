// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TurningPattern: one microbatch's passes on each device, repeated every six passes: the building
/// block of V-Min and V-Half, whose length says how much memory they take.

#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>

namespace tandem::detail {

/// When a device does the first microbatch's passes, in passes of one stage: F of the stage that
/// goes down, F of the one that comes back up, then their I. No two are alike modulo 6.
struct TurningPattern {
  int forward_down;
  int forward_up;
  int input_up;
  int input_down;
};

/// One device's row: microbatch i's passes stand 6 i later than the first one's, and a weight
/// gradient, those that wait for the longest first, wherever the pattern has none of them.
template <class Sink>
class TurningRow {
 public:
  constexpr TurningRow(int devices, int microbatches, int device, Sink& sink)
      : microbatches_{microbatches},
        device_{device},
        down_{device},
        up_{2 * devices - 1 - device},
        sink_{sink},
        waiting_{2 * std::int64_t{microbatches}} {}

  constexpr void write(TurningPattern const& pattern) {
    int const end = pattern.input_down + 6 * (microbatches_ - 1);
    for (int time = 0; time <= end; ++time) {
      bool const passes = forward(time - pattern.forward_down, down_) ||
                          forward(time - pattern.forward_up, up_) ||
                          input_gradient(time - pattern.input_up, up_) ||
                          input_gradient(time - pattern.input_down, down_);
      if (!passes && first_ < last_) {
        sink_(device_, waiting_[first_++]);
      }
    }
    while (first_ < last_) {
      sink_(device_, waiting_[first_++]);
    }
  }

 private:
  // Whether a pass stands so long behind the first of its kind.
  [[nodiscard]] constexpr bool stands(int behind) const {
    return behind >= 0 && behind % 6 == 0 && behind / 6 < microbatches_;
  }
  constexpr bool forward(int behind, int stage) {
    if (!stands(behind)) {
      return false;
    }
    sink_(device_, pass(ActionKind::forward, stage, behind / 6));
    return true;
  }
  constexpr bool input_gradient(int behind, int stage) {
    if (!stands(behind)) {
      return false;
    }
    sink_(device_, pass(ActionKind::input_gradient, stage, behind / 6));
    waiting_[last_++] = pass(ActionKind::weight_gradient, stage, behind / 6);
    return true;
  }

  int microbatches_;
  int device_;
  int down_;  // the device's stages
  int up_;
  Sink& sink_;
  Scratch<Action> waiting_;  // weight gradients
  int first_ = 0;
  int last_ = 0;
};

}  // namespace tandem::detail
