// SPDX-License-Identifier: Apache-2.0

/// @file
/// How long thousands of processes take to meet over TCP: bench_rendezvous PROCESSES LATE_MS. They
/// are threads, 256 in a process, that ask at loopback; process 0 begins LATE_MS after the first of
/// them, so that they have come to ask seldom.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tandem/comm/rendezvous/rendezvous.hpp>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds limit{60};

void meet(tandem::World const& world) {
  std::array<std::byte, 128> data{};
  tandem::rendezvous(world, data, limit);
}

/// Those of one child; how many of them did not meet.
int ask(tandem::World const& world, int first, int end) {
  std::atomic<int> missed{0};
  std::vector<std::thread> threads;
  for (int process = first; process < end; ++process) {
    threads.emplace_back([&world, &missed, process] {
      try {
        tandem::World own = world;
        own.process = process;
        meet(own);
      } catch (std::exception const& error) {
        if (missed++ == 0) {
          std::printf("process %d: %s\n", process, error.what());
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return missed.load();
}

}  // namespace

int main(int argc, char** argv) {
  int const processes = argc > 1 ? std::atoi(argv[1]) : 4096;
  int const late_ms = argc > 2 ? std::atoi(argv[2]) : 3000;
  tandem::World const world{
      .processes = processes,
      .rendezvous = {.address = "127.0.0.1:" + std::to_string(20000 + ::getpid() % 10000),
                     .token = "bench"}};
  std::vector<::pid_t> children;
  for (int first = 1; first < processes; first += 256) {
    ::pid_t const child = ::fork();
    if (child == 0) {
      int const missed = ask(world, first, first + 256 < processes ? first + 256 : processes);
      std::fflush(stdout);
      ::_exit(missed == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{late_ms});
  auto const begin = Clock::now();
  int failed = 0;
  try {
    meet(world);
  } catch (std::exception const& error) {
    std::printf("process 0: %.200s\n", error.what());
    failed = 1;
  }
  for (::pid_t const child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed = status == 0 ? failed : 1;
  }
  std::printf("%d processes have met %.2f s after process 0 began\n", processes,
              std::chrono::duration<double>(Clock::now() - begin).count());
  return failed;
}
