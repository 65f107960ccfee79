// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Transports: the communicators of the ranks of one process, chosen by type.
///
/// What a transport is says RankTransport, comm/transport.hpp.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/one_rank_transport.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/recording.hpp>
#include <tandem/comm/threads/communicator.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>

namespace tandem {

namespace detail {

/// A ThreadsTransport but for its type.
class ThreadsRanks {
 public:
  using Communicator = ThreadsCommunicator;
  static constexpr bool one_process = true;

  TANDEM_ONCE TANDEM_COLD ThreadsRanks(int ranks, TransportOptions const& options);
  TANDEM_COLD ~ThreadsRanks() = default;
  ThreadsRanks(ThreadsRanks const&) = delete;
  ThreadsRanks& operator=(ThreadsRanks const&) = delete;

  /// The ranks that live in this process are [first_rank(), first_rank() + local_ranks()).
  [[nodiscard]] static int first_rank() noexcept { return 0; }
  [[nodiscard]] int local_ranks() const noexcept { return group_.size(); }

  /// Which of the devices that this process sees belongs to its rank first_rank() + @p local.
  [[nodiscard]] static int device_of(int local) noexcept { return local; }

  /// The end of @p rank in the group of all ranks.
  [[nodiscard]] Communicator communicator(int rank) { return group_.communicator(rank); }

  /// The end of @p rank in options.groups[@p group], which numbers its members anew.
  /// @throws ContractError  there is no such group, or the rank is no member of it
  TANDEM_ONCE [[nodiscard]] Communicator communicator(int rank, int group);

  /// Where @p rank notes what it is doing, for time-out messages; null where nobody would read it.
  [[nodiscard]] std::atomic<std::uint64_t>* progress(int rank) { return &group_.progress(rank); }

  /// Makes every rank that waits for others, in any group, throw AbortedError, now or later.
  void abort(int rank, std::string_view reason) { group_.abort(rank, reason); }

  /// What whoever waits for @p rank's device calls again and again: throws if the wait is in vain.
  /// Once more when the device has come: after an abort it may go on, with wrong numbers.
  /// @param waited  for how long already
  void poll(int /*rank*/, std::chrono::steady_clock::duration /*waited*/ = {}) { group_.poll(); }

 private:
  ThreadsGroup group_;  // of all
  std::vector<RankSet> sets_;
  std::vector<std::unique_ptr<ThreadsGroup>> groups_;
};

}  // namespace detail

/// Ranks are threads of this process, on the host; at most 256.
template <int Ranks>
class ThreadsTransport : public detail::ThreadsRanks {
  static_assert(detail::OneProcessHolds<Ranks>::value);

 public:
  /// @throws ContractError  the time-out is not positive, or there are several processes
  /// @throws ContractError  a group names a rank twice, or one that there is not
  explicit ThreadsTransport(TransportOptions const& options)
      : ThreadsRanks{ranks_of<Ranks>(options), options} {}
};

/// A strategy of one device starts no group.
template <>
class ThreadsTransport<1> : public OneRankTransport<host::Queue> {
 public:
  using OneRankTransport::OneRankTransport;
};

/// Another transport whose communicators log every call: how tests and planners count bytes.
template <int Ranks>
class RecordingTransport : public ThreadsTransport<Ranks> {
  using Base = ThreadsTransport<Ranks>;

 public:
  using Communicator = Recording<typename Base::Communicator>;
  using Base::Base;

  [[nodiscard]] Communicator communicator(int rank) {
    return Communicator{Base::communicator(rank)};
  }
  [[nodiscard]] Communicator communicator(int rank, int group) {
    return Communicator{Base::communicator(rank, group)};
  }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE ThreadsRanks::ThreadsRanks(int ranks, TransportOptions const& options)
    : group_{ranks, threads_options(options)}, sets_{options.groups} {
  check_groups(sets_, group_.size());
  for (RankSet const& set : sets_) {
    groups_.push_back(std::make_unique<ThreadsGroup>(group_, set));
  }
}

TANDEM_ONCE ThreadsCommunicator ThreadsRanks::communicator(int rank, int group) {
  int const position = member_of(sets_, rank, group);
  return groups_[static_cast<std::size_t>(group)]->communicator(position);
}

}  // namespace tandem::detail

#endif
