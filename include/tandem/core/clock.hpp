// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The durations and clocks of std::chrono, for less compile time than <chrono> costs.
///
/// <chrono> also brings the calendar, and <sstream> for it. <condition_variable> has the rest,
/// since its waits take durations; a library in which it has not will not compile this header.

#include <condition_variable>

namespace tandem::detail {

using ClockCheck = std::chrono::time_point<std::chrono::steady_clock, std::chrono::milliseconds>;

}  // namespace tandem::detail
