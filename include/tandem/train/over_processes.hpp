// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What each of several processes has a part of: the samples that it reads, whose outputs are its
/// own, and what all must have: sums over all, and outputs that each makes some of.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <span>
#include <vector>

#include <tandem/data/loader_options.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>

namespace tandem {

/// The part of each batch that one of @p processes reads: what its ranks take, where they need no
/// more of it, and are no pipeline that keeps the batches of several steps.
/// @param in_parts  StepFacts::in_parts
/// @param workers   lives as long as what is made of the result
template <class Workers>
BatchParts parts_to_read(Workers const& workers, bool in_parts, int processes) {
  if (!in_parts || workers.facts().streams() || processes == 1) {
    return {};
  }
  return {[](void const* of, int size) { return static_cast<Workers const*>(of)->part_of(size); },
          &workers};
}

/// f(), which reads or checks samples. Where these are a part of the batch no other process knows
/// of an error, and all their ranks fail with it.
template <class Workers, class F>
auto with_part(Workers& workers, BatchParts const& parts, F const& f) {
  try {
    return f();
  } catch (std::exception const& error) {
    if (parts.of != nullptr) {
      workers.abort(error.what());
    }
    throw;
  }
}

/// f(sample) for those of a batch of @p size whose outputs this process has, in order.
template <class Workers, class F>
void for_own_samples(Workers const& workers, int size, F const& f) {
  int s = 0;
  for (int m = 0; m < workers.batching().all_microbatches(); ++m) {
    int const end = s + microbatch_size(size, m, workers.batching());
    for (; s < end && workers.has_result(m); ++s) {
      f(s);
    }
    s = end;
  }
}

/// Each number becomes the sum over the processes, which all call it with as many. The sum is in
/// double: exact of whole numbers below 2^53, and where all processes but one have 0.
///
/// Cost: one all-reduce of all ranks for each 2^20 numbers, and memory for them in double.
template <class Workers, class T>
void add_over_processes(Workers& workers, std::span<T> numbers) {
  using RankType = typename Workers::RankType;
  if (workers.facts().asynchrony.on()) {  // of which there is one process
    return;
  }
  constexpr std::size_t most = std::size_t{1} << 20;
  for (std::size_t begin = 0; begin < numbers.size(); begin += most) {
    auto const part = numbers.subspan(begin, std::min(most, numbers.size() - begin));
    std::vector<double> sums(part.begin(), part.end());
    workers.run(
        [&](RankType& rank) {
          std::vector<double> none(part.size());
          bool const is_first = &rank == &workers.rank(0);  // its numbers are the process's
          rank.add_up(is_first ? std::span{sums} : std::span{none});
        },
        WorkKind::computes);
    std::transform(sums.begin(), sums.end(), part.begin(),
                   [](double sum) { return static_cast<T>(sum); });
  }
}

/// forward(), which makes those of the @p made numbers that are of this process's ranks; then every
/// process has all. All call it; cost: that of add_over_processes().
template <class Workers, class Forward>
void make_in_parts(Workers& workers, int processes, std::initializer_list<std::span<float>> made,
                   Forward const& forward) {
  for (std::span<float> const numbers : made) {
    std::fill(numbers.begin(), processes > 1 ? numbers.end() : numbers.begin(), 0.0F);
  }
  forward();
  for (std::span<float> const numbers : made) {
    if (processes > 1) {
      add_over_processes(workers, numbers);
    }
  }
}

}  // namespace tandem
