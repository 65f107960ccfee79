// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OneRankTransport: the transport of a strategy of one device, on whatever kind of stream.
///
/// There is nobody to wait for and no group has more than the one rank, so that such a strategy
/// makes no communication call at all.

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/self.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>

namespace tandem {

namespace detail {

/// @throws ContractError  see OneRankTransport
TANDEM_ONCE TANDEM_COLD void check_one_rank(TransportOptions const& options);

}  // namespace detail

/// Models RankTransport, for the one rank 0.
template <class Stream>
class OneRankTransport {
 public:
  using Communicator = BasicSelfCommunicator<Stream>;
  static constexpr bool one_process = true;

  /// @throws ContractError  there are several processes, the time-out is not positive, or a group
  /// has another rank than rank 0
  explicit OneRankTransport(TransportOptions const& options) : sets_{options.groups} {
    detail::check_one_rank(options);
  }

  [[nodiscard]] static int first_rank() noexcept { return 0; }
  [[nodiscard]] static int local_ranks() noexcept { return 1; }
  [[nodiscard]] static int device_of(int /*local*/) noexcept { return 0; }
  [[nodiscard]] static Communicator communicator(int /*rank*/) { return {}; }
  /// @throws ContractError  there is no such group, or the rank is no member of it
  [[nodiscard]] Communicator communicator(int rank, int group) const {
    static_cast<void>(detail::member_of(sets_, rank, group));
    return {};
  }
  [[nodiscard]] static std::atomic<std::uint64_t>* progress(int /*rank*/) { return nullptr; }
  static void abort(int /*rank*/, std::string_view /*reason*/) {}
  static void poll(int /*rank*/, std::chrono::steady_clock::duration /*waited*/ = {}) {}

 private:
  std::vector<RankSet> sets_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void check_one_rank(TransportOptions const& options) {
  check_world(options.world);
  expects(options.world.processes == 1,
          "a strategy of one rank runs in one process, and the program was started as several: "
          "start it once, or take a strategy of more ranks");
  expects(options.timeout.count() > 0, "the timeout must be positive");
  check_groups(options.groups, 1);
}

}  // namespace tandem::detail

#endif
