// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ProgressWords: where the ranks of a process say which action they are at; and what their
/// transport is told of it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/stall.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/train/ranks/group_transport.hpp>
#include <tandem/train/ranks/watch.hpp>

namespace tandem {

/// A word a rank: the transport's, which other ranks read in its messages, or one of its own where
/// the transport has none. Not copyable, not movable: ranks and threads have its address.
class ProgressWords {
 public:
  /// @param transport  outlives this
  TANDEM_ONCE TANDEM_COLD explicit ProgressWords(GroupTransport& transport);

  ProgressWords(ProgressWords const&) = delete;
  ProgressWords& operator=(ProgressWords const&) = delete;

  [[nodiscard]] std::atomic<std::uint64_t>& of(int local) const {
    return *used_[static_cast<std::size_t>(local)];
  }

  /// Of the words, for messages.
  TANDEM_ONCE [[nodiscard]] RankWords reader() const;

 private:
  struct alignas(64) Own {
    std::atomic<std::uint64_t> word{at_no_action};
  };

  std::vector<Own> own_;
  std::vector<std::atomic<std::uint64_t>*> used_;
};

/// What a transport's ranks, and a device, wait with: these know no 0.
[[nodiscard]] inline std::chrono::milliseconds transport_timeout(std::chrono::milliseconds limit) {
  return limit.count() == 0 ? std::chrono::hours{8760} : limit;
}

namespace detail {

/// The options of the transport of ranks that say what action they are at.
/// @param groups  of the ranks
/// @param ranks   of all processes
TANDEM_ONCE TransportOptions transport_options(StallLimit const& limit, World const& world,
                                               std::vector<RankSet> groups, int ranks);

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ProgressWords::ProgressWords(GroupTransport& transport)
    : own_(static_cast<std::size_t>(transport.local_ranks())) {
  for (int local = 0; local < transport.local_ranks(); ++local) {
    auto* const board = transport.progress(transport.first_rank() + local);
    used_.push_back(board != nullptr ? board : &own_[used_.size()].word);
    used_.back()->store(at_no_action, std::memory_order_relaxed);
  }
}

TANDEM_ONCE TransportOptions detail::transport_options(StallLimit const& limit, World const& world,
                                                       std::vector<RankSet> groups, int ranks) {
  return {.timeout = transport_timeout(limit.timeout),
          .describe_progress =
              [](int /*rank*/, std::uint64_t action) {
                std::string const text = in_words(unpack_action(action));
                return text.empty() ? "at no action" : "at " + text;
              },
          .world = world,
          .groups = std::move(groups),
          .on_stall = limit.on_stall,
          .ranks = ranks};
}

TANDEM_ONCE RankWords ProgressWords::reader() const {
  return {.read =
              [](void const* words, int local) {
                return static_cast<ProgressWords const*>(words)->of(local).load(
                    std::memory_order_relaxed);
              },
          .context = this,
          .describe = [](std::uint64_t word) { return in_words(unpack_action(word)); },
          .idle = awaiting_a_step};
}

}  // namespace tandem

#endif
