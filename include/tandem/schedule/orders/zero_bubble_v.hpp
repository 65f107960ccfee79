// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ZeroBubbleV: two stages a device, down the devices and back up, with weight gradients apart.

#include <algorithm>

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

namespace detail {

/// One device's row: passes of its two stages, each kind in ascending order of microbatches. The
/// order is that of 2 p - 1 microbatches or more, of which those that there are not are left out.
template <class Sink>
class ZeroBubbleVRow {
 public:
  constexpr ZeroBubbleVRow(int devices, int microbatches, int device, Sink& sink)
      : devices_{devices}, microbatches_{microbatches}, device_{device}, sink_{sink} {}

  constexpr void write() {
    int const all = std::max(2 * devices_ - 1, microbatches_);
    for (int i = 0; i < 2 * (devices_ - device_) - 1; ++i) {
      forward(down);
    }
    for (int i = 0; i < device_; ++i) {
      forward(up);
      forward(down);
    }
    for (int i = 0; i < devices_ - device_; ++i) {
      forward(up);
      backward(up);
    }
    while (next_[up].forward < next_[down].forward || next_[down].forward < all) {
      if (next_[down].forward < all) {
        forward(down);
      }
      backward(down);
      forward(up);
      backward(up);
    }
    for (int i = 0; i < device_; ++i) {
      input_gradient(down);
      input_gradient(up);
    }
    for (int i = 0; i < devices_ - device_; ++i) {
      input_gradient(down);
      weight_gradient(down);
    }
    for (int const chunk : {up, down}) {
      while (next_[chunk].weight < next_[chunk].input) {
        weight_gradient(chunk);
      }
    }
  }

 private:
  static constexpr int down = 0;
  static constexpr int up = 1;

  // Of a stage: the next microbatch of each kind of pass.
  struct Next {
    int forward = 0;
    int input = 0;
    int weight = 0;
  };

  constexpr void add(ActionKind kind, int chunk, int microbatch) {
    if (microbatch < microbatches_) {
      sink_(device_, pass(kind, chunk == down ? device_ : 2 * devices_ - 1 - device_, microbatch));
    }
  }
  constexpr void forward(int chunk) { add(ActionKind::forward, chunk, next_[chunk].forward++); }
  constexpr void input_gradient(int chunk) {
    add(ActionKind::input_gradient, chunk, next_[chunk].input++);
  }
  constexpr void weight_gradient(int chunk) {
    add(ActionKind::weight_gradient, chunk, next_[chunk].weight++);
  }
  constexpr void backward(int chunk) {
    input_gradient(chunk);
    weight_gradient(chunk);
  }

  int devices_;
  int microbatches_;
  int device_;
  Sink& sink_;
  Next next_[2];
};

}  // namespace detail

/// Device r has the stages r and 2 p - 1 - r, each half of a 1F1B stage: the model goes down the
/// devices and back up, so that the first device computes the loss.
///
/// If F = I = W and m >= 2 p - 1, a device is idle before its first pass and behind its last one
/// only, for p - 1 passes of half a stage in all; 1F1B is for 6 (p - 1). At most 2 p microbatches
/// of half a stage are live on a device, as much as on the first one of 1F1B.
/// Source: Qi et al., arXiv:2401.10241, section 6; the order of ScheduleZBVZeroBubble of PyTorch
struct ZeroBubbleV : detail::TurningOrder {
  static constexpr char const* name = "zero_bubble_v";
  static constexpr ScheduleWords words{.type = "Pipeline<ZeroBubbleV, {count}, ",
                                       .tried_chunks = 2};

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      detail::ZeroBubbleVRow<Sink>{devices, microbatches, r, sink}.write();
    }
  }
};

}  // namespace tandem
