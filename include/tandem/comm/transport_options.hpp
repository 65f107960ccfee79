// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TransportOptions: what every transport is made with.

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/core/stall.hpp>

namespace tandem {

/// How a transport's ranks wait for each other, what its messages say, and where its ranks live.
struct TransportOptions {
  /// How long a rank waits for the others before it gives up, for itself and the whole group.
  std::chrono::milliseconds timeout = std::chrono::seconds{600};

  /// Words for what a rank stored in progress(rank), such as "at action 1F3"; null: say nothing.
  std::string (*describe_progress)(int rank, std::uint64_t progress) = nullptr;

  /// Begins the group's messages if not null: with several groups, ranks alone are ambiguous.
  char const* name = nullptr;

  /// The processes that the ranks are dealt to. Only transports between processes take several.
  World world{};

  /// Groups of some of the ranks, beside that of all; agrees on all processes. What one rank fails
  /// in or waits for too long ends the waiting of all, in whichever group.
  std::vector<RankSet> groups{};

  /// What to do where ranks do not return 3 s after another process has failed; the default ends
  /// the process. Of transports between processes.
  OnStall on_stall{};

  /// Of all processes, for a Transport<by_world>, whose type does not say it.
  int ranks = 0;
};

/// The ranks of a Transport<Ranks>.
/// @throws ContractError  neither the type nor @p options say how many there are
template <int Ranks>
int ranks_of(TransportOptions const& options) {
  if constexpr (Ranks == by_world) {
    expects(options.ranks >= 1, "Transport<by_world>: give TransportOptions::ranks, 1 or more");
    return options.ranks;
  } else {
    return Ranks;
  }
}

}  // namespace tandem
