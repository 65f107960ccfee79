// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankThreads: a worker thread for each rank of this process, and what happens when one throws.
///
/// The main thread is no rank, also when there is only one. Nothing here knows communicators; what
/// must be aborted when a rank fails is told by an OnError. A rank that does not return is a Stall.

#include <algorithm>
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

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/core/thread_error.hpp>
#include <tandem/train/ranks/watch.hpp>

namespace tandem {

/// What to do as soon as the first rank has thrown: make the others stop waiting for it. Called
/// once a run, on that rank's thread; it must not throw.
struct OnError {
  void (*call)(void* context, int rank, char const* what) = nullptr;
  void* context = nullptr;
};

/// Aborts @p group, which must outlive the RankThreads, with the rank and its message.
template <class Group>
  requires requires(Group& group, int rank, char const* what) { group.abort(rank, what); }
OnError abort_on_error(Group& group) {
  return {[](void* context, int rank, char const* what) {
            static_cast<Group*>(context)->abort(rank, what);
          },
          std::addressof(group)};
}

/// One persistent worker thread a rank. Not copyable, not movable; used by one thread.
///
/// What a rank's streams and buffers are held by should outlive run(): a Queue that dies while its
/// rank's exception passes would wait for ranks that nobody has told yet.
class RankThreads {
 public:
  /// @param first_rank  what messages call the first of these threads
  /// @param limit       how long to wait for a rank that makes no progress
  /// @param words       where the ranks say what they are at
  /// @throws ContractError  ranks < 1
  /// @throws Error          the system has no more threads
  TANDEM_ONCE TANDEM_COLD explicit RankThreads(int ranks, OnError on_error = {}, int first_rank = 0,
                                               StallLimit const& limit = {.timeout = {}},
                                               RankWords const& words = {});

  RankThreads(RankThreads const&) = delete;
  RankThreads& operator=(RankThreads const&) = delete;

  ~RankThreads() { stop(); }

  /// f(rank) on every rank's thread, all at once; returns when all have returned. No allocation.
  ///
  /// If ranks throw, all of them are awaited nevertheless. Then the first exception that was no
  /// AbortedError (or the first AbortedError, if there was nothing else) comes out as a RankError,
  /// whatever its type was; std::rethrow_if_nested gives the original. Another run() may follow.
  /// A rank that makes no progress is reported: see OnStall.
  /// @param doing  what the ranks return from, for that report
  /// @pre    not called by a rank
  /// @throws RankError  a rank has thrown, in the action that the message names
  template <class F>
  void run(F&& f, char const* doing = "its work") {
    start(f, doing);
    wait();
  }

  /// Begins what run() does, and returns at once. @p f lives until wait() has returned, and
  /// @p doing is a literal.
  /// @pre the last start() was awaited
  template <class F>
  void start(F& f, char const* doing = "its work") {
    std::lock_guard const lock{mutex_};
    watch_.begin(doing);
    std::fill(at_work_.begin(), at_work_.end(), true);
    f_ = const_cast<void*>(static_cast<void const*>(std::addressof(f)));
    call_ = [](void* object, int rank) { (*static_cast<F*>(object))(rank); };
    error_told_ = false;
    running_ = size();
    ++runs_;
    start_.notify_all();
  }

  /// Waits for what start() has begun.
  /// @throws RankError  a rank has thrown
  TANDEM_ONCE void wait();

  /// Sees whether the ranks make progress. Called now and then by the thread that calls start(),
  /// while it waits for what they do.
  TANDEM_ONCE TANDEM_COLD void look() noexcept;
  [[nodiscard]] StallLimit const& limit() const { return watch_.limit(); }

  [[nodiscard]] int size() const noexcept { return static_cast<int>(workers_.size()); }

 private:
  TANDEM_ONCE void serve(int rank);

  TANDEM_ONCE void run_rank(int rank) noexcept;

  /// Called while the rank's exception is being handled. Allocates nothing, since there may be no
  /// memory.
  TANDEM_ONCE TANDEM_COLD void failed(int rank, char const* what, bool aborted) noexcept;

  /// @param at  ", at 1F2", or ""
  TANDEM_ONCE [[noreturn]] TANDEM_COLD static void rethrow(int rank, std::string const& at,
                                                           std::exception_ptr const& error);

  TANDEM_ONCE TANDEM_COLD static std::string what_of(std::exception_ptr const& error);

  TANDEM_ONCE void stop() noexcept;

  OnError on_error_;
  int first_rank_;    // of this process, for messages
  RankWatch watch_;   // of the thread that calls run()
  std::mutex mutex_;  // guards all below; f_ and call_ do not change during a run
  std::condition_variable start_;
  std::condition_variable end_;
  std::uint64_t runs_ = 0;
  int running_ = 0;
  std::vector<char> at_work_;  // by rank
  bool stop_ = false;
  void* f_ = nullptr;
  void (*call_)(void*, int) = nullptr;
  std::exception_ptr error_;
  int error_rank_ = 0;
  std::uint64_t error_word_ = 0;  // what the rank was at
  bool error_aborted_ = false;
  bool error_told_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE RankThreads::RankThreads(int ranks, OnError on_error, int first_rank,
                                     StallLimit const& limit, RankWords const& words)
    : on_error_{on_error},
      first_rank_{first_rank},
      watch_{limit, words, first_rank, ranks < 1 ? 1 : ranks},
      at_work_(static_cast<std::size_t>(ranks < 1 ? 1 : ranks)) {
  expects(ranks >= 1, "RankThreads: there must be at least one rank");
  workers_.reserve(static_cast<std::size_t>(ranks));
  try {
    for (int rank = 0; rank < ranks; ++rank) {
      workers_.push_back(std::thread{[this, rank] { serve(rank); }});
    }
  } catch (std::system_error const& error) {
    auto const made = std::to_string(workers_.size());
    stop();
    throw detail::no_more_threads(
        "a trainer of " + std::to_string(ranks) + " ranks needs a thread for each, and got " + made,
        error);
  } catch (...) {  // no more memory
    stop();
    throw;
  }
}

TANDEM_ONCE void RankThreads::wait() {
  std::unique_lock lock{mutex_};
  detail::wait_looking(
      lock, end_, watch_.limit(), [this] { return running_ == 0; }, [this] { look(); });
  if (error_ != nullptr) {
    std::exception_ptr const error = std::exchange(error_, nullptr);  // words may lack memory
    rethrow(first_rank_ + error_rank_, watch_.words().at(error_word_), error);
  }
}

TANDEM_ONCE void RankThreads::look() noexcept {
  watch_.look(
      [this](int rank) {
        std::lock_guard const lock{mutex_};
        return at_work_[static_cast<std::size_t>(rank)] != 0;
      },
      [this] {
        std::lock_guard const lock{mutex_};
        return error_ == nullptr ? std::string{}
                                 : "; meanwhile rank " + std::to_string(first_rank_ + error_rank_) +
                                       " has failed: " + what_of(error_);
      });
}

TANDEM_ONCE void RankThreads::serve(int rank) {
  std::unique_lock lock{mutex_};
  for (std::uint64_t seen = 0;; ++seen) {
    start_.wait(lock, [this, seen] { return runs_ != seen || stop_; });
    if (stop_) {
      return;
    }
    lock.unlock();
    run_rank(rank);
    lock.lock();
    at_work_[static_cast<std::size_t>(rank)] = false;
    if (--running_ == 0) {
      end_.notify_one();
    }
  }
}

TANDEM_ONCE void RankThreads::run_rank(int rank) noexcept {
  try {
    call_(f_, rank);
  } catch (AbortedError const& error) {
    failed(rank, error.what(), true);
  } catch (std::exception const& error) {
    failed(rank, error.what(), false);
  } catch (...) {
    failed(rank, "an exception that is no std::exception", false);
  }
}

TANDEM_ONCE void RankThreads::failed(int rank, char const* what, bool aborted) noexcept {
  std::uint64_t const word = watch_.words().of(rank);
  bool tell = false;
  {
    std::lock_guard const lock{mutex_};
    if (error_ == nullptr || (error_aborted_ && !aborted)) {
      error_ = std::current_exception();
      error_rank_ = rank;
      error_word_ = word;
      error_aborted_ = aborted;
    }
    tell = !std::exchange(error_told_, true);
  }
  if (tell && on_error_.call != nullptr) {
    on_error_.call(on_error_.context, first_rank_ + rank, what);
  }
}

TANDEM_ONCE void RankThreads::rethrow(int rank, std::string const& at,
                                      std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (std::bad_alloc const&) {
    std::throw_with_nested(RankError{
        rank, "out of memory; use a smaller batch, more microbatches or more devices", at});
  } catch (std::exception const& original) {
    std::throw_with_nested(RankError{rank, original.what(), at});
  } catch (...) {
    std::throw_with_nested(RankError{rank, "an exception that is no std::exception", at});
  }
}

TANDEM_ONCE std::string RankThreads::what_of(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& original) {
    return original.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

TANDEM_ONCE void RankThreads::stop() noexcept {
  {
    std::lock_guard const lock{mutex_};
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

}  // namespace tandem

#endif
