// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/rotary.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/host/rotary.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace rotary_test {
namespace {

using test::DeviceArray;
using test::gpu;
using test::MasterOf;

struct Case {
  int batch, time;
  cuda::RotaryHeads heads;
};
// Whole packs of a half and not, all heads turned and some, a warp a row and a block a row.
constexpr Case cases[] = {{2, 5, {4, 4, 16}}, {1, 7, {6, 4, 6}}, {3, 1, {1, 1, 2}},
                          {2, 9, {3, 2, 64}}, {1, 4, {5, 0, 8}}, {2, 3, {36, 24, 64}},
                          {0, 4, {2, 2, 8}}};

TEST_CASE_TEMPLATE("rotary positions: as Host's in double, and turned back by the gradient", T,
                   float, double, BFloat16) {
  using P = MasterOf<T>;
  constexpr int longest = 12;
  host::Team team{1};
  for (Case const& c : cases) {
    CAPTURE(c.heads.all);
    CAPTURE(c.heads.size);
    std::int64_t const n = std::int64_t{c.batch} * c.time * c.heads.all * c.heads.size;
    auto const x = test::numbers<T>(n, 1);
    auto const wide = test::in_double(x);
    auto const angles = static_cast<std::size_t>(longest * c.heads.half());
    std::vector<double> cosine(angles);
    std::vector<double> sine(angles);
    host::rotary_table(longest, c.heads.size, 10000.0, cosine.data(), sine.data());
    DeviceArray<std::byte> const memory{gpu(), cuda::RotaryTable<P>::bytes(longest, c.heads.size)};
    auto const table = cuda::RotaryTable<P>::at(memory.data(), longest, c.heads.size);
    cuda::rotary_table(gpu().compute, longest, c.heads.size, 10000.0, table);
    for (bool const backwards : {false, true}) {
      std::vector<double> expected(wide.size());
      host::rotate(team, c.batch, c.time, {c.heads.all, c.heads.turned, c.heads.size}, wide.data(),
                   cosine.data(), sine.data(), backwards, expected.data());
      for (bool const unaligned : {false, true}) {
        DeviceArray<T> const in{gpu(), x, {.unaligned = unaligned}};
        DeviceArray<T> const y{gpu(), n};
        cuda::rotate(gpu().compute, c.batch, c.time, c.heads, in.data(), table, backwards,
                     y.data());
        auto const out = y.host();
        test::check_within(out, expected, [&](std::size_t i) {
          // And of an angle of at most `longest`, whose sine and cosine change as it does.
          return 8 * test::unit<P> + 4 * longest * test::unit<double> +
                 test::stored_unit<T> * std::abs(expected[i]);
        });
        cuda::rotate(gpu().compute, c.batch, c.time, c.heads, in.data(), table, backwards,
                     in.data());
        CHECK(test::same_bits(in.host(), out));
      }
    }
    static_cast<void>(memory.host());
  }
}

}  // namespace
}  // namespace rotary_test
}  // namespace tandem
