// SPDX-License-Identifier: Apache-2.0

#include <tandem/train/ranks/launch.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tandem/comm/reduction.hpp>
#include <tandem/comm/threads/communicator.hpp>
#include <tandem/core/error.hpp>

#include <few_threads.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace launch_test {

TEST_CASE("every rank runs once, on a thread of its own that stays the same") {
  test::Watchdog const watchdog{"launch"};
  for (int const ranks : {1, 2, 5}) {
    auto const n = static_cast<std::size_t>(ranks);
    RankThreads threads{ranks};
    CHECK(threads.size() == ranks);
    std::vector<std::thread::id> first(n);
    std::vector<std::thread::id> later(n);
    std::vector<int> runs(n);
    threads.run(
        [&](int rank) { first[static_cast<std::size_t>(rank)] = std::this_thread::get_id(); });
    for (int i = 0; i < 500; ++i) {
      threads.run([&](int rank) {
        later[static_cast<std::size_t>(rank)] = std::this_thread::get_id();
        ++runs[static_cast<std::size_t>(rank)];
      });
    }
    CHECK(first == later);
    CHECK(runs == std::vector<int>(n, 500));
    for (std::size_t rank = 0; rank < n; ++rank) {
      CHECK(first[rank] != std::this_thread::get_id());
      CHECK((rank == 0 || first[rank] != first[rank - 1]));
    }
  }
}

TEST_CASE("ranks run at the same time") {
  test::Watchdog const watchdog{"launch at the same time"};
  RankThreads threads{3};
  std::atomic<int> here{0};
  threads.run([&](int) {
    here.fetch_add(1);
    while (here.load() < 3) {
      std::this_thread::yield();
    }
  });
  CHECK(here.load() == 3);
}

TEST_CASE("start() leaves the ranks at work, wait() has what they threw") {
  test::Watchdog const watchdog{"start and wait"};
  RankThreads threads{2};
  std::atomic<bool> go = false;
  std::atomic<int> ended = 0;
  auto const work = [&](int rank) {
    go.wait(false);
    ++ended;
    if (rank == 1) {
      throw std::runtime_error{"late"};
    }
  };
  threads.start(work);
  CHECK(ended == 0);
  go = true;
  go.notify_all();
  CHECK_THROWS_WITH_AS(threads.wait(), "rank 1: late", RankError);
  CHECK(ended == 2);
  threads.run([&](int) { ++ended; });
  CHECK(ended == 4);
}

TEST_CASE("at least one rank") {
  CHECK_THROWS_WITH_AS(RankThreads{0}, doctest::Contains("at least one rank"), ContractError);
}

TEST_CASE("ranks that get no more threads: one sentence") {
  if (test::FewThreads::possible) {
    test::FewThreads const few;
    CHECK_THROWS_WITH_AS(
        RankThreads{4000},
        doctest::Contains("a trainer of 4000 ranks needs a thread for each, and got "), Error);
  }
}

TEST_CASE("a rank's error comes out with its rank and its own type inside") {
  test::Watchdog const watchdog{"launch error"};
  RankThreads threads{3};
  for (int bad = 0; bad < 3; ++bad) {
    bool nested = false;
    try {
      threads.run([&](int rank) {
        if (rank == bad) {
          throw FileError{"data.bin", "is truncated"};
        }
      });
      FAIL("nothing was thrown");
    } catch (RankError const& error) {
      CHECK(error.rank() == bad);
      CHECK(error.what() == "rank " + std::to_string(bad) + ": 'data.bin': is truncated");
      try {
        std::rethrow_if_nested(error);
      } catch (FileError const& file) {
        nested = file.path() == "data.bin";
      }
    }
    CHECK(nested);
    int calls = 0;
    threads.run([&](int rank) {  // still usable, error forgotten
      if (rank == 0) {
        ++calls;
      }
    });
    CHECK(calls == 1);
  }
  CHECK_THROWS_WITH_AS(
      threads.run([](int) { throw std::bad_alloc{}; }),
      doctest::Contains(": out of memory; use a smaller batch, more microbatches or more devices"),
      RankError);
  CHECK_THROWS_WITH_AS(threads.run([](int rank) {
    if (rank == 1) {
      throw 5;
    }
  }),
                       "rank 1: an exception that is no std::exception", RankError);
}

TEST_CASE("an AbortedError never hides what caused it, in whichever order they come") {
  test::Watchdog const watchdog{"launch aborted"};
  RankThreads threads{2};
  for (bool const cause_first : {true, false}) {
    std::atomic<bool> first_threw{false};
    struct Announce {
      std::atomic<bool>& flag;
      ~Announce() { flag.store(true); }
    };
    CHECK_THROWS_WITH_AS(threads.run([&](int rank) {
      if ((rank == 0) == cause_first) {
        Announce const announce{first_threw};
        if (rank == 0) {
          throw std::runtime_error{"the cause"};
        }
        throw AbortedError{"the echo"};
      }
      while (!first_threw.load()) {
        std::this_thread::yield();
      }
      for (int i = 0; i < 1000; ++i) {
        std::this_thread::yield();
      }
      if (rank == 0) {
        throw std::runtime_error{"the cause"};
      }
      throw AbortedError{"the echo"};
    }),
                         "rank 0: the cause", RankError);
  }
  CHECK_THROWS_WITH_AS(threads.run([](int rank) {
    if (rank == 1) {
      throw AbortedError{"only this"};
    }
  }),
                       "rank 1: only this", RankError);
}

TEST_CASE("on_error is called once a run, before the other ranks have ended") {
  test::Watchdog const watchdog{"launch on_error"};
  struct Seen {
    std::atomic<int> calls{0};
    std::atomic<bool> told{false};
    std::string what;
  } seen;
  RankThreads threads{3,
                      {.call =
                           [](void* context, int rank, char const* what) {
                             auto& record = *static_cast<Seen*>(context);
                             record.calls.fetch_add(1);
                             record.what = std::to_string(rank) + " " + what;
                             record.told.store(true);
                           },
                       .context = &seen}};
  for (int round = 1; round <= 20; ++round) {
    seen.told.store(false);
    CHECK_THROWS_WITH_AS(threads.run([&](int rank) {
      if (rank != 1) {
        while (!seen.told.load()) {
          std::this_thread::yield();
        }
        throw AbortedError{"told"};
      }
      throw std::runtime_error{"bad luck"};
    }),
                         "rank 1: bad luck", RankError);
    CHECK(seen.calls.load() == round);
    CHECK(seen.what == "1 bad luck");
  }
}

TEST_CASE("a rank that throws frees the others from their collectives; the next run is whole") {
  test::Watchdog const watchdog{"launch with a group"};
  constexpr int ranks = 4;
  ThreadsGroup group{ranks};
  auto const streams = std::make_unique<host::Queue[]>(ranks);
  std::vector<std::vector<int>> data(ranks);
  RankThreads threads{ranks, abort_on_error(group)};
  for (int round = 0; round < 100; ++round) {
    int const bad = round % ranks;
    std::string message;
    try {
      threads.run([&](int rank) {
        auto const r = static_cast<std::size_t>(rank);
        ThreadsCommunicator end = group.communicator(rank);
        data[r].assign(100, 1);
        for (int step = 0; step < 5; ++step) {
          end.all_reduce(data[r], std::span{data[r]}, Sum{}, streams[r]);
          if (rank == bad && step == round % 5) {
            throw std::runtime_error{"out of luck"};
          }
          streams[r].synchronize();
        }
      });
    } catch (RankError const& error) {
      message = error.what();
    }
    CHECK(message == "rank " + std::to_string(bad) + ": out of luck");
    for (int rank = 0; rank < ranks; ++rank) {
      streams[static_cast<std::size_t>(rank)].discard();
    }
    group.reset();
    threads.run([&](int rank) {
      auto const r = static_cast<std::size_t>(rank);
      data[r].assign(100, rank);
      group.communicator(rank).all_reduce(data[r], std::span{data[r]}, Sum{}, streams[r]);
      streams[r].synchronize();
    });
    CHECK(data == std::vector<std::vector<int>>(ranks, std::vector<int>(100, 6)));
  }
}

}  // namespace launch_test
}  // namespace tandem
