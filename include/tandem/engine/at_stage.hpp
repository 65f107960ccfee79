// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// at_stage: from the number of a stage, known when a rank runs, to its index, known to the
/// compiler.

#include <type_traits>
#include <utility>

namespace tandem {

/// Calls @p f with the index of the local stage @p id of a DeviceProgram, as a type.
template <class Program, class F>
void at_stage(int id, F const& f) {
  if constexpr (Program::stages.count == 1) {
    f(std::integral_constant<int, 0>{});
  } else {
    [&]<int... S>(std::integer_sequence<int, S...>) {
      (void)((Program::stages.stage[S].id == id && (f(std::integral_constant<int, S>{}), true)) ||
             ...);
    }
    (std::make_integer_sequence<int, Program::stages.count>{});
  }
}

}  // namespace tandem
