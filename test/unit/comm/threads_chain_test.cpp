// SPDX-License-Identifier: Apache-2.0
#include <tandem/comm/threads/chain.hpp>

#include <doctest/doctest.h>

#include <chrono>
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
namespace threads_chain_test {

using detail::WaitChain;
using detail::WaitingRank;
using std::chrono::milliseconds;
using test::message_of;

TEST_CASE("the rank at the other end of the chain is to blame, not one that waits itself") {
  std::vector<WaitingRank> waits{{.rank = 3, .prefix = "a: ", .missing = {{2, "2 is late"}}},
                                 {.rank = 2, .prefix = "b: ", .missing = {{1, "1 is late"}}},
                                 {.rank = 1, .prefix = "c: ", .missing = {{0, "0 is late"}}}};
  auto const from = [&](std::size_t first) { return WaitChain{waits}.sentence_for(waits[first]); };
  CHECK(from(0) == "c: 0 is late; rank 1 waits for it, rank 2 for rank 1, rank 3 for rank 2");
  CHECK(from(1) == "c: 0 is late; rank 1 waits for it, rank 2 for rank 1");
  CHECK(from(2) == "c: 0 is late");
  waits[1].blocked = false;  // a stream of rank 2 waits, but not its thread
  CHECK(from(0) == "a: 2 is late");
}

TEST_CASE("of several that are missing, those that wait are left out") {
  std::vector<WaitingRank> const waits{
      {.rank = 0,
       .prefix = "all: ",
       .missing = {{1, "1 is late"}, {2, "2 is late"}, {3, "3 is late"}}},
      {.rank = 2, .prefix = "pair: ", .missing = {{3, "3 did not send"}}}};
  CHECK(WaitChain{waits}.sentence_for(waits[0]) == "all: 1 is late; pair: 3 did not send");
}

TEST_CASE("ranks that wait for each other: the first wait is told") {
  std::vector<WaitingRank> const waits{{.rank = 0, .prefix = "x: ", .missing = {{1, "1 is late"}}},
                                       {.rank = 1, .prefix = "y: ", .missing = {{0, "0 is late"}}}};
  CHECK(WaitChain{waits}.sentence_for(waits[0]) == "x: 1 is late");
}

TEST_CASE("a time-out names the rank that stalls, although another was waited for") {
  test::Watchdog const watchdog{"chain"};
  ThreadsGroup group{3, {.timeout = milliseconds{300}}};
  auto const errors = test::on_ranks(group, [](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<float> data(4);
    std::span<float> const x{data};
    if (end.rank() == 0) {
      std::this_thread::sleep_for(milliseconds{600});
    } else {  // rank 2 loses patience first
      std::this_thread::sleep_for(milliseconds{end.rank() == 1 ? 150 : 0});
      end.receive(x, end.rank() - 1, stream, {"tensor", end.rank()});
    }
    stream.synchronize();
  });
  for (std::size_t const rank : {1U, 2U}) {
    CHECK(message_of<TimeoutError>(errors[rank]) ==
          "rank 0 did not send message #1, which rank 1 waits to receive (tensor 1) within 300 ms; "
          "it was last in no collective; rank 1 waits for it, rank 2 for rank 1");
  }
}

TEST_CASE("a rank whose stream waits while its own thread stalls is the one that is named") {
  test::Watchdog const watchdog{"stream that waits"};
  ThreadsGroup group{3, {.timeout = milliseconds{200}}};
  auto const errors = test::on_ranks(group, [](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<float> data(4);
    std::span<float> const x{data};
    if (end.rank() == 2) {
      end.receive(x, 1, stream);
    } else if (end.rank() == 1) {
      std::this_thread::sleep_for(milliseconds{50});
      end.receive(x, 0, stream);
      std::this_thread::sleep_for(milliseconds{500});
    } else {
      std::this_thread::sleep_for(milliseconds{500});
    }
    stream.synchronize();
  });
  CHECK(message_of<TimeoutError>(errors[2]).starts_with("rank 1 did not send message #1, which "));
}

}  // namespace threads_chain_test
}  // namespace tandem
