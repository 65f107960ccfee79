// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::Patience: how a host thread waits for something that it can only ask about.

#include <algorithm>
#include <string>
#include <thread>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Gives way at first and sleeps a little later on, so that ranks that wait do not
/// take the CPU from ranks that queue work.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param yields   how often it gives way before it sleeps
  /// @param longest  how long it sleeps at most
  explicit Patience(std::chrono::milliseconds limit, int yields = 200,
                    std::chrono::milliseconds longest = std::chrono::milliseconds{1})
      : limit_{std::min<std::chrono::milliseconds>(limit, std::chrono::hours{8760})},
        yields_{yields},
        longest_{longest} {}

  /// Call it between two looks. Whether there may be another one.
  TANDEM_ONCE [[nodiscard]] bool pause();

  /// What is left of the limit, at most an hour; 0 when it is over.
  [[nodiscard]] int left_ms() const {
    auto const left =
        std::chrono::duration_cast<std::chrono::milliseconds>(begin_ + limit_ - Clock::now());
    return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 3600000));
  }

 private:
  Clock::time_point begin_ = Clock::now();
  std::chrono::milliseconds limit_;
  std::chrono::microseconds sleep_{20};
  int yields_;
  std::chrono::microseconds longest_;
  int looks_ = 0;
};

/// "10 s" or "1500 ms"
TANDEM_ONCE TANDEM_COLD std::string to_string(std::chrono::milliseconds time);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string to_string(std::chrono::milliseconds time) {
  auto const ms = time.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

TANDEM_ONCE bool Patience::pause() {
  if (looks_++ < yields_) {
    std::this_thread::yield();
    return true;
  }
  if (left_ms() == 0) {
    return false;
  }
  std::this_thread::sleep_for(sleep_);
  sleep_ = std::min(2 * sleep_, longest_);
  return true;
}

}  // namespace tandem::detail

#endif
