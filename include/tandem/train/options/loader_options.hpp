// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// In which order a trainer reads a dataset, from its options.

#include <cstdint>

#include <tandem/core/stall.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

/// How long the program's thread waits for its ranks and its data.
inline StallLimit stall_limit(TrainerOptions const& options) {
  return {.timeout = options.timeout, .on_stall = options.on_stall};
}

/// What is left of an epoch from sample @p first of its order on.
inline LoaderOptions training_order(TrainerOptions const& options, std::int64_t epoch,
                                    std::int64_t first) {
  return {.batch = options.batch,
          .seed = options.seed,
          .epoch = epoch,
          .shuffle = options.shuffle,
          .drop_last = options.drop_last,
          .first = first,
          .threads = options.loader_threads,
          .limit = stall_limit(options)};
}

/// The dataset's own order, without augmentation.
inline LoaderOptions evaluation_order(TrainerOptions const& options) {
  return {.batch = options.batch,
          .shuffle = false,
          .augment = false,
          .threads = options.loader_threads,
          .limit = stall_limit(options)};
}

}  // namespace tandem
