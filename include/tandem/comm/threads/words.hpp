// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::ThreadsSlot and detail::ThreadsWords: what a ThreadsGroup knows of each of its ranks,
/// and how its messages say it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/threads/call.hpp>
#include <tandem/comm/threads/options.hpp>
#include <tandem/core/config.hpp>

namespace tandem::detail {

/// One rank's place in a group.
struct alignas(64) ThreadsSlot {
  Call call{};
  bool inside = false;   // between meet() and leave()
  bool waiting = false;  // in the first meeting
  bool used = false;
  Call message{};                    // the last one that it has sent or received,
  std::uint64_t message_number = 0;  // or 0 if it has come to a collective since
  std::atomic<std::uint64_t> progress{0};
};

/// How the messages of a group name it and its ranks. A rank that is one of a larger group's has
/// its number there.
class ThreadsWords {
 public:
  TANDEM_ONCE explicit ThreadsWords(ThreadsOptions const& options);

  /// Of some of the ranks.
  TANDEM_ONCE ThreadsWords(ThreadsWords const& all, RankSet const& set);

  [[nodiscard]] ThreadsOptions const& options() const noexcept { return options_; }

  /// Begins each message.
  [[nodiscard]] std::string const& prefix() const noexcept { return prefix_; }

  [[nodiscard]] int number_of(int rank) const noexcept {
    return options_.first_rank + place_of(rank);
  }
  /// Among the ranks of this process; a root of another process is as it is.
  [[nodiscard]] int place_of(int rank) const noexcept {
    auto const at = static_cast<std::size_t>(rank);
    return at < members_.size() ? members_[at] : rank;
  }
  TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::string name_of(int rank) const;

  /// The call with its root so named.
  TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::string in_words(Call call) const;

  /// " within 50 ms"
  TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::string within() const;

  /// "; it was last in all-reduce #1 (bucket 1), at action 1F3"
  /// @param collectives  of the group so far
  TANDEM_ONCE [[nodiscard]] TANDEM_COLD std::string last_seen(int rank, ThreadsSlot const& slot,
                                                              std::uint64_t collectives,
                                                              std::uint64_t progress) const;

 private:
  ThreadsOptions options_;
  std::string prefix_;
  std::vector<int> members_{};  // numbers among all ranks; empty: the group is of all
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string ThreadsWords::last_seen(int rank, ThreadsSlot const& slot,
                                                std::uint64_t collectives,
                                                std::uint64_t progress) const {
  std::string text = "; it was last in ";
  if (slot.message_number > 0) {
    text += numbered(slot.message, slot.message_number);
  } else if (slot.used) {
    text += numbered(slot.call, collectives);
  } else {
    text += members_.empty() ? "no collective" : "no call of this group";
  }
  if (options_.describe_progress != nullptr) {
    text.append(", ").append(options_.describe_progress(number_of(rank), progress));
  }
  return text;
}

TANDEM_ONCE ThreadsWords::ThreadsWords(ThreadsOptions const& options)
    : options_{options},
      prefix_{options.name != nullptr ? std::string{options.name} + ": " : std::string{}} {}

TANDEM_ONCE ThreadsWords::ThreadsWords(ThreadsWords const& all, RankSet const& set)
    : options_{all.options_},
      prefix_{all.prefix_ + (set.name.empty() ? "" : set.name + ": ")},
      members_{set.ranks} {}

TANDEM_ONCE std::string ThreadsWords::name_of(int rank) const {
  return "rank " + std::to_string(number_of(rank));
}

TANDEM_ONCE std::string ThreadsWords::in_words(Call call) const {
  call.root = number_of(call.root);
  return to_string(call);
}

TANDEM_ONCE std::string ThreadsWords::within() const {
  auto const ms = options_.timeout.count();
  return " within " +
         (ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms");
}

}  // namespace tandem::detail

#endif
