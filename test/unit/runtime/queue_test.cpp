// SPDX-License-Identifier: Apache-2.0

#include <tandem/runtime/host/queue.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace tandem::host {
namespace queue_test {

TEST_CASE("tasks run in order, on one other thread") {
  test::Watchdog const watchdog{"queue order"};
  Queue queue;
  constexpr int tasks = 10000;  // many times around the ring
  std::vector<int> order;
  std::thread::id worker;
  order.reserve(tasks);
  for (int i = 0; i < tasks; ++i) {
    Queue::Ticket const ticket = queue.post([&order, &worker, i] {
      order.push_back(i);
      worker = std::this_thread::get_id();
    });
    CHECK(ticket == static_cast<Queue::Ticket>(i) + 1);
  }
  queue.synchronize();
  REQUIRE(order.size() == tasks);
  int wrong = 0;
  for (int i = 0; i < tasks; ++i) {
    wrong += order[static_cast<std::size_t>(i)] == i ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(worker != std::thread::id{});
  CHECK(worker != std::this_thread::get_id());
}

TEST_CASE("a queue that is not used can be waited for") {
  Queue queue;
  CHECK(queue.last() == 0);
  queue.synchronize();
  queue.wait(0);
  queue.discard();
}

TEST_CASE("wait waits for its task and not for those behind it") {
  test::Watchdog const watchdog{"queue wait"};
  Queue queue;
  std::atomic<bool> open{false};
  int value = 0;
  Queue::Ticket const first = queue.post([&value] { value = 1; });
  queue.post([&open] { open.wait(false); });
  CHECK(queue.last() == first + 1);
  queue.wait(first);
  CHECK(value == 1);
  open.store(true);
  open.notify_one();
  queue.synchronize();
}

TEST_CASE("a full queue holds the poster back") {
  test::Watchdog const watchdog{"queue full"};
  Queue queue;
  std::atomic<bool> open{false};
  std::atomic<int> posted{0};
  int ran = 0;
  constexpr int tasks = static_cast<int>(Queue::places) + 10;
  queue.post([&open] { open.wait(false); });
  std::thread poster{[&] {
    for (int i = 0; i < tasks; ++i) {
      queue.post([&ran] { ++ran; });
      posted.fetch_add(1);
    }
  }};
  while (posted.load() < static_cast<int>(Queue::places) - 1) {
    std::this_thread::yield();
  }
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::yield();
  }
  CHECK(posted.load() == static_cast<int>(Queue::places) - 1);
  open.store(true);
  open.notify_one();
  poster.join();
  queue.synchronize();
  CHECK(ran == tasks);
}

TEST_CASE("the first error comes out once, the tasks behind it do not run") {
  test::Watchdog const watchdog{"queue error"};
  Queue queue;
  for (int round = 0; round < 100; ++round) {
    int before = 0;
    int behind = 0;
    queue.post([&before] { ++before; });
    queue.post([] { throw std::runtime_error{"first"}; });
    queue.post([] { throw std::runtime_error{"second"}; });
    queue.post([&behind] { ++behind; });
    CHECK_THROWS_WITH_AS(queue.synchronize(), "first", std::runtime_error);
    queue.post([&before] { ++before; });
    queue.synchronize();
    CHECK(before == 2);
    CHECK(behind == 0);
  }
}

TEST_CASE("wait throws too, also for a ticket behind the error") {
  test::Watchdog const watchdog{"queue error in wait"};
  Queue queue;
  int behind = 0;
  queue.post([] { throw 7; });
  Queue::Ticket const last = queue.post([&behind] { ++behind; });
  CHECK_THROWS_AS(queue.wait(last), int);
  queue.wait(last);
  CHECK(behind == 0);
}

TEST_CASE("discard skips what has not started, and drops the error") {
  test::Watchdog const watchdog{"queue discard"};
  Queue queue;
  int ran = 0;
  std::atomic<bool> open{false};
  std::atomic<bool> started{false};
  queue.post([&open, &started, &ran] {
    started.store(true);
    open.wait(false);
    ++ran;
    throw 1;
  });
  for (int i = 0; i < 10; ++i) {
    queue.post([&ran] { ran += 100; });
  }
  while (!started.load()) {
    std::this_thread::yield();
  }
  std::thread opener{[&open] {
    for (int i = 0; i < 1000; ++i) {
      std::this_thread::yield();
    }
    open.store(true);
    open.notify_one();
  }};
  queue.discard();
  CHECK(ran == 1);
  opener.join();
  queue.post([&ran] { ++ran; });
  queue.synchronize();
  CHECK(ran == 2);
}

TEST_CASE("the destructor runs what waits, and after an error skips it") {
  test::Watchdog const watchdog{"queue destructor"};
  int ran = 0;
  {
    Queue queue;
    for (int i = 0; i < 200; ++i) {
      queue.post([&ran] { ++ran; });
    }
  }
  CHECK(ran == 200);
  {
    Queue queue;
    queue.post([] { throw 1; });
    queue.post([&ran] { ++ran; });
  }
  CHECK(ran == 200);
}

TEST_CASE("a task may have 64 bytes") {
  Queue queue;
  struct {
    double values[7] = {1, 2, 3, 4, 5, 6, 7};
  } const seven;
  double sum = 0;
  auto const task = [seven, &sum] {
    for (double const value : seven.values) {
      sum += value;
    }
  };
  static_assert(sizeof(task) == Queue::task_bytes);
  queue.post(task);
  queue.synchronize();
  CHECK(sum == 28.0);
}

}  // namespace queue_test
}  // namespace tandem::host
