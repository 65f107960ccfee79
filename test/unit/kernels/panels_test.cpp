// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/panels.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace panels_test {

using namespace tandem;
namespace detail = host::detail;

TEST_CASE("the parts of a product cover it once, in whole panels") {
  for (std::int64_t const m : {0, 1, 6, 7, 100}) {
    for (std::int64_t const n : {0, 1, 32, 33, 500}) {
      for (std::int64_t const parts : {1, 2, 3, 40}) {
        std::int64_t elements = 0;
        for (std::int64_t part = 0; part < parts; ++part) {
          detail::Part const p{m, n, part, parts};
          CHECK((p.rows.begin % detail::tile_rows == 0 || p.rows.begin == m));
          CHECK((p.columns.begin % detail::tile_columns == 0 || p.columns.begin == n));
          elements += (p.rows.end - p.rows.begin) * (p.columns.end - p.columns.begin);
          if (part > 0) {
            detail::Part const before{m, n, part - 1, parts};
            CHECK((p.rows.begin == before.rows.end || p.columns.begin == before.columns.end));
          }
        }
        CHECK(elements == m * n);
      }
    }
  }
}

TEST_CASE_TEMPLATE("pack_panel: both strides, zeros behind the last row", T, float, double) {
  auto const x = test::random<T>(100, 1);
  for (std::int64_t const count : {1, 5, 6}) {
    for (bool const contiguous : {false, true}) {
      std::int64_t const stride = contiguous ? 1 : 9;
      std::int64_t const step = contiguous ? 11 : 1;
      auto panel = test::poisoned<T>(7 * 6);
      detail::pack_panel<6>(count, 7, x.data(), stride, step, panel.data());
      for (std::int64_t p = 0; p < 7; ++p) {
        for (std::int64_t i = 0; i < 6; ++i) {
          CHECK(panel[static_cast<std::size_t>(p * 6 + i)] ==
                (i < count ? x[static_cast<std::size_t>(i * stride + p * step)] : T{0}));
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("multiply_panels: each column is the sum in order of k", T, float, double) {
  std::int64_t const depth = 5;
  auto const left = test::random<T>(depth * detail::tile_rows, 1);
  // Powers of two are exact as factors: a sum in another order, or with another rounding, would
  // show.
  std::vector<T> right(static_cast<std::size_t>(depth * detail::tile_columns));
  for (std::size_t i = 0; i < right.size(); ++i) {
    right[i] = i % 3 == 0 ? T{0.5} : T{2};
  }
  auto tile = test::poisoned<T>(detail::tile_rows * detail::tile_columns);
  detail::multiply_panels(depth, left.data(), right.data(), tile.data());
  for (std::size_t i = 0; i < detail::tile_rows; ++i) {
    for (std::size_t j = 0; j < detail::tile_columns; ++j) {
      T total{0};
      for (std::size_t p = 0; p < 5; ++p) {
        total += left[p * detail::tile_rows + i] * right[p * detail::tile_columns + j];
      }
      CHECK(tile[i * detail::tile_columns + j] == total);
    }
  }
}

}  // namespace panels_test
