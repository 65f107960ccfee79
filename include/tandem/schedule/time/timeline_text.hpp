// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sentences about a timeline.

#include <string>

#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

namespace detail {

/// 123 tenths as "12.3".
inline std::string tenths(Ticks count) {
  return std::to_string(count / 10) + "." + std::to_string(count % 10);
}

/// "27.3 %", rounded to nearest.
inline std::string percent(Ticks part, Ticks whole) {
  return tenths(whole > 0 ? (part * 1000 + whole / 2) / whole : 0) + " %";
}

}  // namespace detail

/// "makespan 33, bubble 9 a rank, 27.3 % (idle from 0 to makespan)"; the fraction is of all
/// @p ranks together.
template <class Result>
std::string bubble_text(Result const& timeline, int ranks) {
  Ticks least = timeline.device[0].idle_in_step;
  Ticks most = least;
  Ticks sum = 0;
  for (int d = 0; d < ranks; ++d) {
    Ticks const idle = timeline.device[d].idle_in_step;
    least = idle < least ? idle : least;
    most = idle > most ? idle : most;
    sum += idle;
  }
  return "makespan " + std::to_string(timeline.makespan) + ", bubble " + std::to_string(least) +
         (most > least ? " to " + std::to_string(most) : "") + " a rank, " +
         detail::percent(sum, ranks * timeline.makespan) + " (idle from 0 to makespan)";
}

}  // namespace tandem
