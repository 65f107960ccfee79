// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Columns: how the numbers of a row may be dealt out over ranks, and what a layer makes of such a
/// row.

#include <cstdint>

namespace tandem {

/// A row as parts one behind the other, each of which is dealt out by itself: [queries | keys |
/// values]. A part is dealt out in runs of whole units, such as the D numbers of a head.
struct ColumnParts {
  static constexpr int most = 3;
  int count = 0;  ///< 0: nothing is known
  int size[most] = {};
  int unit[most] = {};

  static constexpr ColumnParts whole(int columns) { return {1, {columns}, {1}}; }

  /// Numbers of a row.
  [[nodiscard]] constexpr int columns() const {
    int sum = 0;
    for (int part = 0; part < count; ++part) {
      sum += size[part];
    }
    return sum;
  }
  /// Whether @p slices ranks get as many whole units of each part.
  [[nodiscard]] constexpr bool divides(int slices) const {
    bool all = count > 0;
    for (int part = 0; part < count; ++part) {
      all = all && size[part] % (unit[part] * slices) == 0;
    }
    return all;
  }

  /// f(first column of a run in the slice's row, in the whole row, columns) of slice @p number of
  /// @p slices.
  template <class F>
  constexpr void each_run(int number, int slices, F const& f) const {
    int own = 0;
    int whole = 0;
    for (int part = 0; part < count; ++part) {
      int const run = size[part] / slices;
      f(own, whole + number * run, run);
      own += run;
      whole += size[part];
    }
  }

  friend constexpr bool operator==(ColumnParts const&, ColumnParts const&) = default;
};

/// What a layer that needs no whole row says of itself.
struct Columns {
  bool each = false;  ///< y's column c is made of x's column c alone, whichever that is
  ColumnParts in{};   ///< else: the parts of a row of x, count 0 where it needs whole rows
  ColumnParts out{};  ///< and of y

  static constexpr Columns alike() { return {.each = true}; }
};

/// Which slice of a row, a node or a parameter a rank has.
struct Slice {
  int number = 0;
  int count = 1;
};

}  // namespace tandem
