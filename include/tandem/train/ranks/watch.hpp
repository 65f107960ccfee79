// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankWatch: which rank makes no progress, and the sentence for it.
///
/// A rank stores the action that it is at in a word. The thread that waits for the ranks reads the
/// words now and then; that costs the ranks nothing. No thread is needed for it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <tandem/comm/patience.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/stall.hpp>

namespace tandem {

/// Where the ranks of a process say what they are at.
struct RankWords {
  /// The word of rank number @p local of this process; null: no rank says anything.
  std::uint64_t (*read)(void const* context, int local) = nullptr;
  void const* context = nullptr;
  /// "1F2 (microbatch 2)", or "" where the word says nothing.
  std::string (*describe)(std::uint64_t word) = nullptr;
  /// A rank that waits for the program, as long as that takes.
  std::uint64_t idle = ~std::uint64_t{0};

  [[nodiscard]] std::uint64_t of(int local) const {
    return read != nullptr ? read(context, local) : 0;
  }
  /// ", at 1F2 (microbatch 2)", or "".
  [[nodiscard]] std::string at(std::uint64_t word) const {
    std::string const text = describe != nullptr ? describe(word) : std::string{};
    return text.empty() ? text : ", at " + text;
  }
};

/// Looks at the ranks' words. Used by one thread, the one that waits for them.
class RankWatch {
 public:
  using Clock = std::chrono::steady_clock;

  RankWatch(StallLimit const& limit, RankWords const& words, int first_rank, int ranks)
      : limit_{limit},
        words_{words},
        first_rank_{first_rank},
        seen_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] StallLimit const& limit() const { return limit_; }
  [[nodiscard]] RankWords const& words() const { return words_; }

  /// The ranks begin to work: what was seen before does not count.
  /// @param doing  what the ranks are to return from, such as "a training step"
  void begin(char const* doing) {
    doing_ = doing;
    fresh_ = true;
  }

  /// Reports a stall, once a rank that is at work has made no progress for longer than the limit.
  /// @param at_work  at_work(local): whether the rank has not returned
  /// @param failure  failure(): what another rank has thrown meanwhile, or ""
  template <class AtWork, class Failure>
  TANDEM_COLD void look(AtWork const& at_work, Failure const& failure) noexcept {
    Clock::time_point const now = Clock::now();
    fresh_ = fresh_ || detail::stood_still(limit_, now - last_look_);
    last_look_ = now;
    int longest = -1;
    for (int local = 0; local < static_cast<int>(seen_.size()); ++local) {
      Seen& seen = at(local);
      std::uint64_t const word = words_.of(local);
      if (fresh_ || word != seen.word || word == words_.idle || !at_work(local)) {
        seen = {word, now};
      }
      if (longest < 0 || seen.since < at(longest).since) {
        longest = local;
      }
    }
    fresh_ = false;
    if (limit_.passed(now - at(longest).since)) {
      report(longest, now, failure);
      fresh_ = true;
    }
  }

 private:
  struct Seen {
    std::uint64_t word = 0;
    Clock::time_point since{};
  };

  Seen& at(int local) { return seen_[static_cast<std::size_t>(local)]; }

  template <class Failure>
  TANDEM_COLD void report(int local, Clock::time_point now, Failure const& failure) noexcept {
    auto const idle = std::chrono::duration_cast<std::chrono::milliseconds>(now - at(local).since);
    std::string text;
    char const* message = "a rank does not return, and there is no memory left to say which";
    try {
      text = sentence(local, idle) + failure();
      message = text.c_str();
    } catch (std::exception const&) {  // of the memory
    }
    detail::report_stall(limit_.on_stall,
                         {.message = message, .rank = first_rank_ + local, .idle = idle});
  }

  TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::string sentence(int local,
                                                             std::chrono::milliseconds idle);

  StallLimit limit_;
  RankWords words_;
  int first_rank_;
  std::vector<Seen> seen_;
  char const* doing_ = "";
  Clock::time_point last_look_{};
  bool fresh_ = true;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string RankWatch::sentence(int local, std::chrono::milliseconds idle) {
  std::string const action =
      words_.describe != nullptr ? words_.describe(at(local).word) : std::string{};
  return "rank " + std::to_string(first_rank_ + local) + " does not return from " + doing_ +
         (action.empty() ? ": it has made no progress for "
                         : ": it has stood at " + action + " for ") +
         detail::to_string(idle) + ", and the time-out is " + detail::to_string(limit_.timeout) +
         "; where its work may take that long, set a larger TrainerOptions::timeout, or 0 for no "
         "limit";
}

}  // namespace tandem

#endif
