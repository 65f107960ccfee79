// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// In which order a trainer reads a dataset, from its options.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/data/buckets.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

/// How long the program's thread waits for its ranks and its data.
inline StallLimit stall_limit(TrainerOptions const& options) {
  return {.timeout = options.timeout, .on_stall = options.on_stall};
}

/// What is left of an epoch from sample @p first of its order on.
TANDEM_ONCE LoaderOptions training_order(TrainerOptions const& options, std::int64_t epoch,
                                         std::int64_t first);

/// The dataset's own order, without augmentation.
inline LoaderOptions evaluation_order(TrainerOptions const& options) {
  return {.batch = options.batch,
          .shuffle = false,
          .augment = false,
          .threads = options.loader_threads,
          .limit = stall_limit(options)};
}

/// The same for a network with Stateful layers: sample b of a batch goes on with sample b of the
/// one before. An evaluation has as many samples at a time as the dataset has streams().
/// @throws ContractError  the data is not in such an order, or in batches of several sizes
template <class D>
LoaderOptions in_streams(LoaderOptions order, D const& data, bool training) {
  expects(!order.shuffle,
          "train(data) of a network with Stateful layers: sample b of a batch goes on where sample "
          "b of the batch before has ended, so that the data must be read in its own order; give "
          ".shuffle = false");
  if constexpr (RandomDataset<D>) {
    expects(!training,
            "train(data) of a network with Stateful layers: this dataset's samples are drawn at "
            "random, so that none goes on where another has ended; take ParallelStreams");
  }
  if constexpr (BucketedDataset<D>) {
    expects(
        data.buckets() <= 1,
        "train(data) of a network with Stateful layers: batches in buckets of lengths are in no "
        "order in which samples could go on; give a dataset of one bucket");
  }
  if constexpr (requires { data.streams(); }) {
    expects(training ? data.streams() == order.batch : data.streams() <= order.batch,
            "a network with Stateful layers takes a sample of each of a dataset's streams at a "
            "time: give .batch = data.streams(); to evaluate() there may be fewer");
    order.batch = data.streams();
  }
  expects(order.drop_last || data.size() <= order.batch || data.size() % order.batch == 0,
          "a network with Stateful layers takes batches of one size: the dataset's must be a "
          "multiple of .batch, as that of ParallelStreams is, or give .drop_last = true");
  return order;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE LoaderOptions training_order(TrainerOptions const& options, std::int64_t epoch,
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

}  // namespace tandem

#endif
