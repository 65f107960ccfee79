// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankSet: some of the ranks of a program, which a transport makes a group of their own for.
///
/// A list of them is known when the transport is made and is the same, in the same order, on every
/// rank and process: groups between processes are made by all, in rounds of groups that have no
/// rank in common.

#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// Some of the ranks of a program, in the order in which the group numbers them.
struct RankSet {
  std::vector<int> ranks;  ///< among those of the program, each once
  std::string name{};      ///< for error messages: "stage 2", "boundary 1-2, forward"
  bool sends = false;      ///< it sends messages only, which may wait long beside what computes
};

namespace detail {

/// The number that @p set gives to @p rank, or -1.
inline int position_of(RankSet const& set, int rank) noexcept {
  for (std::size_t i = 0; i < set.ranks.size(); ++i) {
    if (set.ranks[i] == rank) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

/// @throws ContractError  a group is empty, or names a rank twice or one that there is not
TANDEM_ONCE TANDEM_COLD void check_groups(std::vector<RankSet> const& groups, int ranks);

/// The groups in rounds, such that no rank is in two groups of a round: each group in the first
/// round that has room for it, whatever their number of ranks. A pipeline's links and the replicas
/// of its stages take five rounds, however many replicas and stages there are.
///
/// @pre check_groups() has passed
TANDEM_ONCE TANDEM_COLD std::vector<std::vector<int>> rounds_of(std::vector<RankSet> const& groups,
                                                                int ranks);

/// The number that @p rank has in @p group.
/// @throws ContractError  there is no such group, or the rank is no member of it
TANDEM_ONCE TANDEM_COLD int member_of(std::vector<RankSet> const& groups, int rank, int group);

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// "group 3 (boundary 1-2, forward)"
TANDEM_ONCE std::string name_of_group(std::vector<RankSet> const& groups, int group) {
  std::string const& name = groups[static_cast<std::size_t>(group)].name;
  return "group " + std::to_string(group) + (name.empty() ? "" : " (" + name + ")");
}

TANDEM_ONCE void check_groups(std::vector<RankSet> const& groups, int ranks) {
  std::vector<int> last(static_cast<std::size_t>(ranks), -1);  // group that has named each rank
  for (int g = 0; g < static_cast<int>(groups.size()); ++g) {
    RankSet const& set = groups[static_cast<std::size_t>(g)];
    if (set.ranks.empty()) {
      throw ContractError{"transport: " + name_of_group(groups, g) +
                          " has no ranks; leave it out, or name some"};
    }
    for (int const rank : set.ranks) {
      if (rank < 0 || rank >= ranks) {
        throw ContractError{"transport: " + name_of_group(groups, g) + " names rank " +
                            std::to_string(rank) + ", but the ranks are 0 to " +
                            std::to_string(ranks - 1)};
      }
      if (std::exchange(last[static_cast<std::size_t>(rank)], g) == g) {
        throw ContractError{"transport: " + name_of_group(groups, g) + " names rank " +
                            std::to_string(rank) + " twice; each rank is in a group once at most"};
      }
    }
  }
}

TANDEM_ONCE std::vector<std::vector<int>> rounds_of(std::vector<RankSet> const& groups, int ranks) {
  std::vector<std::vector<int>> rounds;
  std::vector<std::vector<bool>> busy(static_cast<std::size_t>(ranks));  // of each rank, by round
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto const is_free = [&](std::size_t round) {
      for (int const rank : groups[g].ranks) {
        auto const& own = busy[static_cast<std::size_t>(rank)];
        if (round < own.size() && own[round]) {
          return false;
        }
      }
      return true;
    };
    std::size_t round = 0;
    while (!is_free(round)) {
      ++round;
    }
    for (int const rank : groups[g].ranks) {
      auto& own = busy[static_cast<std::size_t>(rank)];
      own.resize(own.size() > round ? own.size() : round + 1);
      own[round] = true;
    }
    rounds.resize(rounds.size() > round ? rounds.size() : round + 1);
    rounds[round].push_back(static_cast<int>(g));
  }
  return rounds;
}

TANDEM_ONCE int member_of(std::vector<RankSet> const& groups, int rank, int group) {
  if (group < 0 || group >= static_cast<int>(groups.size())) {
    throw ContractError{"communicator: there is no group " + std::to_string(group) +
                        "; the transport was made with " + std::to_string(groups.size()) +
                        ", numbered from 0 up"};
  }
  int const position = position_of(groups[static_cast<std::size_t>(group)], rank);
  if (position < 0) {
    std::string members;
    for (int const member : groups[static_cast<std::size_t>(group)].ranks) {
      members.append(members.empty() ? "" : ", ").append(std::to_string(member));
    }
    throw ContractError{"communicator: rank " + std::to_string(rank) + " is no member of " +
                        name_of_group(groups, group) + ", which has: " + members};
  }
  return position;
}

}  // namespace tandem::detail

#endif
