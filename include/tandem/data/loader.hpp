// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Loader: the batches of one epoch, read ahead by a thread of its own.
///
/// The batches depend on the dataset and the options only, never on timing. A Loader is made for an
/// epoch and thrown away after it; it knows nothing of ranks, which take their parts of a batch.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include <tandem/core/available_memory.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/core/thread_error.hpp>
#include <tandem/data/batch_reader.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/order.hpp>
#include <tandem/data/read_watch.hpp>

namespace tandem {

struct LoaderOptions {
  int batch = 1;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  bool shuffle = true;     ///< else in the dataset's order
  bool augment = true;     ///< else plain samples, as evaluation wants them
  bool drop_last = false;  ///< leave out a last batch of fewer samples than `batch`
  std::int64_t first = 0;  ///< samples of the epoch to skip; Batch::first + size resumes exactly
  StallLimit limit{};      ///< for the dataset to read one sample
};

namespace detail {

template <class D>
struct LoadedInputOf {
  using type = float;
};
template <Dataset D>
struct LoadedInputOf<D> {
  using type = DataInput<D>;
};
template <class D>
using LoadedInput = typename LoadedInputOf<D>::type;

}  // namespace detail

/// The primary template is the error path: D is no Dataset.
template <class D, class Scalar = detail::LoadedInput<D>>
class Loader {
  static_assert(Dataset<D>,
                "Loader<D, Scalar>: D must be a Dataset: Target (std::int32_t or float), size() -> "
                "std::int64_t, shape() -> Shape, targets() -> int, read(index, x, y), all const");
};

/// Reads a dataset's samples in the order of (seed, epoch) into a ring of three batches.
///
/// Cost:   three batches of Scalar and Target (no larger than the dataset), an index for each
///         sample of the dataset, and one thread; all by the constructor, nothing by next().
/// @throws Error          there is no memory for them, or no thread
/// @throws ContractError  options.batch < 1, epoch outside [0, 2^32), or first outside [0, size()]
template <Dataset D, class Scalar>
class Loader<D, Scalar> {
 public:
  using Target = typename D::Target;
  using BatchType = Batch<Scalar, Target>;

  /// Starts to read. @p data must live, unchanged, until the Loader is gone.
  Loader(D const& data, LoaderOptions options)
      : options_{checked(options, data)},
        reader_{data, options.augment, options.seed, options.epoch} {
    allocate(static_cast<std::size_t>(data.size()));
    if (options_.shuffle) {
      shuffled_order(order_, options_.seed, options_.epoch);
    } else {
      ascending_order(order_);
    }
    try {
      thread_ = std::thread{[this] { fill_ring(); }};
    } catch (std::system_error const& error) {
      throw detail::no_more_threads("a Loader reads ahead on a thread of its own", error);
    }
  }
  Loader(D const&&, LoaderOptions) = delete;

  /// Stops reading within one sample's time.
  ~Loader() {
    {
      std::unique_lock lock{mutex_};
      stop_ = true;
      changed_.notify_all();
      await(lock, [this] { return done_; });
    }
    thread_.join();
  }

  Loader(Loader const&) = delete;
  Loader& operator=(Loader const&) = delete;

  /// Waits for the next batch; false at the end of the epoch, and @p batch is then empty. A read
  /// that does not return is reported: see OnStall.
  ///
  /// The batch's memory is the Loader's, and holds until the following next().
  /// @throws whatever the dataset's read threw, after the batches that precede it, and ever after
  [[nodiscard]] bool next(BatchType& batch) {
    std::unique_lock lock{mutex_};
    if (lent_) {
      lent_ = false;
      ++taken_;
      changed_.notify_all();
    }
    await(lock, [this] { return filled_ > taken_ || done_; });
    batch = {};
    if (filled_ > taken_) {
      batch = ring_[taken_ % slots].batch();
      lent_ = true;
    } else if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
    return lent_;
  }

 private:
  using Slot = BatchSlot<Scalar, Target>;
  static constexpr std::size_t slots = 3;

  template <class = void>
  void allocate(std::size_t samples) {
    std::size_t const batch = std::min(samples, static_cast<std::size_t>(options_.batch));
    std::size_t const bytes =
        samples * sizeof(std::int64_t) + slots * batch * reader_.sample_bytes();
    detail::MemoryClaim const claim{static_cast<std::int64_t>(bytes), "a Loader"};
    try {
      order_.resize(samples);
      for (Slot& slot : ring_) {
        reader_.allocate(slot, batch);
      }
    } catch (std::bad_alloc const&) {
      throw Error{"out of memory: a Loader asks for " + std::to_string(bytes) +
                  " bytes, for three batches and the order of the samples; use a smaller batch"};
    }
  }

  static LoaderOptions checked(LoaderOptions const& options, D const& data) {
    expects(options.batch >= 1, "LoaderOptions: batch must be at least 1");
    expects(options.epoch >= 0 && options.epoch < (std::int64_t{1} << 32),
            "LoaderOptions: epoch must be in [0, 2^32)");
    expects(options.first >= 0 && options.first <= data.size(),
            "LoaderOptions: first must be in [0, size of the dataset]");
    return options;
  }

  /// The thread: waits for a free slot, fills it without the lock, hands it over.
  void fill_ring() noexcept {
    std::int64_t const end = static_cast<std::int64_t>(order_.size());
    std::int64_t first = options_.first;
    bool more = true;
    while (more) {
      std::int64_t const left = end - first;
      int const size = left < options_.batch ? static_cast<int>(left) : options_.batch;
      more = size > 0 && (size == options_.batch || !options_.drop_last);
      std::exception_ptr error;
      if (more && wait_for_slot()) {
        try {
          more = fill(ring_[filled_ % slots], first, size);
        } catch (...) {
          error = std::current_exception();
          more = false;
        }
      } else {
        more = false;
      }
      {
        std::lock_guard const lock{mutex_};
        filled_ += more ? 1 : 0;
        done_ = !more;
        error_ = error;
      }
      changed_.notify_all();
      first += size;
    }
  }

  /// Of the consumer's thread: waits for the other one.
  template <class Done>
  void await(std::unique_lock<std::mutex>& lock, Done const& done) {
    auto look = watch_.looker(options_.limit, order_);
    detail::wait_looking(lock, changed_, options_.limit, done, look);
  }

  bool wait_for_slot() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return stop_ || filled_ - taken_ < slots; });
    return !stop_;
  }

  /// False if told to stop.
  bool fill(Slot& slot, std::int64_t first, int size) {
    slot.first = first;
    slot.size = size;
    return reader_.fill(slot, order_, [this](std::int64_t position) {
      watch_.at(position);
      return !stop_;
    });
  }

  LoaderOptions options_;
  BatchReader<D, Scalar> reader_;
  std::vector<std::int64_t> order_;
  Slot ring_[slots];

  std::mutex mutex_;  // guards what follows; `filled_` is written by the thread only
  std::condition_variable changed_;
  std::size_t filled_ = 0;  // batches since the start
  std::size_t taken_ = 0;   // batches given back by the consumer
  bool lent_ = false;
  bool done_ = false;
  std::exception_ptr error_;
  std::atomic<bool> stop_ = false;  // also read without the lock, between samples
  ReadWatch watch_;
  std::thread thread_;
};

template <class D>
Loader(D const&, LoaderOptions) -> Loader<D>;

}  // namespace tandem
