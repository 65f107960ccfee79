// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DualPipeRow: what a device does in DualPipe and in DualPipeV.

#include <cstdint>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>

namespace tandem::detail {

/// One device's row, in the eight steps of the source, of its two stages: the one that microbatches
/// reach first, and the one that they reach last. Weight gradients that wait stand in one queue.
template <class Sink>
class DualPipeRow {
 public:
  /// A stage, and the microbatches that pass it.
  struct Direction {
    int stage = 0;
    int first = 0;
    int microbatches = 0;
  };

  constexpr DualPipeRow(int device, Direction first, Direction second, Sink& sink)
      : device_{device},
        sink_{sink},
        own_{{first}, {second}},
        waiting_{std::int64_t{first.microbatches} + second.microbatches} {}

  /// @param left    devices between it and where the two directions meet
  /// @param before  devices between it and where its first direction begins
  constexpr void write(int left, int before) {
    repeat(2 * left, [this] { forward(0); });
    repeat(before + 1, [this] {
      forward(0);
      forward(1);
    });
    repeat(left, [this] {
      input_gradient(1);
      weight_gradient();
      forward(1);
    });
    int const all = 2 * (left + before + 1);  // stages of one direction
    repeat(own_[0].of.microbatches - all + before + 1, [this] {
      forward(0);
      backward(1);
      forward(1);
      backward(0);
    });
    repeat(left, [this] {
      backward(1);
      forward(1);
      backward(0);
    });
    for (int i = 0; i < 2 * (before + 1); ++i) {
      int const direction = i % 2 == 0 ? 1 : 0;
      if (i <= before) {  // the others defer their weight gradients
        backward(direction);
      } else {
        input_gradient(direction);
      }
    }
    repeat(left, [this] {
      weight_gradient();
      input_gradient(0);
    });
    repeat(before + 1, [this] { weight_gradient(); });
  }

 private:
  struct Own {
    Direction of{};
    int forwards = 0;
    int backwards = 0;
  };

  template <class F>
  static constexpr void repeat(int times, F const& f) {
    for (int i = 0; i < times; ++i) {
      f();
    }
  }

  constexpr void forward(int direction) {
    Own& own = own_[direction];
    sink_(device_, pass(ActionKind::forward, own.of.stage, own.of.first + own.forwards++));
  }
  constexpr void backward(int direction) {
    Own& own = own_[direction];
    sink_(device_, pass(ActionKind::backward, own.of.stage, own.of.first + own.backwards++));
  }
  constexpr void input_gradient(int direction) {
    Own& own = own_[direction];
    int const microbatch = own.of.first + own.backwards++;
    sink_(device_, pass(ActionKind::input_gradient, own.of.stage, microbatch));
    waiting_[last_++] = pass(ActionKind::weight_gradient, own.of.stage, microbatch);
  }
  constexpr void weight_gradient() {
    if (next_ < last_) {
      sink_(device_, waiting_[next_++]);
    }
  }

  int device_;
  Sink& sink_;
  Own own_[2];
  Scratch<Action> waiting_;
  int next_ = 0;
  int last_ = 0;
};

}  // namespace tandem::detail
