// SPDX-License-Identifier: Apache-2.0

#include <tandem/comm/recording.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/reduction.hpp>
#include <tandem/comm/self.hpp>
#include <tandem/comm/threads/communicator.hpp>

#include "ranks.hpp"
#include "watchdog.hpp"

namespace tandem {
namespace recording_test {

static_assert(all_reduce_bytes(1, 1000) == 0);
static_assert(all_reduce_bytes(2, 1000) == 1000);
static_assert(all_reduce_bytes(4, 1000) == 1500);
static_assert(all_reduce_bytes(3, 1000) == 1334);  // 1333.3
static_assert(all_reduce_bytes(8, 0) == 0);
static_assert(all_reduce_bytes(1024, std::int64_t{1} << 40) ==
              (std::int64_t{1} << 41) - (std::int64_t{1} << 31));
static_assert(broadcast_bytes(1, 1000) == 0);
static_assert(broadcast_bytes(4, 1000) == 750);
static_assert(bytes_sent(Operation::all_reduce, 4, 1000) == 1500);
static_assert(bytes_sent(Operation::broadcast, 4, 1000) == 750);
static_assert(bytes_sent(Operation::barrier, 4, 1000) == 0);
static_assert(bytes_sent(Operation::reduce_scatter, 4, 1000) == 750);
static_assert(bytes_sent(Operation::all_gather, 4, 1000) == 750);
static_assert(bytes_sent(Operation::send, 4, 1000) == 1000);
static_assert(bytes_sent(Operation::receive, 4, 1000) == 0);

TEST_CASE("a record in words") {
  CHECK(to_string(Record{Operation::all_reduce, 4, 1000, 4000, {"bucket", 2}}) ==
        "all-reduce (bucket 2): 1000 elements, 4000 bytes, 4 ranks, 6000 bytes sent");
  CHECK(to_string(Record{Operation::barrier, 1, 0, 0, {}}) ==
        "barrier: 0 elements, 0 bytes, 1 rank, 0 bytes sent");
  CHECK(to_string(Label{}).empty());
  CHECK(to_string(Label{"loss"}) == "loss");
  CHECK(to_string(Label{nullptr, 3}) == "3");
}

TEST_CASE("each rank's log has the bytes of the formula") {
  test::Watchdog const watchdog{"recording"};
  constexpr std::int64_t buckets[] = {1000, 24, 0, 333};
  ThreadsGroup group{3};
  std::vector<std::vector<Record>> logs(3);
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    Recording<ThreadsCommunicator> recording{end};
    std::vector<double> data(1000, 1.0);
    int bucket = 0;
    for (std::int64_t const elements : buckets) {
      std::span<double> const part{data.data(), static_cast<std::size_t>(elements)};
      recording.all_reduce(part, part, Sum{}, stream, {"bucket", bucket++});
    }
    recording.broadcast(std::span{data}, 1, stream);
    recording.barrier(stream);
    stream.synchronize();
    CHECK(data[0] == 27.0);  // part of three buckets that are not empty
    CHECK(recording.size() == 3);
    logs[static_cast<std::size_t>(recording.rank())].assign(recording.log().begin(),
                                                            recording.log().end());
  });
  REQUIRE(test::all_well(errors));
  std::int64_t expected = broadcast_bytes(3, 8000);
  for (std::int64_t const elements : buckets) {
    expected += all_reduce_bytes(3, elements * 8);
  }
  for (std::vector<Record> const& log : logs) {
    REQUIRE(log.size() == 6);
    CHECK(bytes_sent(log) == expected);
    CHECK(log[1].operation == Operation::all_reduce);
    CHECK(log[1].elements == 24);
    CHECK(log[1].bytes == 192);
    CHECK(log[1].ranks == 3);
    CHECK(to_string(log[1].label) == "bucket 1");
    CHECK(log[4].operation == Operation::broadcast);
    CHECK(log[4].bytes == 8000);
    CHECK(log[5].operation == Operation::barrier);
  }
}

TEST_CASE("messages and parts are logged with their peers and as wholes") {
  test::Watchdog const watchdog{"recording messages"};
  ThreadsGroup group{2};
  std::vector<std::vector<Record>> logs(2);
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    Recording<ThreadsCommunicator> recording{end};
    int const peer = 1 - end.rank();
    std::vector<float> data(10, 1.0F);
    std::vector<float> part(5);
    std::span<float> const whole{data};
    recording.reduce_scatter(whole, std::span{part}, Sum{}, stream, {"gradients"});
    recording.all_gather(part, whole, stream, {"weights"});
    Outgoing<float> const send{part, peer};
    Incoming<float> const receive{whole.subspan(0, 5), peer};
    recording.exchange(std::span{&send, 1}, std::span{&receive, 1}, stream, {"halo", 1});
    stream.synchronize();
    CHECK(data == std::vector<float>(10, 2.0F));
    if (end.rank() == 0) {
      recording.send(std::span<float const>{part}, peer, stream);
    } else {
      recording.receive(std::span{part}, peer, stream);
    }
    recording.broadcast(whole, 1, stream);
    stream.synchronize();
    logs[static_cast<std::size_t>(end.rank())].assign(recording.log().begin(),
                                                      recording.log().end());
  });
  REQUIRE(test::all_well(errors));
  REQUIRE(logs[0].size() == 6);
  CHECK(to_string(logs[0][0]) ==
        "reduce-scatter (gradients): 10 elements, 40 bytes, 2 ranks, 20 bytes sent");
  CHECK(to_string(logs[0][1]) ==
        "all-gather (weights): 10 elements, 40 bytes, 2 ranks, 20 bytes sent");
  CHECK(to_string(logs[0][2]) == "send (halo 1): 5 elements, 20 bytes, 2 ranks, 20 bytes sent");
  CHECK(to_string(logs[0][3]) == "receive (halo 1): 5 elements, 20 bytes, 2 ranks, 0 bytes sent");
  CHECK(logs[0][2].peer == 1);
  CHECK(logs[1][3].peer == 0);
  CHECK(logs[0][4].operation == Operation::send);
  CHECK(logs[1][4].operation == Operation::receive);
  CHECK(logs[1][5].peer == 1);
  CHECK(logs[1][0].peer == -1);
}

TEST_CASE("a full log counts what it missed") {
  Recording<SelfCommunicator> recording{SelfCommunicator{}, 2};
  host::Queue stream;
  for (int i = 0; i < 5; ++i) {
    recording.barrier(stream);
  }
  CHECK(recording.log().size() == 2);
  CHECK(recording.missed() == 3);
  recording.clear();
  CHECK(recording.log().empty());
  CHECK(recording.missed() == 0);
}

}  // namespace recording_test
}  // namespace tandem
