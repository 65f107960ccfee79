// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// FewThreads: for as long as it lives the system starts only a few more threads, since the process
/// has no addresses left for their stacks.

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include <sanitizers.hpp>

namespace tandem::test {

class [[nodiscard]] FewThreads {
 public:
  /// Sanitizers need addresses without end.
  static constexpr bool possible = TANDEM_TEST_SANITIZED == 0;

  FewThreads() {
    ::getrlimit(RLIMIT_AS, &before_);
    unsigned long pages = 0;
    if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
      if (std::fscanf(file, "%lu", &pages) != 1) {
        pages = 0;
      }
      std::fclose(file);
    }
    rlimit few = before_;
    few.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{100} << 20);
    ::setrlimit(RLIMIT_AS, &few);
  }
  FewThreads(FewThreads const&) = delete;
  FewThreads& operator=(FewThreads const&) = delete;
  ~FewThreads() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

}  // namespace tandem::test
