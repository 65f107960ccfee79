// SPDX-License-Identifier: Apache-2.0
// ThreadsCommunicator: reduce-scatter, all-gather, messages and exchanges, and how they fail.

#include <tandem/comm/threads/communicator.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tandem/comm/self.hpp>
#include <tandem/core/philox.hpp>

#include "ranks.hpp"
#include "watchdog.hpp"

namespace tandem {
namespace threads_parts_test {

using test::message_of;

std::vector<float> numbers(std::size_t count, int rank, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    Random4 const r = philox(seed, RandomUse::user, i, static_cast<std::uint64_t>(rank));
    auto const scale = static_cast<float>(std::uint64_t{1} << (r.word[1] % 24));
    values[i] = (uniform(r.word[0]) - 0.5F) * scale;
  }
  return values;
}

bool same_bits(std::span<float const> a, std::span<float const> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

TEST_CASE("reduce-scatter gives the parts of the all-reduce, all-gather joins them again") {
  test::Watchdog const watchdog{"parts"};
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (std::size_t const count : std::vector<std::size_t>{0, 1, 17, 5000}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::size_t const all = count * static_cast<std::size_t>(ranks);
      ThreadsGroup group{ranks};
      auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
        auto const in = numbers(all, end.rank(), count);
        auto expected = in;
        end.all_reduce(expected, std::span{expected}, Sum{}, stream);
        std::vector<float> part(count);
        std::vector<float> joined(all);
        auto in_place = in;
        std::size_t const begin = count * static_cast<std::size_t>(end.rank());
        auto const own = std::span{in_place}.subspan(begin, count);
        end.reduce_scatter(in, std::span{part}, Sum{}, stream);
        end.reduce_scatter(in_place, own, Sum{}, stream);
        end.all_gather(part, std::span{joined}, stream);
        stream.synchronize();
        CHECK(same_bits(part, std::span{expected}.subspan(begin, count)));
        CHECK(same_bits(joined, expected));
        CHECK(same_bits(own, part));
        end.all_gather(own, std::span{in_place}, stream);
        stream.synchronize();
        CHECK(same_bits(in_place, expected));
      });
      CHECK(test::all_well(errors));
    }
  }
}

TEST_CASE("messages arrive in order, one is in flight, and the sender's buffer is its own again") {
  test::Watchdog const watchdog{"messages"};
  constexpr int messages = 2000;
  ThreadsGroup group{3};
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    int const next = (end.rank() + 1) % 3;
    int const before = (end.rank() + 2) % 3;
    std::vector<int> out(9);
    std::vector<int> in(9);
    int wrong = 0;
    for (int i = 0; i < messages; ++i) {
      std::size_t const count = static_cast<std::size_t>(i % 10);  // also 0
      out.assign(9, 10 * i + end.rank());
      end.send(std::span{out}.subspan(0, count), next, stream, {"i", i});
      stream.synchronize();
      out.assign(9, -1);
      end.receive(std::span{in}.subspan(0, count), before, stream, {"i", i});
      stream.synchronize();
      for (std::size_t k = 0; k < count; ++k) {
        wrong += in[k] == 10 * i + before ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("exchanges of all with all, meeting sends and receives that stand alone") {
  test::Watchdog const watchdog{"exchanges"};
  constexpr int ranks = 4;
  ThreadsGroup group{ranks};
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<int> out(ranks);
    std::vector<int> in(ranks, -1);
    std::vector<Outgoing<int>> sends;
    std::vector<Incoming<int>> receives;
    for (int peer = 0; peer < ranks; ++peer) {
      auto const p = static_cast<std::size_t>(peer);
      out[p] = 10 * end.rank() + peer;
      if (peer != end.rank()) {
        sends.push_back({std::span<int const>{&out[p], 1}, peer});
        receives.push_back({std::span{&in[p], 1}, peer});
      }
    }
    for (int i = 0; i < 100; ++i) {
      in.assign(ranks, -1);
      if (end.rank() == 0 && i % 2 == 1) {  // one by one
        for (auto const& send : sends) {
          end.send(send.data, send.peer, stream);
        }
        for (auto const& receive : receives) {
          end.receive(receive.data, receive.peer, stream);
        }
      } else {
        end.exchange<int>(sends, receives, stream, {"halo"});
      }
      stream.synchronize();
      for (int peer = 0; peer < ranks; ++peer) {
        int const expected = peer == end.rank() ? -1 : 10 * peer + end.rank();
        CHECK(in[static_cast<std::size_t>(peer)] == expected);
      }
    }
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("a message that never comes, or is never taken, is a sentence with both ends") {
  test::Watchdog const watchdog{"message time-out"};
  ThreadsOptions const options{.timeout = std::chrono::milliseconds{50},
                               .describe_progress =
                                   [](int rank, std::uint64_t progress) {
                                     return "rank " + std::to_string(rank) + " is at action " +
                                            std::to_string(progress);
                                   },
                               .name = "pipeline"};
  {
    ThreadsGroup group{2, options};
    group.progress(1) = 5;
    auto const errors = test::on_ranks(group, [](ThreadsCommunicator& end, host::Queue& stream) {
      std::vector<float> data(4);
      if (end.rank() == 0) {
        end.receive(std::span{data}, 1, stream, {"gradient", 3});
        stream.synchronize();
      }
    });
    CHECK(message_of<TimeoutError>(errors[0]) ==
          "pipeline: rank 1 did not send message #1, which rank 0 waits to receive (gradient 3) "
          "within 50 ms; it was last in no collective, rank 1 is at action 5");
  }
  ThreadsGroup group{2, options};
  auto const errors = test::on_ranks(group, [](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<float> data(4);
    if (end.rank() == 0) {
      end.barrier(stream);
      end.send(std::span{data}, 1, stream, {"activation", 0});
      end.send(std::span{data}, 1, stream, {"activation", 1});
      stream.synchronize();
    } else {
      end.barrier(stream);
      stream.synchronize();
    }
  });
  CHECK(message_of<TimeoutError>(errors[0]) ==
        "pipeline: rank 1 did not receive message #1 (activation 0) from rank 0, which waits to "
        "send the next one (activation 1) within 50 ms; it was last in barrier #1, rank 1 is at "
        "action 0");
  group.reset();  // drops the message that nobody took
  auto const again = test::on_ranks(group, [](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<int> data(2, end.rank());
    if (end.rank() == 0) {
      end.send(std::span{data}, 1, stream);
      stream.synchronize();
    } else {
      end.receive(std::span{data}, 0, stream);
      stream.synchronize();
      CHECK(data == std::vector<int>{0, 0});
    }
  });
  CHECK(test::all_well(again));
}

TEST_CASE("a message that does not fit is the receiver's error, and is lost") {
  test::Watchdog const watchdog{"message mismatch"};
  ThreadsGroup group{2};
  auto const errors = test::on_ranks(group, [](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<float> data(4, 1.0F);
    std::vector<int> numbers(4);
    auto const message = [&stream]() -> std::string {
      try {
        stream.synchronize();
      } catch (ContractError const& error) {
        return error.what();
      }
      return "(nothing)";
    };
    if (end.rank() == 0) {
      end.send(std::span{data}, 1, stream, {"activation", 2});
      end.send(std::span{data}, 1, stream);
      end.send(std::span{data}, 1, stream);
      CHECK(message() == "(nothing)");
    } else {
      end.receive(std::span{data}.subspan(1), 0, stream, {"activation", 3});
      CHECK(message() ==
            "rank 0 sent message #1 (activation 2) of 4 elements, but rank 1 receives "
            "(activation 3) 3 elements; both ends must name the same");
      end.receive(std::span{numbers}, 0, stream);
      CHECK(message() ==
            "rank 0 sent message #2 of 4 elements, but rank 1 receives 4 elements of another "
            "type; both ends must name the same");
      data.assign(4, 0.0F);
      end.receive(std::span{data}, 0, stream);
      CHECK(message() == "(nothing)");
      CHECK(data == std::vector<float>(4, 1.0F));
    }
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("abort() wakes senders and receivers, and poll() tells of it") {
  test::Watchdog const watchdog{"message abort"};
  ThreadsGroup group{3};
  group.poll();
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<float> data(4);
    if (end.rank() == 0) {
      end.receive(std::span{data}, 1, stream);
    } else if (end.rank() == 1) {
      end.send(std::span{data}, 2, stream);
      end.send(std::span{data}, 2, stream);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds{30});
      group.abort(2, "enough");
    }
    stream.synchronize();
  });
  CHECK(message_of<AbortedError>(errors[0]) == "rank 2 failed: enough");
  CHECK(message_of<AbortedError>(errors[1]) == "rank 2 failed: enough");
  CHECK_THROWS_AS(group.poll(), AbortedError);
  group.reset();
  group.poll();
}

TEST_CASE("parts and messages that cannot be meant are refused at the door") {
  ThreadsGroup group{2};
  ThreadsCommunicator end = group.communicator(1);
  host::Queue stream;
  std::vector<float> data(8);
  std::span<float> const all{data};
  std::span<float> const half = all.subspan(0, 4);
  CHECK_THROWS_AS(end.reduce_scatter(all, all, Sum{}, stream), ContractError);
  CHECK_THROWS_AS(end.reduce_scatter(all, half, Sum{}, stream), ContractError);  // rank 0's part
  CHECK_THROWS_AS(end.all_gather(all, all, stream), ContractError);
  CHECK_THROWS_AS(end.all_gather(half, all, stream), ContractError);
  CHECK_THROWS_AS(end.send(all, 1, stream), ContractError);
  CHECK_THROWS_AS(end.send(all, 2, stream), ContractError);
  CHECK_THROWS_AS(end.receive(all, -1, stream), ContractError);
  CHECK(stream.last() == 0);
  SelfCommunicator self;
  CHECK_THROWS_AS(self.send(all, 0, stream), ContractError);
  CHECK_THROWS_AS(self.receive(all, 0, stream), ContractError);
  Outgoing<float> const out{all, 0};
  CHECK_THROWS_AS(self.exchange(std::span{&out, 1}, std::span<Incoming<float> const>{}, stream),
                  ContractError);
  CHECK_THROWS_AS(self.reduce_scatter(all, half, Sum{}, stream), ContractError);
  CHECK_THROWS_AS(self.all_gather(half, all, stream), ContractError);
  self.all_gather(all, all, stream);
  CHECK(stream.last() == 0);
  std::vector<float> copy(8, -1.0F);
  self.reduce_scatter(all, std::span{copy}, Sum{}, stream);
  stream.synchronize();
  CHECK(copy == data);
}

}  // namespace threads_parts_test
}  // namespace tandem
