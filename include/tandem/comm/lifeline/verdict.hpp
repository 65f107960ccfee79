// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineVerdict: what went wrong first in a program of several processes, the same for all of
/// them.

#include <string>

#include <tandem/core/config.hpp>

namespace tandem {

/// The first failure of a program.
struct LifelineVerdict {
  int process = 0;         ///< that failed
  int rank = -1;           ///< that failed in it; -1: the process as a whole
  std::string machine{};   ///< that it is on
  std::string what{};      ///< the error of the rank, or what became of the process
  bool timed_out = false;  ///< somebody has waited too long for it: `what` is all of the sentence

  /// "process 1 on node7 has ended without a word"; "on node7, process 1: the disk is full"
  TANDEM_ONCE [[nodiscard]] std::string reason() const;

  friend bool operator==(LifelineVerdict const&, LifelineVerdict const&) = default;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string LifelineVerdict::reason() const {
  if (timed_out) {
    return what;
  }
  std::string const number = std::to_string(process);
  return rank < 0 ? "process " + number + (machine.empty() ? "" : " on " + machine) + " " + what
                  : "on " + machine + ", process " + number + ": " + what;
}

}  // namespace tandem

#endif
