// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A schedule lowered and verified by the compiler, each step with a budget of its own.

#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace tandem_test {

template <class S, int Devices, int Microbatches>
struct Verified {
  static constexpr auto map = tandem::schedule_map<S, Devices>();
  static constexpr auto table =
      tandem::lower(tandem::schedule_table<S, Devices, Microbatches>(), map);
  static constexpr tandem::Verdict verdict = tandem::verify(table, map, Microbatches);
  static_assert(verdict);
  static_assert(tandem::live_microbatches(table, map, 0) >= 1);
};

template <class S, int Devices, int Microbatches>
constexpr bool valid_if_it_fits() {
  if constexpr (S::fits(Devices, Microbatches)) {
    return static_cast<bool>(Verified<S, Devices, Microbatches>::verdict);
  } else {
    return true;
  }
}

template <class S, int Devices, int... Microbatches>
constexpr bool valid_for() {
  return (valid_if_it_fits<S, Devices, Microbatches>() && ...);
}

/// Stages 1 to 16, microbatches 1 to 16: fewer than devices, as many, more, and uneven.
template <class S>
constexpr bool valid_on_grid() {
  return valid_for<S, 1, 1, 2, 4, 7, 8>() && valid_for<S, 2, 1, 2, 4, 7, 8, 16>() &&
         valid_for<S, 3, 1, 2, 3, 7, 9>() && valid_for<S, 4, 1, 2, 4, 7, 8, 10, 16>() &&
         valid_for<S, 8, 1, 2, 7, 8, 16>() && valid_for<S, 16, 1, 4, 16>();
}

}  // namespace tandem_test
