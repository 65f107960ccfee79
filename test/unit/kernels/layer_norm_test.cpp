// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/layer_norm.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "rows.hpp"

namespace layer_norm_test {

using namespace tandem;
using test::Team;

/// Everything that a norm of @p rows computes.
template <class T>
struct Results {
  std::vector<T> y;
  std::vector<T> dx;
  std::vector<host::Real<T>> of_rows;      // mean and inverse
  std::vector<host::Real<T>> of_channels;  // dgain and dbias
};

template <bool Centered, class T>
Results<T> norm(Team& team, std::int64_t rows, int channels, bool with_bias = true) {
  using P = host::Real<T>;
  std::int64_t const n = rows * channels;
  auto const x = test::row_numbers<T>(n, 1, 3.0F);
  auto const dy = test::row_numbers<T>(n, 2);
  auto const gain = test::row_numbers<P>(channels, 3);
  auto const bias = test::row_numbers<P>(channels, 4);
  Results<T> r{test::row_poison<T>(n), test::row_poison<T>(n), test::row_poison<P>(2 * rows),
               test::row_poison<P>(2 * channels)};
  P* const mean = r.of_rows.data();
  P* const inverse = mean + rows;
  host::norm_forward<Centered>(team, rows, channels, x.data(), gain.data(),
                               with_bias ? bias.data() : nullptr, 1e-5, r.y.data(),
                               Centered ? mean : nullptr, inverse);
  std::vector<double> scratch(
      static_cast<std::size_t>(host::norm_scratch_bytes<T>(rows, channels) / 8 + 1));
  auto* const memory = reinterpret_cast<std::byte*>(scratch.data());
  P* const dgain = r.of_channels.data();
  host::norm_gradient<Centered>(team, rows, channels, x.data(), dy.data(), gain.data(), mean,
                                inverse, r.dx.data(), dgain, dgain + channels, memory);
  auto alone = test::row_poison<P>(2 * channels);  // the parameters' without dx: the same bits
  host::norm_gradient<Centered>(team, rows, channels, x.data(), dy.data(), gain.data(), mean,
                                inverse, static_cast<T*>(nullptr), alone.data(),
                                alone.data() + channels, memory);
  CHECK(test::same_bits(alone, r.of_channels));
  auto place = dy;
  host::norm_gradient<Centered>(team, rows, channels, x.data(), place.data(), gain.data(), mean,
                                inverse, place.data(), alone.data(), alone.data() + channels,
                                memory);
  CHECK(test::same_bits(place, r.dx));
  return r;
}

TEST_CASE("a layer norm of rows by hand") {
  Team team{1};
  std::vector<double> const x{1, 2, 3, 6, 5, 5, 5, 5};
  std::vector<double> const gain{1, 1, 2, 1};
  std::vector<double> const bias{0, 0, 0, 10};
  std::vector<double> y(8);
  std::vector<double> mean(2);
  std::vector<double> inverse(2);
  host::norm_forward<true>(team, 2, 4, x.data(), gain.data(), bias.data(), 0.5, y.data(),
                           mean.data(), inverse.data());
  CHECK(mean == std::vector<double>{3, 5});
  CHECK(inverse[0] == doctest::Approx(0.5));  // variance 3.5
  CHECK(test::row_error(y, {-1, -0.5, 0, 11.5, 0, 0, 0, 10}) < 1e-15);
  host::norm_forward<false>(team, 2, 4, x.data(), gain.data(), static_cast<double*>(nullptr), 3.5,
                            y.data(), static_cast<double*>(nullptr), inverse.data());
  CHECK(inverse[0] == doctest::Approx(0.25));  // mean of squares 12.5
  CHECK(y[2] == doctest::Approx(1.5));
}

TEST_CASE_TEMPLATE("norms are those in double, whatever the threads", T, float, BFloat16) {
  Team one{1};
  for (int const channels : {1, 7, 16, 50}) {
    for (std::int64_t const rows : {0, 1, 37, 1500}) {
      auto const layer = norm<true, double>(one, rows, channels);
      auto const rms = norm<false, double>(one, rows, channels, false);
      std::vector<Results<T>> first;
      for (int threads = 1; threads <= 3; ++threads) {
        Team team{threads};
        std::vector<Results<T>> r;
        r.push_back(norm<true, T>(team, rows, channels));
        r.push_back(norm<false, T>(team, rows, channels, false));
        if (threads == 1) {
          first = r;
          continue;
        }
        for (std::size_t i = 0; i < 2; ++i) {
          CHECK(test::same_bits(r[i].y, first[i].y));
          CHECK(test::same_bits(r[i].dx, first[i].dx));
          CHECK(test::same_bits(r[i].of_rows, first[i].of_rows));
          CHECK(test::same_bits(r[i].of_channels, first[i].of_channels));
        }
      }
      if (channels == 1) {
        continue;  // its variance is 0, and 1 / sqrt(epsilon) makes the errors of x large
      }
      std::size_t i = 0;
      for (Results<double> const& wanted : {layer, rms}) {
        CHECK(test::row_error(first[i].y, wanted.y) < test::row_bound<T>);
        CHECK(test::row_error(first[i].dx, wanted.dx) < test::row_bound<T> * 64);
        CHECK(test::row_error(first[i].of_channels, wanted.of_channels) < 2e-5);
        ++i;
      }
    }
  }
}

}  // namespace layer_norm_test
