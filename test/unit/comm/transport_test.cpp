// SPDX-License-Identifier: Apache-2.0
#include <tandem/comm/threads/transport.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string>

namespace tandem {
namespace transport_test {

TEST_CASE("transport: one rank has no group and waits for nobody") {
  ThreadsTransport<1> one{TransportOptions{}};
  CHECK(one.local_ranks() == 1);
  CHECK(one.first_rank() == 0);
  CHECK(one.device_of(0) == 0);
  CHECK(one.communicator(0).size() == 1);
  CHECK(one.progress(0) == nullptr);
  one.abort(0, "nobody hears");
  one.poll(0, std::chrono::hours{1});
}

TEST_CASE("transport: ranks that are threads, also recorded") {
  ThreadsTransport<3> three{TransportOptions{.name = "replicas"}};
  CHECK(three.local_ranks() == 3);
  CHECK(three.first_rank() == 0);
  CHECK(three.device_of(2) == 2);
  CHECK(three.communicator(2).rank() == 2);
  *three.progress(1) = 9;
  CHECK(three.progress(1)->load() == 9);
  three.poll(0);
  three.abort(1, "enough");
  std::string message;
  try {
    three.poll(2);
  } catch (AbortedError const& error) {
    message = error.what();
  }
  CHECK(message == "replicas: rank 1 failed: enough");
  RecordingTransport<2> recorded{TransportOptions{}};
  CHECK(recorded.communicator(1).log().empty());
  CHECK(recorded.local_ranks() == 2);
}

TEST_CASE("transport: threads live in one process, and wait for some time") {
  World const two{.processes = 2};
  CHECK_THROWS_AS(ThreadsTransport<2>{TransportOptions{.world = two}}, ContractError);
  CHECK_THROWS_AS(ThreadsTransport<1>{TransportOptions{.world = two}}, ContractError);
  CHECK_THROWS_AS(ThreadsTransport<2>{TransportOptions{.timeout = {}}}, ContractError);
  CHECK_THROWS_AS(ThreadsTransport<1>{TransportOptions{.timeout = {}}}, ContractError);
}

}  // namespace transport_test
}  // namespace tandem
