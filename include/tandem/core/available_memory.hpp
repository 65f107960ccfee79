// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// available_memory(): how much this process may still touch before the machine kills it; and
/// MemoryClaim, which asks before it is touched.
///
/// Linux gives memory out that it has not: what comes back from malloc may be more than there is,
/// and the process is killed at the page that is too much. So large arrays ask first.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

namespace detail {

struct CloseSmallFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};

/// Calls f(line) for each line of a small file, if there is one.
template <class F>
void each_line(std::string const& path, F const& f) {
  std::unique_ptr<std::FILE, CloseSmallFile> const file{std::fopen(path.c_str(), "re")};
  char line[512];
  while (file && std::fgets(line, sizeof line, file.get()) != nullptr) {
    f(static_cast<char const*>(line));
  }
}

/// The number behind @p key at the beginning of a line of a file, "" for any; -1 if there is none.
TANDEM_ONCE TANDEM_COLD std::int64_t number_in(std::string const& path, char const* key);

}  // namespace detail

/// Bytes that this process may still touch: what the machine and its own control group (version 1
/// or 2) have left, swap included; -1 where nothing says so, as on other systems than Linux.
/// Cost: reads four small files.
/// @param root  stands before the paths, for tests
TANDEM_ONCE TANDEM_COLD std::int64_t available_memory(std::string const& root = {});

namespace detail {

/// Bytes that threads of this process have asked for and not touched yet.
inline std::atomic<std::int64_t> claimed_bytes{0};

/// Asks for a large array before it is touched; what other threads are about to touch counts.
/// Small ones are not asked for.
class [[nodiscard]] MemoryClaim {
 public:
  static constexpr std::int64_t large = std::int64_t{64} << 20;

  /// @param who  "a host device"
  /// @throws Error  there is not so much
  TANDEM_ONCE TANDEM_COLD MemoryClaim(std::int64_t bytes, char const* who);
  MemoryClaim(MemoryClaim const&) = delete;
  MemoryClaim& operator=(MemoryClaim const&) = delete;
  ~MemoryClaim() { touched(left_); }

  /// So many of them are the process's now, which the machine knows.
  void touched(std::int64_t bytes) {
    std::int64_t const some = bytes < left_ ? bytes : left_;
    left_ -= some;
    claimed_bytes.fetch_sub(some, std::memory_order_relaxed);
  }

 private:
  std::int64_t left_;
};

}  // namespace detail

/// @p count zeros, asked for first.
/// @param who  asks for them, in the message
/// @throws Error  there is no memory for them
template <class T>
std::vector<T> zeros(std::int64_t count, char const* who) {
  std::int64_t const bytes = count * static_cast<std::int64_t>(sizeof(T));
  detail::MemoryClaim const claim{bytes, who};
  try {
    return std::vector<T>(static_cast<std::size_t>(count));
  } catch (std::bad_alloc const&) {
    throw Error{"out of memory: " + std::string{who} + " asks for " + std::to_string(bytes) +
                " bytes; use a smaller batch or fewer samples"};
  }
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::int64_t number_in(std::string const& path, char const* key) {
  long long found = -1;
  each_line(path, [&](char const* line) {
    std::size_t const length = std::strlen(key);
    if (found < 0 && std::strncmp(line, key, length) == 0 &&
        std::sscanf(line + length, "%lld", &found) != 1) {
      found = -1;
    }
  });
  return found;
}

/// What a control group leaves to its processes; -1: it says nothing. Pages of files count as free,
/// since they can be dropped.
/// @param names  of its limit, its use, and the files' pages in memory.stat
TANDEM_ONCE TANDEM_COLD std::int64_t left_in_group(std::string const& folder, char const* limit,
                                                   char const* use, char const* inactive,
                                                   char const* active) {
  std::int64_t const most = number_in(folder + limit, "");
  std::int64_t const used = number_in(folder + use, "");
  if (most < 0 || used < 0) {  // "max", or no such file
    return -1;
  }
  std::int64_t left = most - used;
  for (char const* const key : {inactive, active}) {
    std::int64_t const pages = number_in(folder + "memory.stat", key);
    left += pages > 0 ? pages : 0;
  }
  return left > 0 ? left : 0;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::int64_t available_memory(std::string const& root) {
  std::int64_t least = -1;
  auto const at_most = [&](std::int64_t bytes) {
    least = bytes >= 0 && (least < 0 || bytes < least) ? bytes : least;
  };
  std::int64_t const free = detail::number_in(root + "/proc/meminfo", "MemAvailable:");
  std::int64_t const swap = detail::number_in(root + "/proc/meminfo", "SwapFree:");
  at_most(free < 0 ? -1 : (free + (swap > 0 ? swap : 0)) * 1024);
  detail::each_line(root + "/proc/self/cgroup", [&](char const* line) TANDEM_COLD {
    char const* const path = std::strrchr(line, ':');
    std::string own = path != nullptr ? path + 1 : "/";
    own = own.substr(0, own.find('\n'));
    own += own.ends_with('/') ? "" : "/";
    std::string const groups = root + "/sys/fs/cgroup";
    if (std::strncmp(line, "0::", 3) == 0) {
      at_most(detail::left_in_group(groups + own, "memory.max", "memory.current", "inactive_file ",
                                    "active_file "));
    } else if (std::strstr(line, ":memory:") != nullptr) {
      at_most(detail::left_in_group(groups + "/memory" + own, "memory.limit_in_bytes",
                                    "memory.usage_in_bytes", "total_inactive_file ",
                                    "total_active_file "));
    }
  });
  return least;
}

}  // namespace tandem

namespace tandem::detail {

TANDEM_ONCE MemoryClaim::MemoryClaim(std::int64_t bytes, char const* who)
    : left_{bytes >= large ? bytes : 0} {
  if (left_ == 0) {
    return;
  }
  std::int64_t const others = claimed_bytes.fetch_add(left_);
  std::int64_t const available = available_memory();
  if (available >= 0 && bytes > available - others) {
    claimed_bytes.fetch_sub(left_);
    throw Error{"out of memory: " + std::string{who} + " asks for " + std::to_string(bytes) +
                " bytes, and " + std::to_string(available > others ? available - others : 0) +
                " are left; use a smaller batch, more microbatches or more devices"};
  }
}

}  // namespace tandem::detail

#endif
