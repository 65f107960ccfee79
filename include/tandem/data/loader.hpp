// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Loader: the batches of one epoch, read ahead by threads of its own.
///
/// The batches depend on the dataset and the options only, never on timing. A Loader is made for an
/// epoch and thrown away after it; it knows nothing of ranks, which take their parts of a batch.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/available_memory.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/own_process.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/core/thread_error.hpp>
#include <tandem/data/batch_progress.hpp>
#include <tandem/data/batch_reader.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/epoch_order.hpp>
#include <tandem/data/loader_options.hpp>
#include <tandem/data/read_watch.hpp>
#include <tandem/data/sample_source.hpp>

namespace tandem {

/// Reads a dataset's samples in the order of (seed, epoch), and of (seed, epoch, batch) where it
/// has length buckets, into a ring of three batches.
///
/// The threads take pieces of the batch that is the next, in their order, and go on to the
/// following one while others still read: where a sample stands in a batch says what is read, and
/// nothing else. Of several errors the one at the first position is thrown.
///
/// Cost:   three batches of Scalar and Target (no larger than the dataset), or of their parts that
///         options.parts asks for; up to 8 bytes a sample of the dataset for the order, see
///         epoch_order_bytes(); and the threads; all by the constructor, nothing by next().
/// @throws Error          there is no memory for them, or no thread
/// @throws ContractError  options.batch < 1, epoch outside [0, 2^32), first outside [0, size()], or
///                        threads outside [1, 256]
template <class Scalar, class TargetType>
class BatchLoader {
 public:
  using Target = TargetType;
  using BatchType = Batch<Scalar, Target>;

  /// Starts to read. What @p data is of must live, unchanged, until this is gone.
  BatchLoader(SampleSource<Scalar, Target> const& data, LoaderOptions const& options)
      : options_{checked(options, data.size())},
        // Four pieces a thread: one that is slow keeps the others waiting for no longer.
        progress_{options.first,
                  data.size(),
                  options.batch,
                  options.drop_last,
                  options.parts(options.batch).size(),
                  options.threads == 1 ? 1 : 4 * options.threads} {
    for (int i = 0; i < options_.threads; ++i) {
      workers_.push_back(std::make_unique<Worker>(data.reader(options_)));
    }
    allocate(data);
    start();
  }

  /// Stops reading within one sample's time; in a child of fork(), where nobody reads, it does
  /// nothing.
  ~BatchLoader() { stop(); }

  BatchLoader(BatchLoader const&) = delete;
  BatchLoader& operator=(BatchLoader const&) = delete;

  /// Waits for the next batch; false at the end of the epoch, and @p batch is then empty. A read
  /// that does not return is reported: see OnStall.
  ///
  /// The batch's memory is the Loader's, and holds until the following next().
  /// @throws whatever the dataset's read threw, after the batches that precede it, and ever after
  /// @throws ContractError  this is a child of fork()
  [[nodiscard]] bool next(BatchType& batch);

  /// How an error names the samples of @p batch that are here, the first of which is sample 0.
  [[nodiscard]] SampleNames names(BatchType const& batch) const {
    return {&order_, batch.first + batch.part.begin};
  }

 private:
  using Slot = BatchSlot<Scalar, Target>;
  static constexpr std::size_t slots = BatchProgress::slots;

  /// A thread with what is its own.
  struct Worker {
    explicit Worker(std::unique_ptr<SampleReader<Scalar, Target>> own) : reader{std::move(own)} {}

    std::unique_ptr<SampleReader<Scalar, Target>> reader;
    ReadWatch watch;
    std::thread thread;
  };

  void allocate(SampleSource<Scalar, Target> const& data);

  // Of a batch of this size, and of the last one of the epoch.
  [[nodiscard]] int largest_part(std::int64_t samples, int batch) const {
    std::int64_t const left = samples - options_.first;
    int const last = batch > 0 ? static_cast<int>(left % batch) : 0;
    return std::max(options_.parts(batch).size(), options_.parts(last).size());
  }

  TANDEM_COLD void start();

  TANDEM_COLD void stop();

  /// A thread: opens batches and reads pieces of them until there are no more.
  void work(Worker& own) noexcept;

  /// With the lock but in the middle, as what follows.
  void open_batch(Worker& own, std::unique_lock<std::mutex>& lock);

  void read_piece(Worker& own, std::unique_lock<std::mutex>& lock);

  /// Runs @p read without the lock; an error is noted as that of @p position, since pieces of lower
  /// ones, whose errors come first, have been claimed before.
  template <class Read>
  bool without(std::unique_lock<std::mutex>& lock, std::int64_t position, Read const& read) {
    lock.unlock();
    std::exception_ptr error;
    bool is_done = false;
    try {
      is_done = read();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error != nullptr && (error_ == nullptr || position < error_at_)) {
      error_ = std::move(error);
      error_at_ = position;
      changed_.notify_all();
    }
    return is_done;
  }

  /// Of the consumer's thread: waits for the others.
  template <class Done>
  void await(std::unique_lock<std::mutex>& lock, Done const& done) {
    for (std::unique_ptr<Worker> const& worker : workers_) {
      worker->watch.begin();
    }
    detail::wait_looking(lock, changed_, options_.limit, done, [this] {
      for (std::unique_ptr<Worker> const& worker : workers_) {
        worker->watch.look(options_.limit, order_);
      }
    });
  }

  LoaderOptions options_;
  EpochOrder order_;
  Slot ring_[slots];

  detail::OwnProcess process_;
  std::mutex mutex_;  // guards what follows
  detail::UnlessForked<std::condition_variable> held_changed_;
  std::condition_variable& changed_ = *held_changed_;
  BatchProgress progress_;
  bool opening_ = false;  // a thread is about to open a batch
  int working_ = 0;       // threads
  bool lent_ = false;
  std::exception_ptr error_;
  std::int64_t error_at_ = 0;       // position
  std::atomic<bool> stop_ = false;  // also read without the lock, between samples
  detail::UnlessForked<std::vector<std::unique_ptr<Worker>>> held_workers_;
  std::vector<std::unique_ptr<Worker>>& workers_ = *held_workers_;
};

template <class Scalar, class TargetType>
bool BatchLoader<Scalar, TargetType>::next(BatchType& batch) {
  process_.expect_own("Loader::next()", "Loader");
  std::unique_lock lock{mutex_};
  if (lent_) {
    lent_ = false;
    progress_.take();
    changed_.notify_all();
  }
  await(lock, [this] { return progress_.is_filled() || working_ == 0; });
  batch = {};
  if (progress_.is_filled()) {
    batch = ring_[progress_.filled_slot()].batch();
    lent_ = true;
  } else if (error_ != nullptr) {
    std::rethrow_exception(error_);
  }
  return lent_;
}

template <class Scalar, class TargetType>
void BatchLoader<Scalar, TargetType>::allocate(SampleSource<Scalar, Target> const& data) {
  auto const samples = static_cast<std::size_t>(data.size());
  std::size_t const batch = std::min(samples, static_cast<std::size_t>(options_.batch));
  auto const read = static_cast<std::size_t>(
      largest_part(static_cast<std::int64_t>(samples), static_cast<int>(batch)));
  std::size_t const bytes =
      data.order_bytes(options_) + slots * read * workers_.front()->reader->sample_bytes();
  detail::MemoryClaim const claim{static_cast<std::int64_t>(bytes), "a Loader"};
  try {
    order_ = data.order(options_);
    for (Slot& slot : ring_) {
      workers_.front()->reader->allocate(slot, read, batch);
    }
  } catch (std::bad_alloc const&) {
    throw Error{"out of memory: a Loader asks for " + std::to_string(bytes) +
                " bytes, for three batches and the order of the samples; use a smaller batch"};
  }
}

template <class Scalar, class TargetType>
void BatchLoader<Scalar, TargetType>::start() {
  for (std::unique_ptr<Worker> const& worker : workers_) {
    try {
      std::unique_lock const lock{mutex_};
      worker->thread = std::thread{[this, own = worker.get()] { work(*own); }};
      ++working_;
    } catch (std::system_error const& error) {
      stop();
      throw detail::no_more_threads(
          options_.threads == 1 ? std::string{"a Loader reads ahead on a thread of its own"}
                                : "a Loader reads ahead on " + std::to_string(options_.threads) +
                                      " threads of its own (LoaderOptions::threads, "
                                      "TrainerOptions::loader_threads)",
          error);
    }
  }
}

template <class Scalar, class TargetType>
void BatchLoader<Scalar, TargetType>::stop() {
  if (!process_.is_own()) {
    return;
  }
  {
    std::unique_lock lock{mutex_};
    stop_ = true;
    changed_.notify_all();
    await(lock, [this] { return working_ == 0; });
  }
  for (std::unique_ptr<Worker> const& worker : workers_) {
    if (worker->thread.joinable()) {
      worker->thread.join();
    }
  }
}

template <class Scalar, class TargetType>
void BatchLoader<Scalar, TargetType>::work(Worker& own) noexcept {
  std::unique_lock lock{mutex_};
  auto const is_over = [this] { return !progress_.has_piece() && progress_.next_size() == 0; };
  while (true) {
    changed_.wait(lock, [&] {
      bool const has_work = progress_.has_piece() || progress_.may_open() || is_over();
      return stop_ || error_ != nullptr || (!opening_ && has_work);
    });
    if (stop_ || error_ != nullptr || is_over()) {
      break;
    }
    progress_.has_piece() ? read_piece(own, lock) : open_batch(own, lock);
    own.watch.idle();
  }
  --working_;
  changed_.notify_all();
}

template <class Scalar, class TargetType>
void BatchLoader<Scalar, TargetType>::open_batch(Worker& own, std::unique_lock<std::mutex>& lock) {
  Slot& slot = ring_[progress_.next_slot()];
  slot.first = progress_.next_position();
  slot.size = progress_.next_size();
  slot.part = options_.parts(slot.size);
  opening_ = true;
  bool const is_open = without(lock, slot.first, [&] {
    own.watch.at(slot.first);
    own.reader->prepare(slot, order_);
    return true;
  });
  opening_ = false;
  if (is_open) {
    progress_.open(slot.part);
  }
  changed_.notify_all();
}

template <class Scalar, class TargetType>
void BatchLoader<Scalar, TargetType>::read_piece(Worker& own, std::unique_lock<std::mutex>& lock) {
  BatchProgress::Piece const piece = progress_.claim();
  Slot& slot = ring_[piece.slot];
  bool const is_read = without(lock, slot.first + piece.begin, [&] {
    return own.reader->read(slot, order_, piece.begin, piece.end, [&](std::int64_t position) {
      own.watch.at(position);
      return !stop_;
    });
  });
  if (is_read && progress_.finish(piece)) {
    changed_.notify_all();
  }
}

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
  static_assert(detail::expect_dataset<D>());
};

/// A BatchLoader of a dataset: D's samples, converted to Scalar.
template <Dataset D, class Scalar>
class Loader<D, Scalar> : public BatchLoader<Scalar, typename D::Target> {
 public:
  /// Starts to read. @p data must live, unchanged, until the Loader is gone.
  Loader(D const& data, LoaderOptions const& options)
      : BatchLoader<Scalar, typename D::Target>{SampleSourceOf<D, Scalar>{data}, options} {}
  Loader(D const&&, LoaderOptions const&) = delete;
};

template <class D>
Loader(D const&, LoaderOptions) -> Loader<D>;

}  // namespace tandem
