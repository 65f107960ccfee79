// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Queue: tasks that one thread of its own runs in order, the second stream of a Host device.
///
/// Kernels run on the device's own thread; what is posted here, communication above all, overlaps
/// them. A task is a small value that points at what it works on; it owns nothing.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/thread_error.hpp>

namespace tandem::host {

/// A first-in first-out queue of tasks with its own thread, which the first post() starts; a queue
/// that is never used costs no thread, and nothing is allocated after that start.
///
/// After a task has thrown, the tasks behind it are skipped until synchronize(), wait() or
/// discard() has taken the exception; then the queue is usable again. Not copyable, not movable.
class Queue {
 public:
  /// The place of a task in the order of posting, from 1; 0 is before every task.
  using Ticket = std::uint64_t;

  /// Tasks that may be waiting at a time; one more, and post() blocks.
  static constexpr std::size_t places = 256;

  /// The largest task.
  static constexpr std::size_t task_bytes = 64;

  Queue() = default;
  Queue(Queue const&) = delete;
  Queue& operator=(Queue const&) = delete;

  /// Runs what is still waiting, or skips it after an error, and drops that error. So that it need
  /// not wait for other ranks, let a queue outlive the code that may throw, and abort the group.
  ~Queue() {
    {
      std::lock_guard const lock{mutex_};
      stop_ = true;
    }
    work_.notify_one();
    if (worker_.joinable()) {
      worker_.join();
    }
  }

  /// Puts @p task behind the others; its ticket is for wait(). Blocks while all places are taken.
  /// @pre not called by a task of this queue
  /// @throws Error  the system has no thread for the queue
  template <class Task>
  Ticket post(Task const& task) {
    static_assert(sizeof(Task) <= task_bytes && alignof(Task) <= alignof(std::max_align_t),
                  "Queue::post: a task may have 64 bytes at most; capture a pointer to its data");
    static_assert(
        std::is_trivially_copyable_v<Task>,
        "Queue::post: a task must be trivially copyable; capture pointers and numbers, no "
        "owners such as std::vector");
    std::unique_lock lock{mutex_};
    if (!worker_.joinable()) {
      try {
        worker_ = std::thread{[this] { serve(); }};
      } catch (std::system_error const& error) {
        throw tandem::detail::no_more_threads("a device's communication needs a thread", error);
      }
    }
    ++awaiting_;
    progress_.wait(lock, [this] { return posted_ - done_ < places; });
    --awaiting_;
    Place& place = ring_[posted_ % places];
    ::new (static_cast<void*>(place.storage)) Task(task);
    place.call = [](void* storage) { (*std::launder(static_cast<Task*>(storage)))(); };
    Ticket const ticket = ++posted_;
    lock.unlock();
    work_.notify_one();
    return ticket;
  }

  /// The ticket of the task that was posted last; 0 if there was none.
  [[nodiscard]] Ticket last() const {
    std::lock_guard const lock{mutex_};
    return posted_;
  }

  /// Whether a thread blocks until a task is done, or for a place: on a rank's queue, the rank.
  [[nodiscard]] bool awaited() const {
    std::lock_guard const lock{mutex_};
    return awaiting_ > 0;
  }

  /// Blocks until the task with this @p ticket is done, or some task has thrown.
  /// @pre ticket <= last()
  /// Throws what the first failed task threw; of the tasks posted so far none runs any more.
  TANDEM_ONCE void wait(Ticket ticket);

  /// Blocks until every task posted so far is done. Throws as wait() does.
  void synchronize() { wait(last()); }

  /// Skips what has not started, waits for the task that runs, and drops any error.
  TANDEM_ONCE void discard();

 private:
  struct Place {
    void (*call)(void*) = nullptr;
    alignas(std::max_align_t) std::byte storage[task_bytes];
  };

  TANDEM_ONCE void serve();

  mutable std::mutex mutex_;  // guards everything but the places that are taken
  std::condition_variable work_;
  std::condition_variable progress_;
  Ticket posted_ = 0;
  Ticket done_ = 0;
  Ticket skip_until_ = 0;
  int awaiting_ = 0;  // threads in post() or wait()
  bool stop_ = false;
  std::exception_ptr error_;
  std::array<Place, places> ring_;
  std::thread worker_;
};

}  // namespace tandem::host

#if TANDEM_BODIES

namespace tandem::host {

TANDEM_ONCE void Queue::wait(Ticket ticket) {
  std::unique_lock lock{mutex_};
  ++awaiting_;
  progress_.wait(lock, [this, ticket] { return done_ >= ticket || error_ != nullptr; });
  --awaiting_;
  if (error_ != nullptr) {
    skip_until_ = posted_;
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

TANDEM_ONCE void Queue::discard() {
  std::unique_lock lock{mutex_};
  skip_until_ = posted_;
  progress_.wait(lock, [this] { return done_ >= skip_until_; });
  error_ = nullptr;
}

TANDEM_ONCE void Queue::serve() {
  std::unique_lock lock{mutex_};
  for (;;) {
    work_.wait(lock, [this] { return done_ != posted_ || stop_; });
    if (done_ == posted_) {
      return;
    }
    if (error_ == nullptr && done_ >= skip_until_) {
      Place& place = ring_[done_ % places];  // stays taken until done_ passes it
      std::exception_ptr error;
      lock.unlock();
      try {
        place.call(place.storage);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      error_ = std::move(error);
    }
    ++done_;
    progress_.notify_all();
  }
}

}  // namespace tandem::host

#endif
