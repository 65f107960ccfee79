// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Interleaved: 1F1B on several stages a device, which shortens the idle time.

#include <algorithm>

#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

namespace detail {

template <int Chunks>
struct ChunksIsSound {
  static constexpr bool value = true;
  static_assert(Chunks >= 1, "Interleaved<Chunks>: give a positive number of stages a device");
};

/// Rounds of p microbatches, or of more where the microbatches are no multiple of p.
constexpr int interleaved_rounds(int devices, int microbatches) {
  return std::max(1, microbatches / devices);
}

/// A device's k-th forward in the order in which each round goes through all chunks; the k-th
/// backward goes through them from the last to the first.
/// @param round  microbatches of each
constexpr Action interleaved_pass(ActionKind kind, int devices, int round, int chunks, int device,
                                  int k) {
  int const group = round * chunks;
  int const forward_chunk = k % group / round;
  int const chunk = kind == ActionKind::forward ? forward_chunk : chunks - 1 - forward_chunk;
  return pass(kind, chunk * devices + device, k / group * round + k % round);
}

template <class Sink>
constexpr void generate_interleaved(int devices, int microbatches, int chunks, Sink& sink) {
  int const passes = microbatches * chunks;
  int const round = microbatches / interleaved_rounds(devices, microbatches);
  for (int r = 0; r < devices; ++r) {
    int const warm_up = std::min(2 * (devices - r - 1) + (chunks - 1) * round, passes);
    for (int k = 0; k < warm_up; ++k) {
      sink(r, interleaved_pass(ActionKind::forward, devices, round, chunks, r, k));
    }
    for (int k = 0; k < passes; ++k) {
      if (warm_up + k < passes) {
        sink(r, interleaved_pass(ActionKind::forward, devices, round, chunks, r, warm_up + k));
      }
      sink(r, interleaved_pass(ActionKind::backward, devices, round, chunks, r, k));
    }
  }
}

}  // namespace detail

/// Device r has the stages r, p + r, … of p * Chunks, each a Chunks-th of a 1F1B stage.
///
/// Idle for (p - 1)(F + B) / Chunks where the microbatches are a multiple of the devices; sends
/// Chunks times as much as 1F1B. With v = Chunks and g microbatches a round, a device has at most
/// min(2 (p - 1 - r) + (v - 1) g + 1, m v) microbatches live, summed over its stages.
/// @pre    the microbatches are a multiple of the rounds, max(1, m / p) rounded down
/// Source: Narayanan et al., arXiv:2104.04473; the rounds are of PyTorch's ScheduleInterleaved1F1B
template <int Chunks>
struct Interleaved {
  static constexpr char const* name = "interleaved";
  static constexpr ScheduleWords words{.type = "Pipeline<Interleaved<{chunks}>, {count}, ",
                                       .microbatches =
                                           "a multiple of the devices, fewer than "
                                           "twice as many, or rounds of one size",
                                       .tried_chunks = 2};
  static constexpr int chunks = Chunks >= 1 ? Chunks : 1;
  static constexpr int copies = 1;
  static constexpr bool splits_backward = false;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches >= 1 &&
           microbatches % detail::interleaved_rounds(devices, microbatches) == 0;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    generate(devices, microbatches, chunks, sink);
  }
  /// Of any number of chunks.
  template <class Sink>
  static constexpr void generate(int devices, int microbatches, int any, Sink& sink) {
    detail::generate_interleaved(devices, microbatches, any, sink);
  }

  static_assert(detail::ChunksIsSound<Chunks>::value);

  template <int Parts, int Count, bool Fits>
  struct Takes {
    static constexpr bool value = true;
    static_assert(Fits,
                  "Pipeline<Interleaved<v>, Count, ...>: Count must be a multiple of the devices, "
                  "which are the parts of the model / v, or fewer than twice as many");
  };
};

}  // namespace tandem
