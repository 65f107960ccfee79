// SPDX-License-Identifier: Apache-2.0
#include <tandem/runtime/host/cpus.hpp>

#include <limits>
#include <thread>

#include <doctest/doctest.h>

#include <tandem/runtime/host/host.hpp>

#if defined(__linux__)
#include <sched.h>
#endif

namespace cpus_test {

using namespace tandem::host;

TEST_CASE("cpus_of_quota reads a cgroup's cpu.max") {
  int const none = std::numeric_limits<int>::max();
  CHECK(cpus_of_quota("200000 100000\n") == 2);
  CHECK(cpus_of_quota("250000 100000\n") == 2);
  CHECK(cpus_of_quota("50000 100000\n") == 1);  // half a CPU
  CHECK(cpus_of_quota("100000 50000") == 2);
  CHECK(cpus_of_quota("max 100000\n") == none);
  CHECK(cpus_of_quota("999999999999999999 1") == none);
  for (char const* text : {"", "\n", "200000", "x y", "-1 100000", "100000 0", "100000 -3"}) {
    CHECK(cpus_of_quota(text) == none);
  }
}

TEST_CASE("usable_cpus are no more than the machine has, and at least one") {
  CHECK(cpus_in_mask() >= 1);
  CHECK(usable_cpus() >= 1);
  CHECK(usable_cpus() <= cpus_in_mask());
  if (std::thread::hardware_concurrency() > 0) {
    CHECK(cpus_in_mask() <= static_cast<int>(std::thread::hardware_concurrency()));
  }
}

TEST_CASE("threads_of_each shares them out, one at least") {
  int const all = usable_cpus();
  CHECK(threads_of_each(1) == all);
  CHECK(threads_of_each(all) == 1);
  CHECK(threads_of_each(all + 1) == 1);
  CHECK(threads_of_each(2) == (all >= 2 ? all / 2 : 1));
}

#if defined(__linux__)

TEST_CASE("only the CPUs of the affinity mask count") {
  std::thread{[] {
    cpu_set_t allowed;
    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) {
      ++cpu;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(cpus_in_mask() == 1);
    CHECK(usable_cpus() == 1);
    CHECK(threads_of_each(1) == 1);
    std::thread{[] { CHECK(cpus_in_mask() == 1); }}.join();  // a new thread has its maker's mask
  }}.join();
}

#endif

}  // namespace cpus_test
