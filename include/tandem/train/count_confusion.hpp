// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a trainer fills a Confusion: batch by batch, each process the samples whose outputs it has.

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

#include <tandem/layers/loss.hpp>
#include <tandem/train/confusion.hpp>
#include <tandem/train/over_processes.hpp>

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
  for_own_samples(workers, batch.size, [&](int s) {
    auto const at = static_cast<std::size_t>(s);
    auto const place = static_cast<std::size_t>(s - batch.part.begin);
    int const truth = class_of_sample<LossType>(std::span{batch.y + place * targets, targets});
    if (truth >= 0) {
      detail::add_sample(matrix, truth, outputs.subspan(at * classes, classes), batch.first + s);
    }
  });
}

}  // namespace tandem
