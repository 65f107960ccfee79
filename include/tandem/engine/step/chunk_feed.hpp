// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ChunkFeed: a rank's indices, targets and lengths in the order of its chunks of time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/engine/step/microbatches.hpp>

namespace tandem {

/// Rows of (samples, time) indices, chunk by chunk of each microbatch: (chunk, sample, row). Where
/// chunks have more rows than there are, the last ones count for nothing. In the host's memory.
template <class Target>
class ChunkFeed {
 public:
  /// @param samples  of the rank, at most
  /// @param rows     of each, at most
  /// @param chunks   of each microbatch
  ChunkFeed(std::int64_t samples, std::int64_t rows, int chunks)
      : index_(static_cast<std::size_t>(samples * rows)),
        target_(static_cast<std::size_t>(samples * rows)),
        length_(static_cast<std::size_t>(samples * chunks)),
        chunks_{chunks} {}

  /// @param x        of the rank's first sample, then of the others; likewise the next two
  /// @param targets  may be null
  /// @param lengths  may be null
  void load(RankMicrobatches const& own, std::int32_t const* x, Target const* targets,
            std::int32_t const* lengths) {
    first_ = own.begin();
    int const time = own.time().of[0];
    int const each = own[0].time.of[0];  // of a chunk
    time_ = std::int64_t{each} * chunks_;
    has_lengths_ = lengths != nullptr || time < time_;
    for (int m = 0; m < own.passes(); ++m) {
      Microbatch const& part = own[m];
      int const rows = std::clamp(time - part.position, 0, each);
      for (int b = 0; b < part.size; ++b) {
        std::int64_t const sample = part.first - first_ + b;
        std::int64_t const from = sample * time + part.position;
        std::int64_t const to = place(part) + std::int64_t{b} * each;
        fill(x, from, rows, each, 0, index_.data() + to);
        fill(targets, from, rows, each, -1, target_.data() + to);
        int const length = lengths != nullptr ? lengths[sample] : time;
        length_[length_place(part) + static_cast<std::size_t>(b)] =
            std::clamp(length - part.position, 0, each);
      }
    }
  }

  [[nodiscard]] std::int32_t const* input(Microbatch const& m) const {
    return index_.data() + place(m);
  }
  [[nodiscard]] Target const* targets(Microbatch const& m) const {
    return target_.data() + place(m);
  }
  /// How many rows of the chunk count; null: all.
  [[nodiscard]] std::int32_t const* lengths(Microbatch const& m) const {
    return has_lengths_ ? length_.data() + length_place(m) : nullptr;
  }

  /// Of all that has been loaded, from the rank's first sample on: lengths (chunk, sample) of each
  /// microbatch; null: all rows count.
  [[nodiscard]] std::int32_t const* inputs() const { return index_.data(); }
  [[nodiscard]] Target const* targets() const { return target_.data(); }
  [[nodiscard]] std::int32_t const* lengths() const {
    return has_lengths_ ? length_.data() : nullptr;
  }
  /// Rows of a sample in all its chunks.
  [[nodiscard]] int time() const { return static_cast<int>(time_); }

  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>((index_.size() + length_.size()) * sizeof(std::int32_t) +
                                     target_.size() * sizeof(Target));
  }

 private:
  // From row @p from on @p rows rows, of @p each the others @p other; nothing of null.
  template <class E>
  static void fill(E const* all, std::int64_t from, int rows, int each, E other, E* to) {
    if (all != nullptr) {
      std::fill_n(std::copy_n(all + from, rows, to), each - rows, other);
    }
  }
  [[nodiscard]] std::int64_t place(Microbatch const& m) const {
    return (m.first - first_) * time_ + std::int64_t{m.size} * m.position;
  }
  [[nodiscard]] std::size_t length_place(Microbatch const& m) const {
    return static_cast<std::size_t>((m.first - first_) * chunks_ + std::int64_t{m.size} * m.chunk);
  }

  std::vector<std::int32_t> index_;
  std::vector<Target> target_;
  std::vector<std::int32_t> length_;
  int chunks_;
  std::int64_t first_ = 0;
  std::int64_t time_ = 0;  // rows of a sample in all its chunks
  bool has_lengths_ = false;
};

/// Where microbatches come whole.
struct NoChunkFeed {
  NoChunkFeed(auto const&... /*arguments*/) {}
  [[nodiscard]] static std::int64_t bytes() { return 0; }
};

}  // namespace tandem
