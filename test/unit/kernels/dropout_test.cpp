// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/dropout.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace dropout_test {

using namespace tandem;
using test::Team;

template <class T>
std::vector<T> dropped(DropoutPlace const& place, int batch, std::int64_t elements, float rate) {
  auto const x = test::random<T>(batch * elements, 1);
  return test::on_teams([&](Team& team) {
    auto y = test::poisoned<T>(batch * elements);
    host::dropout_forward(team, batch, elements, place, rate, x.data(), y.data());
    auto again = x;
    host::dropout_gradient(team, batch, elements, place, rate, again.data(), again.data());
    CHECK(test::same_bits(again, y));  // the same map, also in place
    return y;
  });
}

TEST_CASE_TEMPLATE("dropout: word j mod 4 of block j / 4 decides element j", T, float, double) {
  DropoutPlace const place{.seed = 7, .step = 5, .layer = 3, .first_sample = 11};
  for (std::int64_t const elements : {1, 3, 4, 5, 64, 101, 300}) {
    auto const x = test::random<T>(3 * elements, 1);
    auto const y = dropped<T>(place, 3, elements, 0.4F);
    T const scale = T{1} / (T{1} - static_cast<T>(0.4F));
    for (std::uint64_t s = 0; s < 3; ++s) {
      for (std::uint64_t j = 0; j < static_cast<std::uint64_t>(elements); ++j) {
        Random4 const r = philox(7, RandomUse::dropout, (5ULL << 32) | 3, ((11 + s) << 32) | j / 4);
        auto const i = s * static_cast<std::uint64_t>(elements) + j;
        CHECK(y[i] == (uniform(r.word[j % 4]) >= 0.4F ? x[i] * scale : T{0}));
      }
    }
  }
}

TEST_CASE("dropout: a batch in parts has the mask of the whole") {
  auto const whole = dropped<double>({.seed = 1, .first_sample = 4}, 5, 13, 0.5F);
  auto const x = test::random<double>(5 * 13, 1);
  Team team{1};
  for (std::uint32_t s = 0; s < 5; ++s) {
    std::vector<double> y(13);
    host::dropout_forward(team, 1, 13, {.seed = 1, .first_sample = 4 + s}, 0.5F, x.data() + s * 13,
                          y.data());
    CHECK(test::same_bits(y, {whole.begin() + s * 13, whole.begin() + (s + 1) * 13}));
  }
}

TEST_CASE("dropout: rates, steps and layers") {
  CHECK(dropped<float>({}, 1, 100, 0.0F) == test::random<float>(100, 1));
  auto const base = dropped<float>({.seed = 1, .step = 2, .layer = 3}, 1, 100, 0.5F);
  CHECK(base != dropped<float>({.seed = 2, .step = 2, .layer = 3}, 1, 100, 0.5F));
  CHECK(base != dropped<float>({.seed = 1, .step = 3, .layer = 3}, 1, 100, 0.5F));
  CHECK(base != dropped<float>({.seed = 1, .step = 2, .layer = 2}, 1, 100, 0.5F));
  std::int64_t zeros = 0;
  for (float const value : dropped<float>({}, 1, 100000, 0.3F)) {
    zeros += value == 0 ? 1 : 0;
  }
  CHECK(std::abs(static_cast<double>(zeros) - 30000) <= 5 * 145);  // 5 deviations, sqrt(n p q)
}

}  // namespace dropout_test
