// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMicrobatches: which samples of the global batch each microbatch of a rank has.

#include <cstdint>
#include <vector>

#include <tandem/strategy/split.hpp>

namespace tandem {

/// The sizes for one global batch size, worked out again only when that changes.
class RankMicrobatches {
 public:
  RankMicrobatches(Batching const& batching, int replica)
      : batching_{batching},
        replica_{replica},
        size_(static_cast<std::size_t>(batching.microbatches)),
        first_(static_cast<std::size_t>(batching.microbatches)) {}

  /// Splits a global batch of @p total samples. No allocation.
  void split(int total) {
    if (total == total_) {
      return;
    }
    total_ = total;
    std::int64_t before = 0;
    int const own = replica_ * batching_.microbatches;
    for (int i = 0; i < own + batching_.microbatches; ++i) {
      int const size = microbatch_size(total, i, batching_);
      if (i >= own) {
        size_[static_cast<std::size_t>(i - own)] = size;
        first_[static_cast<std::size_t>(i - own)] = before;
      }
      before += size;
    }
  }

  [[nodiscard]] int total() const { return total_; }
  /// Samples in the rank's microbatch @p m, and the position of its first in the global batch.
  [[nodiscard]] int size(int m) const { return size_[static_cast<std::size_t>(m)]; }
  [[nodiscard]] std::int64_t first(int m) const { return first_[static_cast<std::size_t>(m)]; }
  /// Its index among the microbatches of all replicas.
  [[nodiscard]] int global(int m) const { return replica_ * batching_.microbatches + m; }

 private:
  Batching batching_;
  int replica_;
  int total_ = -1;
  std::vector<int> size_;
  std::vector<std::int64_t> first_;
};

}  // namespace tandem
