// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMicrobatches: which samples of the global batch each microbatch of a rank has.

#include <cstdint>
#include <span>
#include <vector>

#include <tandem/core/shape.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>

namespace tandem {

/// One of a rank's microbatches.
struct Microbatch {
  int size = 0;       ///< samples
  int first = 0;      ///< position of its first sample in the global batch
  Times time{};       ///< rows of each sample, where these are sequences
  int finishes = -1;  ///< the leaf, of those of its copy of the model, whose last it is
  bool adds = false;  ///< an earlier one of its leaf has samples, so gradients are added
};

/// The sizes for one global batch size, worked out again only when that changes.
class RankMicrobatches {
 public:
  RankMicrobatches(Batching const& batching, int replica, int copies = 1)
      : batching_{batching},
        replica_{replica},
        copies_{copies},
        leaf_{batching.leaf(copies)},
        own_(static_cast<std::size_t>(batching.microbatches)) {}

  /// Splits a global batch of @p total samples of @p time rows. No allocation.
  void split(int total, Times const& time = {}) {
    if (total == total_ && time == time_) {
      return;
    }
    total_ = total;
    time_ = time;
    int before = 0;
    for (int i = 0; i < global(0); ++i) {
      before += microbatch_size(total, i, batching_);
    }
    bool adds = false;
    for (int m = 0; m < batching_.microbatches; ++m) {
      int const size = microbatch_size(total, global(m), batching_);
      adds = adds && m % leaf_ != 0;
      int const leaf = m % (batching_.microbatches / copies_) / leaf_;
      own_[static_cast<std::size_t>(m)] = {.size = size,
                                           .first = before,
                                           .time = time,
                                           .finishes = (m + 1) % leaf_ == 0 ? leaf : -1,
                                           .adds = adds};
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
  /// Samples, of all replicas, of the model's copy that takes microbatch @p own of this rank.
  [[nodiscard]] int total_of_copy(Microbatch const& own) const { return of_copy_[copy_of(own)]; }
  /// Of the model, the one that takes microbatch @p own of this rank.
  [[nodiscard]] int copy_of(Microbatch const& own) const {
    return static_cast<int>(&own - own_.data()) / (batching_.microbatches / copies_);
  }
  /// The rank's microbatch @p m.
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
    auto const count = static_cast<std::size_t>(batching_.microbatches / copies_);
    return std::span{own_}.subspan(static_cast<std::size_t>(copy) * count, count);
  }
  /// Its index among the microbatches of all replicas.
  [[nodiscard]] int global(int m) const { return batching_.global(replica_, m); }

 private:
  [[nodiscard]] int first_of(int copy) const { return copy * (batching_.microbatches / copies_); }

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
