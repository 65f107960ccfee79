// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Progress: what training prints while it runs, on standard error.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/runtime/host/busy_cores.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

/// A live line on a terminal, one plain line an epoch otherwise, nothing if silent.
struct Progress {
  bool silent = false;

  static constexpr Progress none() { return {.silent = true}; }
};

/// Prints once, if a program trains with progress, what computes, and of several processes "4 ranks
/// in 2 processes on 1 machine".
class FirstLines {
 public:
  TANDEM_ONCE void print(Progress const& progress, std::string const& computes_with, int ranks,
                         World const& world);

 private:
  bool printed_ = false;
};

/// Prints one epoch's progress; the caller says when a step is done.
class ProgressLine {
 public:
  ProgressLine(Progress const& progress, Epoch epoch, std::int64_t samples)
      : silent_{progress.silent},
        live_{!progress.silent && isatty(STDERR_FILENO) == 1},
        epoch_{epoch},
        samples_{samples},
        last_{std::chrono::steady_clock::now() - std::chrono::seconds{1}} {}

  /// So many samples have been trained on before.
  void leave_out(std::int64_t samples) { samples_ -= samples; }

  /// The epoch has been trained before.
  TANDEM_ONCE void skip() const;

  /// At most ten times a second, on a terminal only.
  TANDEM_ONCE void step(EpochResult const& so_far);

  TANDEM_ONCE void finish(EpochResult const& result);

 private:
  // Once in a program.
  TANDEM_ONCE static void tell_of_busy_cores(std::string const& advice);

  TANDEM_ONCE void print_epoch(char const* before) const;

  TANDEM_ONCE void print(EpochResult const& r, char const* before, char const* after) const;

  host::BusyCores cores_;
  bool silent_;
  bool live_;
  Epoch epoch_;
  std::int64_t samples_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void FirstLines::print(Progress const& progress, std::string const& computes_with,
                                   int ranks, World const& world) {
  if (progress.silent || world.process != 0 || printed_) {
    return;
  }
  printed_ = true;
  if (!computes_with.empty()) {
    std::fprintf(stderr, "computes with %s\n", computes_with.c_str());
  }
  if (world.processes == 1) {
    return;
  }
  std::fprintf(stderr, "%d ranks in %d processes", ranks, world.processes);
  if (world.machines > 0) {
    std::fprintf(stderr, " on %d machine%s", world.machines, world.machines == 1 ? "" : "s");
  }
  std::fputs("\n", stderr);
}

TANDEM_ONCE void ProgressLine::skip() const {
  if (!silent_) {
    print_epoch("");
    std::fprintf(stderr, "  trained before\n");
    std::fflush(stderr);
  }
}

TANDEM_ONCE void ProgressLine::step(EpochResult const& so_far) {
  auto const now = std::chrono::steady_clock::now();
  if (live_ && now - last_ >= std::chrono::milliseconds{100}) {
    last_ = now;
    print(so_far, "\r", "\033[K");
  }
}

TANDEM_ONCE void ProgressLine::finish(EpochResult const& result) {
  if (!silent_) {
    print(result, live_ ? "\r" : "", live_ ? "\033[K\n" : "\n");
    tell_of_busy_cores(cores_.advice(result.seconds));
  }
}

TANDEM_ONCE void ProgressLine::tell_of_busy_cores(std::string const& advice) {
  static std::atomic<bool> told{false};
  if (!advice.empty() && !told.exchange(true)) {
    std::fputs(advice.c_str(), stderr);
  }
}

TANDEM_ONCE void ProgressLine::print_epoch(char const* before) const {
  std::fprintf(stderr, "%sepoch %lld", before, static_cast<long long>(epoch_.index + 1));
  if (epoch_.total > 0) {
    std::fprintf(stderr, "/%lld", static_cast<long long>(epoch_.total));
  }
}

TANDEM_ONCE void ProgressLine::print(EpochResult const& r, char const* before,
                                     char const* after) const {
  print_epoch(before);
  std::fprintf(stderr, "  %lld/%lld samples  loss %.4f", static_cast<long long>(r.samples),
               static_cast<long long>(samples_), r.loss);
  for (auto const [name, value] : r.metrics) {
    std::fprintf(stderr, "  %.*s %.4f", static_cast<int>(name.size()), name.data(), value);
  }
  std::fprintf(stderr, "  %.0f samples/s%s", r.samples_per_second(), after);
  std::fflush(stderr);
}

}  // namespace tandem

#endif
