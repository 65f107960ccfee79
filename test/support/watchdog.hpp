// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Watchdog: ends the test program when a test with several ranks hangs.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace tandem::test {

/// Put one at the top of each test with ranks; it aborts the program unless destroyed in time.
class [[nodiscard]] Watchdog {
 public:
  explicit Watchdog(char const* test, std::chrono::seconds limit = std::chrono::seconds{60})
      : thread_{[this, test, limit] { watch(test, limit); }} {}

  Watchdog(Watchdog const&) = delete;
  Watchdog& operator=(Watchdog const&) = delete;

  ~Watchdog() {
    {
      std::lock_guard const lock{mutex_};
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void watch(char const* test, std::chrono::seconds limit) {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, limit, [this] { return done_; })) {
      std::fprintf(stderr, "watchdog: '%s' hangs\n", test);
      std::abort();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace tandem::test
