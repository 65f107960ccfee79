// SPDX-License-Identifier: Apache-2.0
// ThreadsCommunicator when a rank fails, does not come, or comes with something else.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tandem/comm/reduction.hpp>
#include <tandem/comm/threads/communicator.hpp>
#include <tandem/core/error.hpp>

#include "ranks.hpp"
#include "watchdog.hpp"

namespace tandem {
namespace threads_failure_test {

using std::chrono::milliseconds;
using test::message_of;

bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("abort reaches ranks that wait and ranks that come later") {
  test::Watchdog const watchdog{"abort"};
  for (int repetition = 0; repetition < 200; ++repetition) {
    ThreadsGroup group{4, {.name = "group 'data'"}};
    auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
      std::vector<float> data(100, 1.0F);
      end.all_reduce(data, std::span{data}, Sum{}, stream);
      stream.synchronize();
      if (end.rank() == 2) {
        for (int i = 0; i < repetition % 5; ++i) {
          std::this_thread::yield();
        }
        group.abort(2, "the file is gone");
        group.abort(3, "too late to matter");
        return;
      }
      for (int i = 0; i < 3; ++i) {
        end.all_reduce(data, std::span{data}, Sum{}, stream);
      }
      stream.synchronize();
    });
    CHECK(errors[2] == nullptr);
    for (std::size_t const rank : {0U, 1U, 3U}) {
      CHECK(message_of<AbortedError>(errors[rank]) ==
            "group 'data': rank 2 failed: the file is gone");
    }
  }
}

TEST_CASE("abort in the middle of large collectives: each one happens on all ranks or on none") {
  test::Watchdog const watchdog{"abort in the middle"};
  for (int repetition = 0; repetition < 50; ++repetition) {
    ThreadsGroup group{2};
    std::vector<int> passed(2);
    std::vector<std::vector<float>> data(2, std::vector<float>(50000, 1.0F));
    auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
      auto const rank = static_cast<std::size_t>(end.rank());
      for (int i = 0; i < 100; ++i) {
        if (rank == 1 && i == 1 + repetition / 10) {
          group.abort(1, "enough");
        }
        end.all_reduce(data[rank], std::span{data[rank]}, Max{}, stream);
        if (i % 3 == 0) {
          stream.synchronize();
          passed[rank] = i + 1;
        }
      }
    });
    CHECK(message_of<AbortedError>(errors[0]) == "rank 1 failed: enough");
    CHECK(message_of<AbortedError>(errors[1]) == "rank 1 failed: enough");
    CHECK(passed[0] == passed[1]);
  }
}

TEST_CASE("a time-out says which rank did not reach which collective, and where it was") {
  test::Watchdog const watchdog{"time-out"};
  ThreadsOptions const options{
      .timeout = milliseconds{50}, .describe_progress = [](int rank, std::uint64_t progress) {
        return "rank " + std::to_string(rank) + " at action " + std::to_string(progress);
      }};
  ThreadsGroup group{3, options};
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<float> data(10, 1.0F);
    group.progress(end.rank()).store(40U + static_cast<unsigned>(end.rank()));
    end.all_reduce(data, std::span{data}, Sum{}, stream, {"bucket", 1});
    if (end.rank() != 1) {
      end.all_reduce(data, std::span{data}, Sum{}, stream, {"bucket", 2});
    }
    stream.synchronize();
  });
  std::string const expected =
      "rank 1 did not reach all-reduce #2 (bucket 2) within 50 ms; "
      "it was last in all-reduce #1 (bucket 1), rank 1 at action 41";
  CHECK(message_of<TimeoutError>(errors[0]) == expected);
  CHECK(errors[1] == nullptr);
  CHECK(message_of<TimeoutError>(errors[2]) == expected);

  // Whoever comes after the time-out does not wait again.
  auto const late = test::on_ranks(
      group, [&](ThreadsCommunicator& end, host::Queue& stream) { end.barrier(stream); });
  CHECK(message_of<AbortedError>(late[1]) == expected);
}

TEST_CASE("a time-out names all the ranks that are missing, also those that never came") {
  test::Watchdog const watchdog{"time-out of several"};
  ThreadsGroup group{4, {.timeout = milliseconds{50}, .name = "pipeline"}};
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    if (end.rank() == 0 || end.rank() == 3) {
      end.barrier(stream, {"start"});
    }
  });
  CHECK(message_of<TimeoutError>(errors[0]) ==
        "pipeline: rank 1 did not reach barrier #1 (start) within 50 ms; it was last in no "
        "collective; rank 2 did not reach barrier #1 (start) within 50 ms; it was last in no "
        "collective");
}

TEST_CASE("sizes that differ: every rank is told, none hangs, the group lives") {
  test::Watchdog const watchdog{"mismatch"};
  for (int repetition = 0; repetition < 200; ++repetition) {
    ThreadsGroup group{3};
    auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
      std::vector<int> data(end.rank() == 1 ? 11 : 10, 1);
      end.all_reduce(data, std::span{data}, Sum{}, stream, {"bucket", 7});
      CHECK_THROWS_WITH_AS(
          stream.synchronize(),
          "ranks 0 and 1 disagree on collective #1: all-reduce (bucket 7) of 10 elements, but "
          "all-reduce (bucket 7) of 11 elements; all ranks must make the same calls in the same "
          "order",
          ContractError);
      CHECK(data[0] == 1);
      data.resize(10);
      end.all_reduce(data, std::span{data}, Sum{}, stream);
      stream.synchronize();
      CHECK(data == std::vector<int>(10, 3));
    });
    CHECK(test::all_well(errors));
  }
}

TEST_CASE("other calls that do not match") {
  test::Watchdog const watchdog{"mismatches"};
  auto const all_fail = [](auto const& call, std::string const& part) {
    ThreadsGroup group{2};
    std::vector<std::vector<float>> data(2, std::vector<float>(4));
    auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
      call(end, std::span{data[static_cast<std::size_t>(end.rank())]}, stream);
    });
    for (auto const& error : errors) {
      CAPTURE(message_of<ContractError>(error));
      CHECK(contains(message_of<ContractError>(error), part));
      CHECK(contains(message_of<ContractError>(error), "disagree"));
    }
  };
  using End = ThreadsCommunicator;
  all_fail([](End& end, std::span<float> x, host::Queue& s) { end.broadcast(x, end.rank(), s); },
           "broadcast of 4 elements from rank 0, but broadcast of 4 elements from rank 1");
  all_fail([](End& end, std::span<float> x,
              host::Queue& s) { end.rank() == 0 ? end.barrier(s) : end.broadcast(x, 0, s); },
           "barrier, but broadcast of 4 elements from rank 0");
  all_fail(
      [](End& end, std::span<float> x, host::Queue& s) {
        end.rank() == 0 ? end.all_reduce(x, x, Sum{}, s) : end.all_reduce(x, x, Max{}, s);
      },
      "all-reduce of 4 elements");
}

TEST_CASE("what one rank alone can see is thrown at the call") {
  ThreadsGroup group{2};
  ThreadsCommunicator end = group.communicator(1);
  host::Queue stream;
  std::vector<float> data(10);
  std::span<float> const x{data};
  CHECK_THROWS_WITH_AS(end.all_reduce(x.first(3), x.last(4), Sum{}, stream),
                       doctest::Contains("the same number of elements"), ContractError);
  CHECK_THROWS_WITH_AS(end.all_reduce(x.first(6), x.last(6), Sum{}, stream),
                       doctest::Contains("not overlap"), ContractError);
  CHECK_THROWS_WITH_AS(end.all_reduce(x.last(6), x.first(6), Sum{}, stream),
                       doctest::Contains("not overlap"), ContractError);
  CHECK_THROWS_WITH_AS(end.broadcast(x, 2, stream), doctest::Contains("the root must be"),
                       ContractError);
  CHECK_THROWS_AS(end.broadcast(x, -1, stream), ContractError);
  CHECK(stream.last() == 0);
  CHECK_THROWS_WITH_AS(static_cast<void>(group.communicator(2)), doctest::Contains("no such rank"),
                       ContractError);
  CHECK_THROWS_AS(static_cast<void>(group.communicator(-1)), ContractError);
  CHECK_THROWS_WITH_AS(ThreadsGroup{0}, doctest::Contains("between 1 and 256"), ContractError);
  CHECK_THROWS_AS(ThreadsGroup{257}, ContractError);
  CHECK_THROWS_WITH_AS((ThreadsGroup{2, {.timeout = milliseconds{0}}}),
                       doctest::Contains("must be positive"), ContractError);
}

/// Returns when a rank has entered a collective: reset() is refused from then on.
std::string wait_until_inside(ThreadsGroup& group) {
  for (;;) {
    try {
      group.reset();
    } catch (ContractError const& error) {
      return error.what();
    }
    std::this_thread::yield();
  }
}

TEST_CASE("in and out may touch, in either order") {
  test::Watchdog const watchdog{"adjacent"};
  ThreadsGroup group{1};
  ThreadsCommunicator end = group.communicator(0);
  host::Queue stream;
  std::vector<int> data{1, 2, 3, 4};
  std::span<int> const x{data};
  end.all_reduce(x.first(2), x.last(2), Sum{}, stream);
  stream.synchronize();
  CHECK(data == std::vector<int>{1, 2, 1, 2});
  data = {1, 2, 3, 4};
  end.all_reduce(x.last(2), x.first(2), Sum{}, stream);
  stream.synchronize();
  CHECK(data == std::vector<int>{3, 4, 3, 4});
}

TEST_CASE("one rank on two streams at once") {
  test::Watchdog const watchdog{"two streams"};
  ThreadsGroup group{2};
  host::Queue first;
  host::Queue second;
  ThreadsCommunicator end = group.communicator(0);
  end.barrier(first);
  static_cast<void>(wait_until_inside(group));
  end.barrier(second);
  CHECK_THROWS_WITH_AS(second.synchronize(), doctest::Contains("two collectives"), ContractError);
  group.abort(1, "the test is over");
  CHECK_THROWS_AS(first.synchronize(), AbortedError);
}

TEST_CASE("after a failure, discard and reset make the group usable again") {
  test::Watchdog const watchdog{"reset"};
  ThreadsGroup group{2};
  auto const streams = std::make_unique<host::Queue[]>(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<int>> data(2, std::vector<int>(10, 1));
    ThreadsCommunicator zero = group.communicator(0);
    ThreadsCommunicator one = group.communicator(1);
    for (int i = 0; i < 3; ++i) {
      zero.all_reduce(data[0], std::span{data[0]}, Sum{}, streams[0]);
    }
    group.abort(1, "no reason");
    streams[0].discard();
    group.reset();
    CHECK(data[0] == std::vector<int>(10, 1));
    zero.all_reduce(data[0], std::span{data[0]}, Sum{}, streams[0]);
    one.all_reduce(data[1], std::span{data[1]}, Sum{}, streams[1]);
    streams[0].synchronize();
    streams[1].synchronize();
    CHECK(data[0] == std::vector<int>(10, 2));
    CHECK(data[1] == std::vector<int>(10, 2));
  }
}

TEST_CASE("reset with a rank inside is refused") {
  test::Watchdog const watchdog{"reset refused"};
  ThreadsGroup group{2};
  host::Queue stream;
  group.communicator(0).barrier(stream);
  CHECK(contains(wait_until_inside(group), "still inside a collective"));
  group.abort(1, "the test is over");
  CHECK_THROWS_AS(stream.synchronize(), AbortedError);
}

}  // namespace threads_failure_test
}  // namespace tandem
