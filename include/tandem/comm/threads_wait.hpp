// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::GroupWait: one mutex, one condition and one failure for all ranks of a ThreadsGroup.

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>

#include <tandem/core/clock.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// How ranks that are threads wait for each other: until it is so, the group fails, or time is up.
class GroupWait {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit GroupWait(std::chrono::milliseconds timeout) : timeout_{timeout} {}

  [[nodiscard]] Lock lock() { return Lock{mutex_}; }
  void notify() { changed_.notify_all(); }

  // All below: @pre the caller has the lock.

  /// @throws AbortedError  the group has failed
  void check() const {
    if (failure_ != Failure::none) {
      throw AbortedError{message_};
    }
  }

  /// The first failure counts, later ones change nothing.
  void abort(std::string const& message) { fail(Failure::aborted, message); }

  void reset() { failure_ = Failure::none; }

  /// Blocks until done(), which the caller's lock guards. If time is up first, the group fails with
  /// text(), for every rank that waits.
  /// @throws AbortedError  the group was aborted
  /// @throws TimeoutError  time is up, for this rank or another one that waited
  template <class Done, class Text>
  void wait(Lock& lock, Done const& done, Text const& text) {
    auto const limit = std::min<std::chrono::milliseconds>(timeout_, std::chrono::hours{8760});
    bool const woken = changed_.wait_until(lock, std::chrono::steady_clock::now() + limit,
                                           [&] { return done() || failure_ != Failure::none; });
    if (done()) {
      return;
    }
    if (!woken) {
      fail(Failure::timed_out, text());
    }
    if (failure_ == Failure::timed_out) {
      throw TimeoutError{message_};
    }
    throw AbortedError{message_};
  }

  /// Blocks until done(), whatever else happens.
  template <class Done>
  void wait_without_limit(Lock& lock, Done const& done) {
    changed_.wait(lock, done);
  }

 private:
  enum class Failure { none, aborted, timed_out };

  void fail(Failure failure, std::string const& message) {
    if (failure_ == Failure::none) {
      failure_ = failure;
      message_ = message;
      changed_.notify_all();
    }
  }

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Failure failure_ = Failure::none;
  std::string message_;
};

}  // namespace tandem::detail
