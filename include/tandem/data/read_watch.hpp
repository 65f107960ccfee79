// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ReadWatch: which sample a Loader's thread is at, and the sentence for one that never comes.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/stall.hpp>

namespace tandem {

/// The reading thread says at(), the one that waits for it looks now and then.
class ReadWatch {
 public:
  /// @param position  in the epoch
  void at(std::int64_t position) { position_.store(position, std::memory_order_relaxed); }

  /// What a wait with @p limit calls between two looks: reports a sample that makes the wait last
  /// longer than that. @param order  indices of the dataset by position
  [[nodiscard]] auto looker(StallLimit const& limit, std::span<std::int64_t const> order) const {
    return [this, limit, order, seen = std::int64_t{-1}, since = Clock::time_point{},
            last_look = Clock::time_point{}]() mutable {
      Clock::time_point const now = Clock::now();
      bool const stood_still = detail::stood_still(limit, now - std::exchange(last_look, now));
      if (std::int64_t const here = position_.load(std::memory_order_relaxed);
          here != seen || stood_still) {
        seen = here;
        since = now;
      } else if (limit.passed(now - since)) {
        report(limit, order, seen, now - since);
        since = now;
      }
    };
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <class = void>  // compiled where it is called, not by every include
  TANDEM_COLD static void report(StallLimit const& limit, std::span<std::int64_t const> order,
                                 std::int64_t position, Clock::duration without_progress) noexcept {
    auto const idle = std::chrono::duration_cast<std::chrono::milliseconds>(without_progress);
    std::string text;
    char const* message = "the dataset does not return from read(), and there is no memory left";
    try {
      text = "the dataset does not return from read(" +
             std::to_string(order[static_cast<std::size_t>(position)]) + "), sample " +
             std::to_string(position) + " of the epoch: it has been there for " +
             std::to_string(idle.count()) + " ms, and the time-out is " +
             std::to_string(limit.timeout.count()) +
             " ms; where a sample may take that long, set a larger TrainerOptions::timeout (or "
             "LoaderOptions::limit), or 0 for no limit";
      message = text.c_str();
    } catch (std::exception const&) {  // of the memory
    }
    detail::report_stall(limit.on_stall, {.message = message, .idle = idle});
  }

  std::atomic<std::int64_t> position_{0};
};

}  // namespace tandem
