// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Columns: how the numbers of a row, or the channels of an image, may be dealt out over ranks, and
/// what a layer makes of such a row.

#include <cstdint>

#include <tandem/core/shape.hpp>

namespace tandem {

/// The axis along which a value is dealt out: the channels of an image, else the last.
constexpr int column_axis(Shape const& shape) { return shape.rank == 3 ? 0 : shape.rank - 1; }

namespace detail {

constexpr int row_columns(Shape const& shape) { return shape.extent[column_axis(shape)]; }

}  // namespace detail

/// Which slice of a row, a node or a parameter a rank has.
struct Slice {
  int number = 0;
  int count = 1;
};

/// Rows of each of @p slices of a table of @p rows: as many, so that the last may have some behind
/// the table's end, which are nobody's.
constexpr int padded_slice(int rows, int slices) { return (rows + slices - 1) / slices; }

/// A slice's own rows of a table.
struct OwnRows {
  int first = 0;
  int count = 0;
};
constexpr OwnRows padded_range(int rows, Slice slice) {
  int const each = padded_slice(rows, slice.count);
  int const first = slice.number * each < rows ? slice.number * each : rows;
  return {first, rows - first < each ? rows - first : each};
}

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

  /// Whether its parts are as long, whatever their units.
  [[nodiscard]] constexpr bool same_parts(ColumnParts const& other) const {
    bool same = count == other.count;
    for (int part = 0; part < count && same; ++part) {
      same = size[part] == other.size[part];
    }
    return same;
  }

  /// f(first column of a run in the slice's row, in the whole row, columns) of slice @p number of
  /// @p slices. A part that these do not divide is padded.
  template <class F>
  constexpr void each_run(int number, int slices, F const& f) const {
    int own = 0;
    int whole = 0;
    for (int part = 0; part < count; ++part) {
      int const run = padded_slice(size[part], slices);
      auto const [first, rows] = padded_range(size[part], {number, slices});
      f(own, whole + first, rows);
      own += run;
      whole += size[part];
    }
  }

  friend constexpr bool operator==(ColumnParts const&, ColumnParts const&) = default;
};

/// What a layer that needs no whole row says of itself. Its parameters, if it has any, have a row
/// for each column of y.
struct Columns {
  bool each = false;  ///< y's column c is made of x's column c alone, whichever that is
  ColumnParts in{};   ///< else: the parts of a row of x, count 0 where it needs whole rows
  ColumnParts out{};  ///< and of y

  [[nodiscard]] constexpr bool any() const { return each || in.count > 0; }

  static constexpr Columns alike() { return {.each = true}; }

  friend constexpr bool operator==(Columns const&, Columns const&) = default;
};

/// Rows that are dealt out in runs of equal length: slice k has the k-th. Where their number is no
/// multiple of the slices' the last runs end with rows that are none.
struct DealtRows {
  std::int64_t all = 0;
  Slice slice{};

  /// Of a run.
  [[nodiscard]] constexpr std::int64_t each() const {
    return (all + slice.count - 1) / slice.count;
  }
  [[nodiscard]] constexpr std::int64_t first() const { return slice.number * each(); }
  /// Those of the run that there are.
  [[nodiscard]] constexpr std::int64_t own() const {
    std::int64_t const left = all - first();
    return left < 0 ? 0 : left < each() ? left : each();
  }
};

}  // namespace tandem
