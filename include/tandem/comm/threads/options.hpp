// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ThreadsOptions: how ranks that are threads of one process wait for each other.

#include <cstdint>
#include <string>

#include <tandem/comm/transport_options.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>

namespace tandem {

/// How a ThreadsGroup waits, and what its messages say.
struct ThreadsOptions {
  /// How long a rank waits for the others before it gives up, for itself and the whole group.
  std::chrono::milliseconds timeout = std::chrono::seconds{600};

  /// Words for what a rank stored in progress(rank), such as "at action 1F3"; null: say nothing.
  std::string (*describe_progress)(int rank, std::uint64_t progress) = nullptr;

  /// Begins the group's messages if not null: with several groups, ranks alone are ambiguous.
  char const* name = nullptr;

  /// Messages of a pair of ranks and a direction that may be sent before the receiver comes.
  int messages_in_flight = 1;

  /// What messages call the group's rank 0: of several processes' ranks one's have numbers from
  /// there on.
  int first_rank = 0;
};

/// The same for a transport whose ranks are all threads of this process.
/// @throws ContractError  there are several processes, or the time-out is not positive
TANDEM_ONCE ThreadsOptions threads_options(TransportOptions const& options);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ThreadsOptions threads_options(TransportOptions const& options) {
  check_world(options.world);
  expects(options.world.processes == 1,
          "this transport's ranks are threads of one process, and the program was started as "
          "several: start it once, or use a transport between processes");
  expects(options.timeout.count() > 0, "the timeout must be positive");
  return {.timeout = options.timeout,
          .describe_progress = options.describe_progress,
          .name = options.name};
}

}  // namespace tandem

#endif
