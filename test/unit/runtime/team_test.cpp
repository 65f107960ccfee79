// SPDX-License-Identifier: Apache-2.0
#include <tandem/runtime/host/team.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>

#include <few_threads.hpp>

namespace team_test {

using tandem::host::OpenMp;
using tandem::host::openmp;
using tandem::host::Team;

static_assert(!std::is_copy_constructible_v<Team> && !std::is_copy_assignable_v<Team>);
static_assert(!std::is_move_constructible_v<Team> && !std::is_move_assignable_v<Team>);
static_assert(!std::is_convertible_v<int, Team>);

/// f(what the program has, which may be OpenMP), then f(threads of the Team's own).
template <class F>
void on_both(F const& f) {
  SUBCASE("the program's threads") { f(openmp); }
  SUBCASE("the team's own threads") { f(OpenMp{}); }
}

/// The thread that did each of size() indices.
std::vector<std::thread::id> members_of(Team& team) {
  std::vector<std::thread::id> ids(static_cast<std::size_t>(team.size()));
  team.parallel_for(team.size(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ids[static_cast<std::size_t>(i)] = std::this_thread::get_id();
    }
  });
  return ids;
}

TEST_CASE("parallel_for visits each index of [0, n) once") {
  on_both([](OpenMp const& threads_of) {
    for (int const threads : {1, 2, 3, 7}) {
      Team team{threads, threads_of};
      CHECK(team.size() == threads);
      for (std::int64_t const n : {0, 1, 2, 3, 6, 7, 8, 1000}) {
        std::vector<int> visits(static_cast<std::size_t>(n));
        std::atomic<int> parts{0};
        team.parallel_for(n, [&](std::int64_t begin, std::int64_t end) {
          parts.fetch_add(1);
          for (std::int64_t i = begin; i < end; ++i) {
            ++visits[static_cast<std::size_t>(i)];
          }
        });
        CHECK(visits == std::vector<int>(static_cast<std::size_t>(n), 1));
        CHECK(parts.load() <= threads);
      }
    }
  });
}

TEST_CASE("the ranges depend on n and the size only") {
  on_both([](OpenMp const& threads_of) {
    Team team{3, threads_of};
    for (int round = 0; round < 100; ++round) {
      std::vector<std::int64_t> begin_of(8);
      team.parallel_for(8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          begin_of[static_cast<std::size_t>(i)] = begin;
        }
      });
      CHECK(begin_of == std::vector<std::int64_t>{0, 0, 2, 2, 2, 5, 5, 5});
    }
  });
}

TEST_CASE("a loop over size() indices gives one to each member, the first to the caller") {
  on_both([](OpenMp const& threads_of) {
    for (int const threads : {1, 2, 5}) {
      Team team{threads, threads_of};
      std::vector<std::thread::id> const ids = members_of(team);
      CHECK(ids[0] == std::this_thread::get_id());
      for (std::size_t i = 0; i < ids.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          CHECK(ids[i] != ids[j]);
        }
      }
    }
  });
}

TEST_CASE("the members are the same threads in each loop") {
  on_both([](OpenMp const& threads_of) {
    Team team{4, threads_of};
    auto const first = members_of(team);
    for (int round = 0; round < 100; ++round) {
      CHECK(members_of(team) == first);
    }
  });
}

TEST_CASE("a team of one, and a loop of one index, run on the caller's thread") {
  on_both([](OpenMp const& threads_of) {
    Team one{1, threads_of};
    Team three{3, threads_of};
    auto const caller = std::this_thread::get_id();
    std::vector<std::thread::id> ids;
    auto const body = [&](std::int64_t, std::int64_t) {
      ids.push_back(std::this_thread::get_id());
    };
    one.parallel_for(100, body);
    three.parallel_for(1, body);
    CHECK(ids == std::vector<std::thread::id>{caller, caller});
  });
}

TEST_CASE("many loops: each sees what the one before wrote") {
  on_both([](OpenMp const& threads_of) {
    Team team{3, threads_of};
    std::vector<std::int64_t> x(301);
    std::int64_t const n = 301;
    for (int round = 0; round < 2000; ++round) {
      // Reversed, so that an element is written by another member than it was read by.
      std::vector<std::int64_t> const before = x;
      team.parallel_for(n, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          x[static_cast<std::size_t>(i)] = before[static_cast<std::size_t>(n - 1 - i)] + 1;
        }
      });
    }
    CHECK(x == std::vector<std::int64_t>(301, 2000));
  });
}

TEST_CASE("teams start and stop, also without a loop, and work side by side") {
  on_both([](OpenMp const& threads_of) {
    for (int i = 0; i < 50; ++i) {
      Team const idle{4, threads_of};
      CHECK(idle.size() == 4);
    }
    std::vector<std::thread> threads;
    std::atomic<std::int64_t> total{0};
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        Team team{2, threads_of};
        for (int round = 0; round < 200; ++round) {
          team.parallel_for(10,
                            [&](std::int64_t begin, std::int64_t end) { total += end - begin; });
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK(total.load() == 3 * 200 * 10);
  });
}

TEST_CASE("a team with OpenMP keeps no threads, says its size, and forks one part a member") {
  static int told;
  static std::vector<int> forks;
  told = 0;
  forks.clear();
  OpenMp const recorded{.fork =
                            [](int parts, OpenMp::Part part, void const* context) {
                              forks.push_back(parts);
                              for (int i = parts; i-- > 0;) {
                                part(context, i);
                              }
                            },
                        .set_threads = [](int threads) { told = threads; }};
  Team team{3, recorded};
  CHECK(told == 3);
  CHECK(forks == std::vector<int>{3});  // the threads are there from the beginning
  forks.clear();
  CHECK(members_of(team) == std::vector<std::thread::id>(3, std::this_thread::get_id()));
  std::vector<std::int64_t> begins;
  team.parallel_for(2, [&](std::int64_t begin, std::int64_t) { begins.push_back(begin); });
  CHECK(begins == std::vector<std::int64_t>{1, 0});
  CHECK(forks == std::vector<int>{3, 3});  // always the whole team: OpenMP would end the others
  team.parallel_for(1, [](std::int64_t, std::int64_t) {});
  team.parallel_for(0, [](std::int64_t, std::int64_t) {});
  CHECK(forks.size() == 2);
  Team const one{1, recorded};
  CHECK(told == 1);
  CHECK(forks.size() == 2);
}

TEST_CASE("a team needs a thread") {
  CHECK_THROWS_WITH_AS(Team{0}, doctest::Contains("at least one thread"), tandem::ContractError);
}

TEST_CASE("a team that gets no more threads says so, and leaves none behind") {
  if (!tandem::test::FewThreads::possible) {
    return;
  }
  {
    tandem::test::FewThreads const few;
    CHECK_THROWS_WITH_AS((Team{4000, OpenMp{}}),
                         doctest::Contains("the system starts no more threads"), tandem::Error);
    CHECK_THROWS_WITH_AS((Team{4000, OpenMp{}}),
                         doctest::Contains("a device's team of 4000 threads has got "),
                         tandem::Error);
    static bool forked = false;  // OpenMP would have ended the program
    OpenMp const fatal{.fork = [](int, OpenMp::Part, void const*) { forked = true; }};
    CHECK_THROWS_WITH_AS((Team{4000, fatal}),
                         doctest::Contains("a device's team of 4000 threads has got "),
                         tandem::Error);
    CHECK_FALSE(forked);
  }
  CHECK(members_of(*std::make_unique<Team>(3, OpenMp{})).size() == 3);
}

}  // namespace team_test
