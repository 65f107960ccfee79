// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMicrobatches: which samples of the global batch each microbatch of a rank has.

#include <cstdint>
#include <vector>

#include <tandem/strategy/split.hpp>

namespace tandem {

/// One of a rank's microbatches.
struct Microbatch {
  int size = 0;       ///< samples
  int total = 0;      ///< samples of the batch whose mean loss it is part of
  int first = 0;      ///< position of its first sample in the global batch
  int finishes = -1;  ///< the leaf, of those of its copy of the model, whose last it is
  bool adds = false;  ///< an earlier one of its leaf has samples, so gradients are added
};

/// The sizes for one global batch size, worked out again only when that changes.
class RankMicrobatches {
 public:
  /// @param apart  each of the model's copies has a loss of its own: the mean over its samples
  RankMicrobatches(Batching const& batching, int replica, int copies = 1, bool apart = false)
      : batching_{batching},
        replica_{replica},
        copies_{copies},
        apart_{apart},
        leaf_{batching.leaf(copies)},
        own_(static_cast<std::size_t>(batching.microbatches)) {}

  /// Splits a global batch of @p total samples. No allocation.
  void split(int total) {
    if (total == total_) {
      return;
    }
    total_ = total;
    int before = 0;
    int const own = replica_ * batching_.microbatches;
    for (int i = 0; i < own; ++i) {
      before += microbatch_size(total, i, batching_);
    }
    bool adds = false;
    for (int m = 0; m < batching_.microbatches; ++m) {
      int const size = microbatch_size(total, own + m, batching_);
      adds = adds && m % leaf_ != 0;
      int const leaf = m % (batching_.microbatches / copies_) / leaf_;
      own_[static_cast<std::size_t>(m)] = {.size = size,
                                           .total = apart_ ? samples_of_copy(m) : total,
                                           .first = before,
                                           .finishes = (m + 1) % leaf_ == 0 ? leaf : -1,
                                           .adds = adds};
      adds = adds || size > 0;
      before += size;
    }
  }

  [[nodiscard]] int total() const { return total_; }
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
  /// Its index among the microbatches of all replicas.
  [[nodiscard]] int global(int m) const { return replica_ * batching_.microbatches + m; }

 private:
  // Those of all replicas that the copy which takes microbatch @p m has.
  [[nodiscard]] int samples_of_copy(int m) const {
    int const share = batching_.microbatches / copies_;
    int samples = 0;
    for (int replica = 0; replica < batching_.replicas; ++replica) {
      int const first = replica * batching_.microbatches + m / share * share;
      for (int i = first; i < first + share; ++i) {
        samples += microbatch_size(total_, i, batching_);
      }
    }
    return samples;
  }
  [[nodiscard]] int first_of(int copy) const { return copy * (batching_.microbatches / copies_); }

  Batching batching_;
  int replica_;
  int copies_;
  bool apart_;
  int leaf_;  // in microbatches
  int total_ = -1;
  std::vector<Microbatch> own_;
};

}  // namespace tandem
