// SPDX-License-Identifier: Apache-2.0
#include <tandem/comm/rank_set.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <tandem/comm/threads/transport.hpp>
#include <tandem/core/error.hpp>

namespace tandem {
namespace rank_set_test {

// Member by member: GCC 12 takes a designated initializer's clean-up for a use of what was not
// made.
TransportOptions with_groups(std::vector<RankSet> groups) {
  TransportOptions options;
  options.groups = std::move(groups);
  return options;
}

std::vector<RankSet> const sets{{{2, 0}, "stage 0"}, {{1}, {}}, {{0, 1}, "boundary 0-1, forward"}};

TEST_CASE("groups of ranks: a group numbers its members in the order of its list") {
  detail::check_groups(sets, 3);
  CHECK(detail::member_of(sets, 2, 0) == 0);
  CHECK(detail::member_of(sets, 0, 0) == 1);
  CHECK(detail::member_of(sets, 1, 1) == 0);
  CHECK(detail::member_of(sets, 1, 2) == 1);
}

TEST_CASE("groups of ranks: what is wrong with a list is a sentence") {
  CHECK_THROWS_WITH_AS(detail::check_groups(sets, 2),
                       "transport: group 0 (stage 0) names rank 2, but the ranks are 0 to 1",
                       ContractError);
  CHECK_THROWS_WITH_AS(detail::check_groups({{{0}, {}}, {{-1}, {}}}, 2),
                       "transport: group 1 names rank -1, but the ranks are 0 to 1", ContractError);
  CHECK_THROWS_WITH_AS(
      detail::check_groups({{{1, 0, 1}, "odd"}}, 2),
      "transport: group 0 (odd) names rank 1 twice; each rank is in a group once at most",
      ContractError);
  CHECK_THROWS_WITH_AS(detail::check_groups({{{}, "none"}}, 2),
                       "transport: group 0 (none) has no ranks; leave it out, or name some",
                       ContractError);
}

TEST_CASE("groups of ranks: whoever is no member is told who is") {
  CHECK_THROWS_WITH_AS(static_cast<void>(detail::member_of(sets, 1, 0)),
                       "communicator: rank 1 is no member of group 0 (stage 0), which has: 2, 0",
                       ContractError);
  for (int const group : {-1, 3}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(detail::member_of(sets, 1, group)),
                         doctest::Contains("the transport was made with 3, numbered from 0 up"),
                         ContractError);
  }
}

TEST_CASE_TEMPLATE("groups of ranks: a transport of threads has an end for each member", Transport,
                   ThreadsTransport<3>, RecordingTransport<3>) {
  Transport transport{with_groups(sets)};
  CHECK(transport.communicator(2).size() == 3);
  CHECK(transport.communicator(2, 0).size() == 2);
  CHECK(transport.communicator(2, 0).rank() == 0);
  CHECK(transport.communicator(0, 0).rank() == 1);
  CHECK(transport.communicator(1, 1).size() == 1);
  CHECK(transport.communicator(1, 2).rank() == 1);
  CHECK_THROWS_WITH_AS(static_cast<void>(transport.communicator(0, 1)),
                       doctest::Contains("rank 0 is no member of group 1, which has: 1"),
                       ContractError);
  CHECK_THROWS_AS(static_cast<void>(transport.communicator(0, 3)), ContractError);
  CHECK_THROWS_WITH_AS((Transport{with_groups({{{3}, {}}})}),
                       doctest::Contains("the ranks are 0 to 2"), ContractError);
}

TEST_CASE_TEMPLATE("groups of ranks: of one rank, each group is that rank alone", Transport,
                   ThreadsTransport<1>, RecordingTransport<1>) {
  Transport transport{with_groups({{{0}, "stage 0"}})};
  CHECK(transport.communicator(0, 0).size() == 1);
  CHECK_THROWS_WITH_AS(static_cast<void>(transport.communicator(1, 0)),
                       doctest::Contains("rank 1 is no member of group 0 (stage 0)"),
                       ContractError);
  CHECK_THROWS_AS(static_cast<void>(transport.communicator(0, 1)), ContractError);
  CHECK_THROWS_WITH_AS((Transport{with_groups({{{0, 1}, "boundary"}})}),
                       doctest::Contains("names rank 1, but the ranks are 0 to 0"), ContractError);
}

TEST_CASE("groups of ranks: made in rounds in which no rank is in two") {
  CHECK(detail::rounds_of({}, 4).empty());
  constexpr int stages = 8;
  for (int const replicas : {1, 3, 128}) {
    std::vector<RankSet> groups;
    for (int replica = 0; replica < replicas; ++replica) {
      for (int rank = replica * stages; rank + 1 < (replica + 1) * stages; ++rank) {
        groups.push_back({{rank, rank + 1}, "forward"});
        groups.push_back({{rank + 1, rank}, "backward"});
      }
    }
    for (int stage = 0; stage < stages; ++stage) {
      groups.push_back({{}, "replicas"});
      for (int replica = 0; replica < replicas; ++replica) {
        groups.back().ranks.push_back(replica * stages + stage);
      }
    }
    auto const rounds = detail::rounds_of(groups, stages * replicas);
    CHECK(rounds.size() == 5);
    std::vector<int> made(groups.size());
    for (std::vector<int> const& round : rounds) {
      std::vector<int> seen(static_cast<std::size_t>(stages * replicas));
      for (int const group : round) {
        ++made[static_cast<std::size_t>(group)];
        for (int const rank : groups[static_cast<std::size_t>(group)].ranks) {
          ++seen[static_cast<std::size_t>(rank)];
        }
      }
      CHECK(*std::max_element(seen.begin(), seen.end()) == 1);
    }
    CHECK(made == std::vector<int>(groups.size(), 1));
  }
}

TEST_CASE("each end of a group that is recorded has a log of its own") {
  RecordingTransport<1> transport{with_groups({{{0}, "stage 0"}})};
  auto all = transport.communicator(0);
  auto stage = transport.communicator(0, 0);
  host::Queue stream;
  stage.barrier(stream);
  CHECK(stage.log().size() == 1);
  CHECK(all.log().empty());
}

}  // namespace rank_set_test
}  // namespace tandem
