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
#include <tandem/data/dataset.hpp>
#include <tandem/data/order.hpp>
#include <tandem/data/read_watch.hpp>

namespace tandem {

/// Samples side by side: x is (size, shape().elements()), y is (size, targets()), both contiguous.
/// Of sequences x and y have `time` rows of each; behind a sample's end x has 0 and y has -1.
template <class Scalar, class Target>
struct Batch {
  Scalar const* x = nullptr;
  Target const* y = nullptr;
  int size = 0;
  std::int64_t first = 0;  ///< position of its first sample in the epoch: where to resume
  int time = 0;            ///< rows of each sample, where these are sequences: the longest sample's
  std::int32_t const* lengths = nullptr;  ///< (size): how many of them are the sample's; null: all
  Scalar const* second = nullptr;         ///< of a PairDataset the second input, likewise
  int second_time = 0;
  std::int32_t const* second_lengths = nullptr;
};

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
  using Input = DataInput<D>;
  using BatchType = Batch<Scalar, Target>;

  /// Starts to read. @p data must live, unchanged, until the Loader is gone.
  Loader(D const& data, LoaderOptions options)
      : data_{data},
        options_{checked(options, data)},
        elements_{static_cast<std::size_t>(data.shape().elements())},
        targets_{static_cast<std::size_t>(data.targets())},
        sample_(std::is_same_v<Scalar, Input> ? std::size_t{0} : elements_) {
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
      Slot const& slot = ring_[taken_ % slots];
      batch = {.x = slot.x.data(),
               .y = slot.y.data(),
               .size = slot.size,
               .first = slot.first,
               .time = slot.time,
               .lengths = slot.lengths.empty() ? nullptr : slot.lengths.data()};
      if constexpr (PairDataset<D>) {
        batch.second = slot.second.data();
        batch.second_time = slot.second_time;
        batch.second_lengths = slot.second_lengths.data();
      }
      lent_ = true;
    } else if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
    return lent_;
  }

 private:
  static constexpr std::size_t slots = 3;

  template <class = void>
  void allocate(std::size_t samples) {
    std::size_t const batch = std::min(samples, static_cast<std::size_t>(options_.batch));
    std::size_t const bytes =
        samples * sizeof(std::int64_t) +
        slots * batch * (elements_ * sizeof(Scalar) + targets_ * sizeof(Target));
    detail::MemoryClaim const claim{static_cast<std::int64_t>(bytes), "a Loader"};
    try {
      order_.resize(samples);
      for (Slot& slot : ring_) {
        slot.x.resize(batch * elements_);
        slot.y.resize(batch * targets_);
        slot.lengths.resize(SequenceDataset<D> || PairDataset<D> ? batch : 0);
        if constexpr (PairDataset<D>) {
          slot.second.resize(batch * static_cast<std::size_t>(data_.second_shape().elements()));
          slot.second_lengths.resize(batch);
        }
      }
    } catch (std::bad_alloc const&) {
      throw Error{"out of memory: a Loader asks for " + std::to_string(bytes) +
                  " bytes, for three batches and the order of the samples; use a smaller batch"};
    }
  }

  struct Slot {
    std::vector<Scalar> x;
    std::vector<Target> y;
    std::vector<std::int32_t> lengths;
    std::vector<Scalar> second;
    std::vector<std::int32_t> second_lengths;
    int size = 0;
    int time = 0;
    int second_time = 0;
    std::int64_t first = 0;
  };

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
    if constexpr (PairDataset<D>) {
      return fill_pairs(slot);
    } else {
      return fill_samples(slot);
    }
  }

  bool fill_samples(Slot& slot) {
    std::int64_t const first = slot.first;
    int const size = slot.size;
    slot.time = time_of(slot);
    Shape const shape = data_.shape();
    auto const elements = static_cast<std::size_t>(shape.elements(slot.time));
    auto const row = static_cast<std::size_t>(shape.row_elements());
    std::size_t const targets = is_timed() ? static_cast<std::size_t>(slot.time) : targets_;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
      if (stop_) {
        return false;
      }
      std::int64_t const position = first + static_cast<std::int64_t>(i);
      watch_.at(position);
      std::int64_t const index = order_[static_cast<std::size_t>(position)];
      std::span<Scalar> const x{slot.x.data() + i * elements, elements};
      std::span<Target> const y{slot.y.data() + i * targets, targets};
      std::size_t own = elements;
      std::size_t own_targets = targets;
      if constexpr (SequenceDataset<D>) {
        own = static_cast<std::size_t>(slot.lengths[i]) * row;
        own_targets = is_timed() ? static_cast<std::size_t>(slot.lengths[i]) : targets;
        std::fill(x.begin() + static_cast<std::ptrdiff_t>(own), x.end(), Scalar{0});
        std::fill(y.begin() + static_cast<std::ptrdiff_t>(own_targets), y.end(),
                  static_cast<Target>(-1));
      }
      if constexpr (std::is_same_v<Scalar, Input>) {
        read(index, x.first(own), y.first(own_targets));
      } else {
        read(index, std::span{sample_}.first(own), y.first(own_targets));
        for (std::size_t e = 0; e < own; ++e) {
          x[e] = static_cast<Scalar>(sample_[e]);
        }
      }
    }
    return true;
  }

  bool fill_pairs(Slot& slot) {
    auto const length = [this](std::int64_t index) { return data_.length(index); };
    auto const second_length = [this](std::int64_t index) { return data_.second_length(index); };
    slot.time = longest(slot, data_.shape()[0], length, slot.lengths);
    slot.second_time = longest(slot, data_.second_shape()[0], second_length, slot.second_lengths);
    auto const time = static_cast<std::size_t>(slot.time);
    auto const second_time = static_cast<std::size_t>(slot.second_time);
    bool const timed = data_.targets() == data_.second_shape()[0];
    std::size_t const targets = timed ? second_time : targets_;
    for (std::size_t i = 0; i < static_cast<std::size_t>(slot.size); ++i) {
      if (stop_) {
        return false;
      }
      std::int64_t const position = slot.first + static_cast<std::int64_t>(i);
      watch_.at(position);
      std::int64_t const index = order_[static_cast<std::size_t>(position)];
      auto const x = rows(slot.x, i, time, slot.lengths[i], 0);
      auto const second = rows(slot.second, i, second_time, slot.second_lengths[i], 0);
      auto const y =
          rows(slot.y, i, targets, timed ? slot.second_lengths[i] : static_cast<int>(targets), -1);
      data_.read(index, x, second, y);
    }
    return true;
  }

  // The first @p count of sample i's rows; behind them stands @p padding.
  template <class E>
  static std::span<E> rows(std::vector<E>& all, std::size_t i, std::size_t time, int count,
                           int padding) {
    std::span<E> const own{all.data() + i * time, time};
    std::fill(own.begin() + count, own.end(), static_cast<E>(padding));
    return own.first(static_cast<std::size_t>(count));
  }

  // Whether each row of a sequence has a target.
  [[nodiscard]] bool is_timed() const {
    Shape const shape = data_.shape();
    return shape.timed && targets_ == static_cast<std::size_t>(shape[0]);
  }

  // Rows of each of the samples from this one on, whose lengths are noted.
  int time_of(Slot& slot) const {
    Shape const shape = data_.shape();
    if constexpr (SequenceDataset<D>) {
      return longest(
          slot, shape[0], [this](std::int64_t index) { return data_.length(index); }, slot.lengths);
    } else {
      return shape.timed ? shape[0] : 0;
    }
  }

  // The longest of a slot's samples, of which each is noted.
  template <class Length>
  int longest(Slot const& slot, int most, Length const& length_of,
              std::vector<std::int32_t>& lengths) const {
    int longest = 1;
    for (std::size_t i = 0; i < static_cast<std::size_t>(slot.size); ++i) {
      int const length = length_of(order_[static_cast<std::size_t>(slot.first) + i]);
      if (length < 1 || length > most) {
        throw Error{"a dataset says that a sequence has " + std::to_string(length) +
                    " rows, but its shape allows 1 to " + std::to_string(most) +
                    "; split longer ones, and leave out empty ones"};
      }
      lengths[i] = length;
      longest = std::max(longest, length);
    }
    return longest;
  }

  void read(std::int64_t index, std::span<Input> x, std::span<Target> y) const {
    if (options_.augment) {
      read_sample(data_, index, x, y, Randomness{options_.seed, options_.epoch, index});
    } else {
      data_.read(index, x, y);
    }
  }

  D const& data_;
  LoaderOptions options_;
  std::size_t elements_;
  std::size_t targets_;
  std::vector<std::int64_t> order_;
  std::vector<Input> sample_;  // one sample before its conversion
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
