// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LoaderOptions: which samples a Loader reads, in which order, and by how many threads;
/// BatchParts: what of a batch one of several processes reads.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/stall.hpp>

namespace tandem {

/// Samples [begin, end) of a batch, counted in it.
struct BatchPart {
  int begin = 0;
  int end = 0;

  [[nodiscard]] constexpr int size() const { return end - begin; }
};

/// Which part of each batch is read here, where others read the rest: of(context, size) of a batch
/// of @p size samples.
struct BatchParts {
  BatchPart (*of)(void const* context, int size) = nullptr;  ///< null: all of it
  void const* context = nullptr;

  [[nodiscard]] BatchPart operator()(int size) const {
    return of != nullptr ? of(context, size) : BatchPart{0, size};
  }
};

struct LoaderOptions {
  int batch = 1;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  bool shuffle = true;     ///< else in the dataset's order
  bool augment = true;     ///< else plain samples, as evaluation wants them
  bool drop_last = false;  ///< leave out a last batch of fewer samples than `batch`
  std::int64_t first = 0;  ///< samples of the epoch to skip; Batch::first + size resumes exactly
  int threads = 1;         ///< that read and augment; the batches are the same for any number
  StallLimit limit{};      ///< for the dataset to read one sample
  BatchParts parts{};      ///< of each batch that are read; lengths are looked up of all
};

/// @p options for a dataset of @p size samples.
/// @throws ContractError  batch < 1, epoch outside [0, 2^32), first outside [0, size], or threads
///                        outside [1, 256]
TANDEM_ONCE [[nodiscard]] LoaderOptions checked(LoaderOptions const& options, std::int64_t size);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE LoaderOptions checked(LoaderOptions const& options, std::int64_t size) {
  expects(options.batch >= 1, "LoaderOptions: batch must be at least 1");
  expects(options.epoch >= 0 && options.epoch < (std::int64_t{1} << 32),
          "LoaderOptions: epoch must be in [0, 2^32)");
  expects(options.first >= 0 && options.first <= size,
          "LoaderOptions: first must be in [0, size of the dataset]");
  expects(options.threads >= 1 && options.threads <= 256,
          "LoaderOptions: threads must be from 1 to 256");
  return options;
}

}  // namespace tandem

#endif
