// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BusyCores: notices that a program is slow because OpenMP's threads spin on busy cores.

#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/runtime/host/openmp.hpp>

namespace tandem::host {

/// Counts from where it is made on. A core that another program takes keeps the other threads of a
/// device's team spinning until it is given back, some milliseconds each time, so that a step takes
/// 6 to 20 times as long (docs/host.md, Threads).
class BusyCores {
 public:
  /// More in a second than on a machine that does nothing else.
  static constexpr double preemptions_per_second = 50;

  BusyCores() : begin_{preemptions()} {}

  /// What to tell the user after @p seconds, or "".
  [[nodiscard]] std::string advice(double seconds) const {
    return advice(preemptions() - begin_, seconds, openmp_spins());
  }

  /// What to tell the user after @p preemptions in @p seconds, or "".
  /// @param spins  whether waiting threads of OpenMP spin
  TANDEM_ONCE [[nodiscard]] TANDEM_COLD static std::string advice(std::int64_t preemptions,
                                                                  double seconds, bool spins);

 private:
  // How often the system has taken a core from a thread of this process that wanted to go on.
  static std::int64_t preemptions() {
    rusage used{};
    return ::getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_nivcsw : 0;
  }

  // As they do where the environment says nothing else.
  static bool openmp_spins() {
    return openmp_has_teams && std::getenv("OMP_WAIT_POLICY") == nullptr &&
           std::getenv("GOMP_SPINCOUNT") == nullptr;
  }

  std::int64_t begin_;
};

}  // namespace tandem::host

#if TANDEM_BODIES

namespace tandem::host {

TANDEM_ONCE std::string BusyCores::advice(std::int64_t preemptions, double seconds, bool spins) {
  double const rate = static_cast<double>(preemptions) / seconds;
  if (!spins || seconds < 1 || rate < preemptions_per_second) {
    return "";
  }
  return "other programs took a core from this one " +
         std::to_string(static_cast<std::int64_t>(rate)) +
         " times a second, and OpenMP's threads spin while they wait for it: start this one with "
         "OMP_WAIT_POLICY=passive\n";
}

}  // namespace tandem::host

#endif
