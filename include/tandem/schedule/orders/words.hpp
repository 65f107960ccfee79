// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ScheduleWords: what is said of a schedule, and by what; each schedule has its own beside its
/// order.

namespace tandem {

/// A schedule has them as `words` if it is to be found by its name; all.hpp lists those.
///
/// It may besides have, for Pipeline's error, its own sentence in
/// `template <int Parts, int Count, bool Fits> struct Takes`: a static_assert of Fits, beside a
/// `value` that is true.
struct ScheduleWords {
  /// As a strategy's type begins, with {count} for the microbatches and {chunks} for the stages a
  /// device. Without {count}, the planner tries one microbatch of each copy of the model.
  char const* type;
  /// What it takes, behind "give".
  char const* devices = "1 or more";
  char const* microbatches = "1 microbatch or more";
  int least_devices = 1;
  int multiple_of_devices = 1;  ///< what their number is a multiple of
  int tried_chunks = 1;         ///< stages a device with which the planner tries it

  [[nodiscard]] constexpr bool runs_on(int number) const {
    return number >= least_devices && number % multiple_of_devices == 0;
  }
};

}  // namespace tandem
