// SPDX-License-Identifier: Apache-2.0
#include <tandem/core/available_memory.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <tandem/runtime/host/buffer.hpp>

#include <support/temporary_folder.hpp>

namespace tandem {
namespace available_memory_test {

/// What a machine says of itself.
struct Machine {
  test::TemporaryFolder folder;

  void says(std::string const& path, std::string const& text) const {
    std::filesystem::path const file = folder.name() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << text;
  }
};

TEST_CASE("the machine's, and swap") {
  Machine const machine;
  CHECK(available_memory(machine.folder.name()) == -1);
  machine.says("/proc/meminfo", "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable:   500 kB\n");
  CHECK(available_memory(machine.folder.name()) == 500 * 1024);
  machine.says("/proc/meminfo", "MemAvailable:   500 kB\nSwapTotal: 9 kB\nSwapFree: 7 kB\n");
  CHECK(available_memory(machine.folder.name()) == 507 * 1024);
}

TEST_CASE("a control group's, of both versions; what it keeps of files can be dropped") {
  Machine const machine;
  machine.says("/proc/meminfo", "MemAvailable:   500 kB\n");
  machine.says("/proc/self/cgroup", "0::/job/7\n");
  CHECK(available_memory(machine.folder.name()) == 500 * 1024);  // none of it is there
  machine.says("/sys/fs/cgroup/job/7/memory.max", "max\n");
  machine.says("/sys/fs/cgroup/job/7/memory.current", "100000\n");
  CHECK(available_memory(machine.folder.name()) == 500 * 1024);
  machine.says("/sys/fs/cgroup/job/7/memory.max", "120000\n");
  CHECK(available_memory(machine.folder.name()) == 20000);
  machine.says("/sys/fs/cgroup/job/7/memory.stat",
               "anon 60000\nfile 40000\ninactive_file 3000\nactive_file 2000\nshmem 9\n");
  CHECK(available_memory(machine.folder.name()) == 25000);
  machine.says("/sys/fs/cgroup/job/7/memory.max", "50000\n");
  CHECK(available_memory(machine.folder.name()) == 0);

  machine.says("/proc/self/cgroup", "9:cpu:/\n4:memory:/\n");
  machine.says("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n");
  machine.says("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  machine.says("/sys/fs/cgroup/memory/memory.stat",
               "inactive_file 1\ntotal_inactive_file 5\ntotal_active_file 6\n");
  CHECK(available_memory(machine.folder.name()) == 2011);
}

TEST_CASE("an array larger than the memory is refused before it is touched") {
  if (available_memory() < 0) {
    return;
  }
  std::int64_t const bytes = std::int64_t{1} << 46;
  CHECK_THROWS_WITH_AS(
      (host::Buffer{static_cast<std::size_t>(bytes)}),
      doctest::Contains("out of memory: a host device asks for 70368744177664 bytes, and "), Error);
  CHECK_THROWS_WITH_AS((detail::MemoryClaim{bytes, "a test"}.touched(0)),
                       doctest::Contains("a test asks"), Error);
  CHECK_THROWS_WITH_AS(zeros<float>(bytes / 4, "a test"),
                       doctest::Contains("out of memory: a test asks for 70368744177664 bytes"),
                       Error);
  CHECK(zeros<float>(3, "a test") == std::vector<float>(3));
  CHECK(detail::claimed_bytes == 0);
  {
    detail::MemoryClaim claim{detail::MemoryClaim::large, "a test"};
    CHECK(detail::claimed_bytes == detail::MemoryClaim::large);
    claim.touched(100);
    CHECK(detail::claimed_bytes == detail::MemoryClaim::large - 100);
  }
  CHECK(detail::claimed_bytes == 0);
}

}  // namespace available_memory_test
}  // namespace tandem
