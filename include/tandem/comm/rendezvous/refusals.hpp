// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RefusalLog: says who was refused at a rendezvous, while process 0 goes on.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>

namespace tandem::detail {

/// The first refusal at once, then one line a second at most: who floods process 0 does not flood
/// its log.
class RefusalLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param where  what each line begins with
  /// @param write  takes a line; null: nothing is said
  RefusalLog(std::string where, void (*write)(char const*))
      : where_{std::move(where)}, write_{write} {}

  TANDEM_ONCE TANDEM_COLD void say(std::string const& what, Clock::time_point now = Clock::now());

 private:
  std::string where_;
  void (*write_)(char const*);
  std::optional<Clock::time_point> said_{};
  std::int64_t unsaid_ = 0;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void RefusalLog::say(std::string const& what, Clock::time_point now) {
  if (write_ == nullptr) {
    return;
  }
  if (said_ && now - *said_ < std::chrono::seconds{1}) {
    ++unsaid_;
    return;
  }
  std::string const more = unsaid_ == 0 ? "" : " as " + std::to_string(unsaid_) + " before";
  write_((where_ + what + "; refused" + more + ", and process 0 goes on waiting\n").c_str());
  said_ = now;
  unsaid_ = 0;
}

}  // namespace tandem::detail

#endif
