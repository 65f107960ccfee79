// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// split: sizes of the microbatches of a global batch, the last uneven one included.

#include <cstdint>

#include <tandem/strategy/batch/options.hpp>

namespace tandem {

/// Part @p part of @p total cut into @p parts alike: ceil((i+1) t/p) - ceil(i t/p).
///
/// Sizes differ by one at most, and so do the sums of equal runs of them: 10 samples in 4
/// microbatches are 3, 2, 3, 2, hence 5 and 5 for two replicas of two.
constexpr int even_part(int total, int part, int parts) {
  auto const before = [&](std::int64_t i) {
    return static_cast<int>((i * total + parts - 1) / parts);
  };
  return before(part + 1) - before(part);
}

/// Shard @p shard of @p total in proportion to the weights: floors first, then what is left goes to
/// the largest remainders, the lower rank among equals. Cost: O(shards²).
constexpr int weighted_part(int total, int shard, Batching const& batching) {
  std::int64_t weights = 0;
  for (int s = 0; s < batching.shards; ++s) {
    weights += batching.weight[s];
  }
  auto const quota = [&](int s) { return std::int64_t{total} * batching.weight[s]; };
  std::int64_t left = total;
  for (int s = 0; s < batching.shards; ++s) {
    left -= quota(s) / weights;
  }
  int ahead = 0;  // shards that come before this one in the order of remainders
  for (int s = 0; s < batching.shards; ++s) {
    std::int64_t const theirs = quota(s) % weights;
    std::int64_t const ours = quota(shard) % weights;
    ahead += theirs > ours || (theirs == ours && s < shard) ? 1 : 0;
  }
  return static_cast<int>(quota(shard) / weights) + (ahead < left ? 1 : 0);
}

/// Samples in microbatch @p index (counted over all replicas) of a global batch of @p total.
constexpr int microbatch_size(int total, int index, Batching const& batching) {
  int const all = batching.all_microbatches();
  if (batching.shards == 0) {
    return even_part(total, index, all);
  }
  int const run = all / batching.shards;
  return even_part(weighted_part(total, index / run, batching), index % run, run);
}

/// The largest microbatch of a global batch of @p total: what memory is planned for.
constexpr int largest_microbatch(int total, Batching const& batching) {
  int largest = 0;
  for (int i = 0; i < batching.all_microbatches(); ++i) {
    int const size = microbatch_size(total, i, batching);
    largest = size > largest ? size : largest;
  }
  return largest;
}

}  // namespace tandem
