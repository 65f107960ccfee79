// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a trainer fills a Confusion: batch by batch, each process the samples whose outputs it has.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <tandem/layers/loss.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>
#include <tandem/train/confusion.hpp>

namespace tandem {

/// The class of a sample, of a label or of the largest share; -1 where the label is ignored.
template <class LossType, class Target>
int class_of_sample(std::span<Target const> targets) {
  if constexpr (std::is_integral_v<Target>) {
    return sample_counts<LossType>(targets[0]) ? static_cast<int>(targets[0]) : -1;
  } else {
    return static_cast<int>(std::max_element(targets.begin(), targets.end()) - targets.begin());
  }
}

/// Adds the samples of a batch.
/// @param outputs  (samples, classes), those of other processes left as they were
/// @throws ContractError  one is a NaN
template <class LossType, class Workers, class BatchType, class T>
void add_samples(Confusion& matrix, Workers const& workers, BatchType const& batch,
                 std::span<T const> outputs) {
  using Target = typename LossType::Target;
  auto const classes = static_cast<std::size_t>(matrix.classes());
  std::size_t const targets = std::is_integral_v<Target> ? 1 : classes;
  int s = 0;
  for (int m = 0; m < workers.batching().all_microbatches(); ++m) {
    int const end = s + microbatch_size(batch.size, m, workers.batching());
    for (; s < end && workers.has_result(m); ++s) {
      auto const at = static_cast<std::size_t>(s);
      int const truth = class_of_sample<LossType>(std::span{batch.y + at * targets, targets});
      if (truth >= 0) {
        detail::add_sample(matrix, truth, outputs.subspan(at * classes, classes), batch.first + s);
      }
    }
    s = end;
  }
}

/// Each count becomes the sum over the processes: exact, since they are whole numbers.
template <class Workers>
void add_over_processes(Workers& workers, std::span<std::int64_t> counts) {
  using RankType = typename Workers::RankType;
  if constexpr (requires(RankType & rank) { rank.add_up({}); }) {  // of others there is one process
    std::vector<double> sums(counts.begin(), counts.end());
    workers.run(
        [&](RankType& rank) {
          std::vector<double> none(counts.size());
          bool const is_first = &rank == &workers.rank(0);  // its numbers are the process's
          rank.add_up(is_first ? std::span{sums} : std::span{none});
        },
        WorkKind::computes);
    std::transform(sums.begin(), sums.end(), counts.begin(),
                   [](double sum) { return static_cast<std::int64_t>(sum); });
  }
}

}  // namespace tandem
