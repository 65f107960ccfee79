// SPDX-License-Identifier: Apache-2.0
// No allocation in steady state: queues, collectives and launches, with operator new counted.

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <tandem/comm/recording.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/threads/communicator.hpp>
#include <tandem/core/config.hpp>
#include <tandem/train/ranks/launch.hpp>

#include "watchdog.hpp"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// Not inlined: GCC would warn of a free() that it sees next to a new that it does not.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(size != 0 ? size : 1)) {
    return memory;
  }
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tandem {
namespace {

TEST_CASE("a step's collectives and the launch of a step allocate nothing") {
  test::Watchdog const watchdog{"allocation"};
  constexpr int ranks = 3;
  ThreadsGroup group{ranks};
  auto const streams = std::make_unique<host::Queue[]>(ranks);
  RankThreads threads{ranks, abort_on_error(group)};
  std::vector<std::vector<float>> data(ranks, std::vector<float>(1000, 1.0F));
  std::vector<Recording<ThreadsCommunicator>> ends;
  for (int rank = 0; rank < ranks; ++rank) {
    ends.emplace_back(group.communicator(rank));
  }
  auto const step = [&](int rank) {
    auto const r = static_cast<std::size_t>(rank);
    for (int bucket = 0; bucket < 10; ++bucket) {
      ends[r].all_reduce(data[r], std::span{data[r]}, Max{}, streams[r], {"bucket", bucket});
    }
    ends[r].broadcast(std::span{data[r]}, 1, streams[r]);
    ends[r].barrier(streams[r]);
    streams[r].synchronize();
  };
  threads.run(step);              // starts the streams' threads
  CHECK(allocations.load() > 0);  // the counter counts
  long const before = allocations.load();
  for (int i = 0; i < 100; ++i) {
    threads.run(step);
  }
  long const after = allocations.load();
  CHECK(after == before);
}

}  // namespace
}  // namespace tandem
