// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMicrobatches: which samples of the global batch, and which of their rows, each pass of a
/// rank has.

#include <cstdint>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>

namespace tandem {

/// One of a rank's microbatches, or a chunk of time of one.
struct Microbatch {
  int size = 0;       ///< samples
  int first = 0;      ///< position of its first sample in the global batch
  Times time{};       ///< rows of each sample, where these are sequences
  int finishes = -1;  ///< the leaf, of those of its copy of the model, whose last it is
  bool adds = false;  ///< an earlier one of its leaf has samples, so gradients are added
  int position = -1;  ///< of a chunk: its first row of each sample; -1: it has all rows
  int chunk = 0;      ///< which of the microbatch's
  /// Where its data begin among the rank's, in samples; of a chunk, in rows.
  std::int64_t place = 0;
};

/// The sizes for one global batch size, worked out again only when that changes.
class RankMicrobatches {
 public:
  RankMicrobatches(Batching const& batching, int replica, int copies = 1)
      : batching_{batching},
        replica_{replica},
        copies_{copies},
        leaf_{batching.leaf(copies)},
        own_(static_cast<std::size_t>(batching.passes())) {}

  /// Splits a global batch of @p total samples of @p time rows; of chunks all have as many rows, in
  /// all perhaps more than there are. No allocation.
  TANDEM_ONCE void split(int total, Times const& time = {});

  /// Visits all microbatches of the global batch: f(copy of the model, first sample, samples).
  template <class F>
  void each_of_all(F const& f) const {
    int first = 0;
    for (int i = 0; i < batching_.all_microbatches(); ++i) {
      int const size = microbatch_size(total_, i, batching_);
      f(batching_.copy_of(i, copies_), first, size);
      first += size;
    }
  }

  [[nodiscard]] int total() const { return total_; }
  /// Of the rank: its microbatches, or the chunks of all of them.
  [[nodiscard]] int passes() const { return static_cast<int>(own_.size()); }
  /// Samples, of all replicas, of the model's copy that takes microbatch @p own of this rank.
  [[nodiscard]] int total_of_copy(Microbatch const& own) const { return of_copy_[copy_of(own)]; }
  /// Of the model, the one that takes microbatch @p own of this rank.
  [[nodiscard]] int copy_of(Microbatch const& own) const {
    return static_cast<int>(&own - own_.data()) / (batching_.passes() / copies_);
  }
  /// The rank's microbatch @p m; of chunks, number @p m of all.
  [[nodiscard]] Microbatch const& operator[](int m) const {
    return own_[static_cast<std::size_t>(m)];
  }
  [[nodiscard]] int size(int m) const { return (*this)[m].size; }
  [[nodiscard]] std::int64_t first(int m) const { return (*this)[m].first; }
  /// The rank's shard of the global batch: samples [begin(), end()).
  [[nodiscard]] std::int64_t begin() const { return own_.front().first; }
  [[nodiscard]] std::int64_t end() const { return own_.back().first + own_.back().size; }
  /// What of the shard the microbatches of one of the model's copies are.
  [[nodiscard]] std::int64_t begin(int copy) const { return (*this)[first_of(copy)].first; }
  [[nodiscard]] std::int64_t end(int copy) const {
    Microbatch const& last = (*this)[first_of(copy + 1) - 1];
    return last.first + last.size;
  }
  /// The microbatches of one of the model's copies.
  [[nodiscard]] std::span<Microbatch const> of_copy(int copy) const {
    auto const count = static_cast<std::size_t>(batching_.passes() / copies_);
    return std::span{own_}.subspan(static_cast<std::size_t>(copy) * count, count);
  }
  /// The index of its microbatch among those of all replicas.
  [[nodiscard]] int global(int m) const { return batching_.global(replica_, m / batching_.chunks); }
  /// Rows of a sample, in whatever chunks.
  [[nodiscard]] Times const& time() const { return time_; }

 private:
  [[nodiscard]] int first_of(int copy) const { return copy * (batching_.passes() / copies_); }

  Batching batching_;
  int replica_;
  int copies_;
  int leaf_;  // in microbatches
  int total_ = -1;
  Times time_{};
  int of_copy_[2] = {};  // of the model, samples
  std::vector<Microbatch> own_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void RankMicrobatches::split(int total, Times const& time) {
  if (total == total_ && time == time_) {
    return;
  }
  int const chunks = batching_.chunks;
  total_ = total;
  time_ = time;
  int before = 0;
  for (int i = 0; i < global(0); ++i) {
    before += microbatch_size(total, i, batching_);
  }
  int const first = before;
  bool adds = false;
  for (int m = 0; m < batching_.microbatches; ++m) {
    int const size = microbatch_size(total, batching_.global(replica_, m), batching_);
    adds = adds && m % leaf_ != 0;
    int const leaf = m % (batching_.microbatches / copies_) / leaf_;
    for (int chunk = 0; chunk < chunks; ++chunk) {  // backward ends with the first
      bool const ends = chunk == 0 && (m + 1) % leaf_ == 0;
      Times part = time;
      part.of[0] = (part.of[0] + chunks - 1) / chunks;
      own_[static_cast<std::size_t>(m * chunks + chunk)] = {
          .size = size,
          .first = before,
          .time = part,
          .finishes = ends ? leaf : -1,
          .adds = adds || (chunk + 1 < chunks && size > 0),
          .position = chunks > 1 ? chunk * part.of[0] : -1,
          .chunk = chunk,
          .place = chunks > 1 ? std::int64_t{part.of[0]} *
                                    (std::int64_t{before - first} * chunks + size * chunk)
                              : before - first};
    }
    adds = adds || size > 0;
    before += size;
  }
  for (int& samples : of_copy_) {
    samples = 0;
  }
  for (int i = 0; i < batching_.all_microbatches(); ++i) {
    of_copy_[batching_.copy_of(i, copies_)] += microbatch_size(total, i, batching_);
  }
}

}  // namespace tandem

#endif
