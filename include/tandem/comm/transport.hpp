// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Transports: the communicators of the ranks of one process, chosen by type.
///
/// One rank has a SelfCommunicator and no group, so that a strategy of one device makes no
/// communication call at all. All transports have the members of ThreadsTransport; `rank` is always
/// the rank among those of all processes.

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/comm/recording.hpp>
#include <tandem/comm/self.hpp>
#include <tandem/comm/threads.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/contract.hpp>

namespace tandem {

/// Ranks are threads of this process, on the host.
template <int Ranks>
class ThreadsTransport {
 public:
  using Communicator = ThreadsCommunicator;

  /// Whether a communicator's calls may be captured into a graph.
  static constexpr bool capturable = false;

  /// @throws ContractError  the time-out is not positive, or there are several processes
  explicit ThreadsTransport(TransportOptions const& options)
      : group_{Ranks, threads_options(options)} {}

  /// The ranks that live in this process are [first_rank(), first_rank() + local_ranks()).
  [[nodiscard]] static int first_rank() noexcept { return 0; }
  [[nodiscard]] static int local_ranks() noexcept { return Ranks; }

  /// Which of the devices that this process sees belongs to its rank first_rank() + @p local.
  [[nodiscard]] static int device_of(int local) noexcept { return local; }

  [[nodiscard]] Communicator communicator(int rank) { return group_.communicator(rank); }

  /// Where @p rank notes what it is doing, for time-out messages; null where nobody would read it.
  [[nodiscard]] std::atomic<std::uint64_t>* progress(int rank) { return &group_.progress(rank); }

  /// Makes every rank that waits for others throw AbortedError, now or later.
  void abort(int rank, std::string_view reason) { group_.abort(rank, reason); }

  /// What whoever waits for @p rank's device calls again and again: throws if the wait is in vain.
  /// Once more when the device has come: after an abort it may go on, with wrong numbers.
  /// @param waited  for how long already
  void poll(int /*rank*/, std::chrono::steady_clock::duration /*waited*/ = {}) { group_.poll(); }

 private:
  ThreadsGroup group_;
};

/// A strategy of one device: nobody to wait for.
template <>
class ThreadsTransport<1> {
 public:
  using Communicator = SelfCommunicator;
  static constexpr bool capturable = false;

  explicit ThreadsTransport(TransportOptions const& options) {
    static_cast<void>(threads_options(options));
  }

  [[nodiscard]] static int first_rank() noexcept { return 0; }
  [[nodiscard]] static int local_ranks() noexcept { return 1; }
  [[nodiscard]] static int device_of(int local) noexcept { return local; }
  [[nodiscard]] static Communicator communicator(int /*rank*/) { return {}; }
  [[nodiscard]] static std::atomic<std::uint64_t>* progress(int /*rank*/) { return nullptr; }
  static void abort(int /*rank*/, std::string_view /*reason*/) {}
  static void poll(int /*rank*/, std::chrono::steady_clock::duration /*waited*/ = {}) {}
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
};

}  // namespace tandem
