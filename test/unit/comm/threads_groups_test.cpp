// SPDX-License-Identifier: Apache-2.0
// ThreadsTransport with groups of some of its ranks: they work at once, keep apart, fail together.

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tandem/comm/threads/transport.hpp>
#include <tandem/core/error.hpp>

#include "ranks.hpp"
#include "watchdog.hpp"

namespace tandem {
namespace threads_groups_test {

using std::chrono::milliseconds;
using test::message_of;

/// f(rank) on a thread for each rank.
template <class F>
test::Errors on_threads(int ranks, F const& f) {
  test::Errors errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        f(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors;
}

/// Two stages of two replicas each, and links between the first ranks of both: two forward over
/// the same pair, one backward.
enum Group : int { stage_0, stage_1, forward, forward_too, backward };
TransportOptions two_stages(milliseconds timeout = std::chrono::seconds{600}) {
  return {.timeout = timeout,
          .describe_progress =
              [](int rank, std::uint64_t progress) {
                return "rank " + std::to_string(rank) + " at action " + std::to_string(progress);
              },
          .groups = {{{0, 2}, "stage 0"},
                     {{3, 1}, "stage 1"},
                     {{0, 1}, "boundary 0-1, forward"},
                     {{0, 1}, "boundary 0-1, forward too"},
                     {{1, 0}, "boundary 1-0, backward"}}};
}

TEST_CASE("two groups work at once, beside the group of all") {
  test::Watchdog const watchdog{"two groups"};
  ThreadsTransport<4> transport{two_stages()};
  auto const errors = on_threads(4, [&](int rank) {
    host::Queue all_stream;
    host::Queue stage_stream;
    auto all = transport.communicator(rank);
    auto stage = transport.communicator(rank, rank % 2 == 0 ? stage_0 : stage_1);
    CHECK(stage.size() == 2);
    std::vector<int> world(1000);
    std::vector<int> own(100);
    std::vector<int> both(2);
    int wrong = 0;
    for (int i = 0; i < 300; ++i) {
      world.assign(1000, 1 << rank);
      own.assign(100, 1 << rank);
      all.all_reduce(world, std::span{world}, Sum{}, all_stream);
      stage.all_reduce(own, std::span{own}, Sum{}, stage_stream);
      int const mine = rank;
      stage.all_gather({&mine, 1}, std::span{both}, stage_stream);
      stage_stream.synchronize();
      all_stream.synchronize();
      wrong += world == std::vector<int>(1000, 15) ? 0 : 1;
      wrong += own == std::vector<int>(100, rank % 2 == 0 ? 5 : 10) ? 0 : 1;
      wrong += both == (rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{3, 1}) ? 0 : 1;
    }
    CHECK(wrong == 0);
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("links keep their messages apart and in order while all-reduces go on") {
  test::Watchdog const watchdog{"links"};
  ThreadsTransport<4> transport{two_stages()};
  constexpr std::size_t messages = 100;
  auto const errors = on_threads(4, [&](int rank) {
    std::vector<int> data(1000, 1);
    std::vector<int> out(3 * messages);
    std::vector<int> in(3 * messages, -1);
    host::Queue all_stream;
    host::Queue streams[3];
    auto all = transport.communicator(rank);
    for (std::size_t i = 0; i < messages; ++i) {
      all.all_reduce(data, std::span{data}, Max{}, all_stream);
      for (std::size_t link = 0; rank < 2 && link < 3; ++link) {
        auto end = transport.communicator(rank, static_cast<int>(forward + link));
        std::size_t const place = link * messages + i;
        out[place] = static_cast<int>(10 * place) + rank;
        bool const sends = rank == (link == 2 ? 1 : 0);
        CHECK(end.rank() == (sends ? 0 : 1));
        if (sends) {
          end.send(std::span{&out[place], 1}, 1, streams[link]);
        } else {
          end.receive(std::span{&in[place], 1}, 0, streams[link]);
        }
      }
    }
    for (host::Queue& stream : streams) {
      stream.synchronize();
    }
    all_stream.synchronize();
    int wrong = 0;
    for (std::size_t place = 0; place < 3 * messages; ++place) {
      bool const receives = rank == (place < 2 * messages ? 1 : 0);
      int const expected = receives ? static_cast<int>(10 * place) + (1 - rank) : -1;
      wrong += rank >= 2 || in[place] == expected ? 0 : 1;
    }
    CHECK(wrong == 0);
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("two links over one pair: one may be ahead of the other") {
  test::Watchdog const watchdog{"one link ahead"};
  ThreadsTransport<4> transport{two_stages()};
  auto const errors = on_threads(2, [&](int rank) {
    host::Queue stream;
    auto first = transport.communicator(rank, forward);
    auto second = transport.communicator(rank, forward_too);
    int one = rank == 0 ? 1 : 0;
    int two = rank == 0 ? 2 : 0;
    if (rank == 0) {
      first.send(std::span{&one, 1}, 1, stream);
      second.send(std::span{&two, 1}, 1, stream);
    } else {
      second.receive(std::span{&two, 1}, 0, stream);
      first.receive(std::span{&one, 1}, 0, stream);
    }
    stream.synchronize();
    CHECK(one == 1);
    CHECK(two == 2);
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("abort() wakes those who wait in any group, and nobody waits afterwards") {
  test::Watchdog const watchdog{"abort of all groups"};
  for (int repetition = 0; repetition < 100; ++repetition) {
    ThreadsTransport<4> transport{two_stages()};
    auto const errors = on_threads(4, [&](int rank) {
      host::Queue stream;
      int word = rank;
      std::span const data{&word, 1};
      if (rank == 0) {
        transport.communicator(0, stage_0).barrier(stream);
      } else if (rank == 1) {
        transport.communicator(1, forward).receive(data, 0, stream);
      } else if (rank == 2) {
        transport.communicator(2).barrier(stream);
      } else {
        for (int i = 0; i < repetition; ++i) {
          std::this_thread::yield();
        }
        transport.abort(3, "the disk is full");
        transport.communicator(3, stage_1).barrier(stream);
      }
      stream.synchronize();
    });
    for (auto const& error : errors) {
      CHECK(message_of<AbortedError>(error) == "rank 3 failed: the disk is full");
    }
    CHECK_THROWS_AS(transport.poll(0), AbortedError);
  }
}

TEST_CASE("a time-out in one group ends the waiting in all, also when two come at once") {
  test::Watchdog const watchdog{"time-out of all groups"};
  for (int repetition = 0; repetition < 5; ++repetition) {
    ThreadsTransport<4> transport{two_stages(milliseconds{20})};
    *transport.progress(1) = 7;
    auto const errors = on_threads(4, [&](int rank) {
      host::Queue stream;
      int word = rank;
      std::span const data{&word, 1};
      if (rank == 0) {
        transport.communicator(0, backward).receive(data, 0, stream, {"1RECV_B", 3});
      } else if (rank == 2) {
        transport.communicator(2, stage_0).all_reduce(data, data, Sum{}, stream, {"bucket", 4});
      } else if (rank == 3) {
        transport.communicator(3, stage_1).barrier(stream);
      }
      stream.synchronize();
    });
    std::string const boundary =
        "boundary 1-0, backward: rank 1 did not send message #1, which rank 0 waits to receive "
        "(1RECV_B 3) within 20 ms; it was last in no call of this group, rank 1 at action 7";
    std::string const texts[] = {
        boundary,
        boundary + "; rank 0 waits for it, rank 2 for rank 0",  // of rank 2, where 0 waits by then
        "stage 0: rank 0 did not reach all-reduce #1 (bucket 4) within 20 ms; it was last in no "
        "call of this group, rank 0 at action 0",
        "stage 1: rank 1 did not reach barrier #1 within 20 ms; it was last in no call of this "
        "group, rank 1 at action 7"};
    CHECK(errors[1] == nullptr);
    std::size_t same = 0;
    for (std::size_t const rank : {0U, 2U, 3U}) {
      for (std::string const& text : texts) {
        same += message_of<Error>(errors[rank]) == text ? 1U : 0U;
      }
      CHECK(message_of<Error>(errors[rank]) == message_of<Error>(errors[0]));
    }
    CHECK(same == 3);
  }
}

TEST_CASE("whoever waits without a limit of its own is woken by another group's time-out") {
  test::Watchdog const watchdog{"time-out of another group"};
  ThreadsTransport<4> transport{two_stages(milliseconds{1000})};
  auto const begin = std::chrono::steady_clock::now();
  auto const errors = on_threads(3, [&](int rank) {
    host::Queue stream;
    int word = rank;
    if (rank == 0) {
      transport.communicator(0, stage_0).barrier(stream);  // which rank 2 does not reach
    } else if (rank == 1) {
      std::this_thread::sleep_for(milliseconds{500});
      transport.communicator(1, forward).receive(std::span{&word, 1}, 0, stream);
    }
    stream.synchronize();
  });
  auto const waited = std::chrono::steady_clock::now() - begin;
  CHECK(message_of<TimeoutError>(errors[0]).find("stage 0: rank 2 did not reach barrier #1") == 0);
  CHECK(message_of<TimeoutError>(errors[1]) == message_of<TimeoutError>(errors[0]));
  CHECK(waited < milliseconds{1450});  // 1500, had it waited for itself
}

TEST_CASE("messages of a group name the ranks as the program does, and what they last did") {
  test::Watchdog const watchdog{"names"};
  TransportOptions options = two_stages(milliseconds{50});
  options.name = "trainer";
  ThreadsTransport<4> transport{options};
  *transport.progress(3) = 5;
  auto const errors = on_threads(4, [&](int rank) {
    host::Queue stream;
    int word = rank;
    std::span const data{&word, 1};
    if (rank == 1 || rank == 3) {
      auto stage = transport.communicator(rank, stage_1);
      stage.broadcast(data, rank == 1 ? 1 : 0, stream);
      CHECK_THROWS_WITH_AS(
          stream.synchronize(),
          "trainer: stage 1: ranks 3 and 1 disagree on collective #1: broadcast of 1 elements from "
          "rank 3, but broadcast of 1 elements from rank 1; all ranks must make the same calls in "
          "the same order",
          ContractError);
      if (rank == 1) {
        stage.send(data, 0, stream, {"halo", 0});
        stage.send(data, 0, stream, {"halo", 1});
        stage.send(data, 0, stream, {"halo", 2});
      } else {
        stage.receive(data, 1, stream, {"halo", 0});
      }
      stream.synchronize();
    }
  });
  CHECK(errors[3] == nullptr);
  CHECK(message_of<TimeoutError>(errors[1]) ==
        "trainer: stage 1: rank 3 did not receive message #2 (halo 1) from rank 1, which waits to "
        "send the next one (halo 2) within 50 ms; it was last in receive #1 (halo 0), rank 3 at "
        "action 5");
}

TEST_CASE("a group that shares its failure is not reset alone") {
  ThreadsGroup all{3};
  {
    ThreadsGroup some{all, {{2, 1}, "stage 0"}};
    CHECK(&some.progress(0) == &all.progress(2));
    some.abort(0, "enough");
    CHECK_THROWS_WITH_AS(all.poll(), "stage 0: rank 2 failed: enough", AbortedError);
    CHECK_THROWS_WITH_AS(all.reset(), doctest::Contains("other groups have failed with this one"),
                         ContractError);
  }
  all.reset();
  all.poll();
  CHECK_THROWS_AS((ThreadsGroup{all, {{2, 2}, "twice"}}), ContractError);
}

}  // namespace threads_groups_test
}  // namespace tandem
