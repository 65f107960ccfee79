// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ReadWatch: which sample a thread of a Loader is at, and the sentence for one that never comes.

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/data/epoch_order.hpp>

namespace tandem {

/// The reading thread says at(), the one that waits for it looks now and then.
class ReadWatch {
 public:
  /// @param position  in the epoch
  void at(std::int64_t position) { position_.store(position, std::memory_order_relaxed); }

  /// The thread reads nothing.
  void idle() { position_.store(-1, std::memory_order_relaxed); }

  /// The waiting thread begins to wait.
  void begin() { last_look_ = {}; }

  /// Between two waits: reports a sample that has made the wait last longer than @p limit.
  /// @param order  indices of the dataset by position
  TANDEM_ONCE void look(StallLimit const& limit, EpochOrder const& order);

 private:
  using Clock = std::chrono::steady_clock;

  TANDEM_ONCE TANDEM_COLD static void report(StallLimit const& limit, EpochOrder const& order,
                                             std::int64_t position,
                                             Clock::duration without_progress) noexcept;

  std::atomic<std::int64_t> position_{-1};
  std::int64_t seen_ = -1;  // of the waiting thread, as what follows
  Clock::time_point since_{};
  Clock::time_point last_look_{};
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void ReadWatch::report(StallLimit const& limit, EpochOrder const& order,
                                   std::int64_t position,
                                   Clock::duration without_progress) noexcept {
  auto const idle = std::chrono::duration_cast<std::chrono::milliseconds>(without_progress);
  std::string text;
  char const* message = "the dataset does not return from read(), and there is no memory left";
  try {
    text = "the dataset does not return from read(" + std::to_string(order[position]) +
           "), sample " + std::to_string(position) + " of the epoch: it has been there for " +
           std::to_string(idle.count()) + " ms, and the time-out is " +
           std::to_string(limit.timeout.count()) +
           " ms; where a sample may take that long, set a larger TrainerOptions::timeout (or "
           "LoaderOptions::limit), or 0 for no limit";
    message = text.c_str();
  } catch (std::exception const&) {  // of the memory
  }
  detail::report_stall(limit.on_stall, {.message = message, .idle = idle});
}

TANDEM_ONCE void ReadWatch::look(StallLimit const& limit, EpochOrder const& order) {
  Clock::time_point const now = Clock::now();
  bool const stood_still = detail::stood_still(limit, now - std::exchange(last_look_, now));
  if (std::int64_t const here = position_.load(std::memory_order_relaxed);
      here < 0 || here != seen_ || stood_still) {
    seen_ = here;
    since_ = now;
  } else if (limit.passed(now - since_)) {
    report(limit, order, seen_, now - since_);
    since_ = now;
  }
}

}  // namespace tandem

#endif
