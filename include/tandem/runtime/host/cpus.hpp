// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// usable_cpus(): how many threads can really run at once here, which in a container or under a
/// batch system is not how many CPUs the machine has.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <thread>

#include <tandem/core/config.hpp>

#if defined(__linux__)
#include <sched.h>
#endif

namespace tandem::host {

/// Whole CPUs, at least one, of a quota as cgroup v2 writes it in cpu.max: "200000 100000" is two;
/// "max 100000", or what is no quota, is the largest int.
TANDEM_ONCE [[nodiscard]] int cpus_of_quota(char const* text);

/// CPUs in the calling thread's affinity mask (taskset, cpusets of containers, batch systems);
/// where that cannot be asked, the machine's. At least one.
TANDEM_ONCE [[nodiscard]] int cpus_in_mask();

/// CPUs that this process may use at a time: cpus_in_mask(), or fewer if its container has a quota
/// of CPU time (docker --cpus, Kubernetes limits; cgroup v2).
TANDEM_ONCE [[nodiscard]] int usable_cpus();

}  // namespace tandem::host

#if TANDEM_BODIES

namespace tandem::host {

TANDEM_ONCE int cpus_of_quota(char const* text) {
  constexpr int most = std::numeric_limits<int>::max();
  long long quota = 0;
  long long period = 0;
  if (std::sscanf(text, "%18lld %18lld", &quota, &period) != 2 || quota <= 0 || period <= 0) {
    return most;
  }
  return static_cast<int>(std::clamp<long long>(quota / period, 1, most));
}

TANDEM_ONCE int cpus_in_mask() {
  auto cpus = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  bool known = false;
  for (std::size_t size = CPU_SETSIZE; !known && size <= 1024 * CPU_SETSIZE; size *= 2) {
    cpu_set_t* const mask = CPU_ALLOC(size);
    std::size_t const bytes = CPU_ALLOC_SIZE(size);
    known = mask != nullptr && sched_getaffinity(0, bytes, mask) == 0;  // fails if it is too small
    if (known) {
      cpus = CPU_COUNT_S(bytes, mask);
    }
    CPU_FREE(mask);
  }
#endif
  return std::max(cpus, 1);
}

TANDEM_ONCE int usable_cpus() {
  char text[64] = "";
  if (std::FILE* const file = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {  // a container's own
    if (std::fgets(text, sizeof text, file) == nullptr) {
      text[0] = '\0';
    }
    static_cast<void>(std::fclose(file));
  }
  return std::min(cpus_in_mask(), cpus_of_quota(text));
}

}  // namespace tandem::host

#endif
