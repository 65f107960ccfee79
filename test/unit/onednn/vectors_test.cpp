// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <tandem/kernels/channels_last/vectors.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>

namespace vectors_test {

using namespace tandem;
using namespace tandem::host::channels_last;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

using Lanes = std::array<float, lanes>;

Lanes of(Floats const& v) {
  Lanes result;
  store(result.data(), v);
  return result;
}

Floats counting(float first, float step) {
  Lanes result;
  for (float& value : result) {
    value = first;
    first += step;
  }
  return load(result.data());
}

TEST_CASE("vectors: every BFloat16 is loaded as itself") {
  for (std::uint32_t first = 0; first < 0x10000; first += lanes) {
    std::array<BFloat16, lanes> halves;
    for (std::uint32_t i = 0; i < lanes; ++i) {
      halves[i].bits = static_cast<std::uint16_t>(first + i);
    }
    Lanes const wide = of(load(halves.data()));
    for (std::uint32_t i = 0; i < lanes; ++i) {
      REQUIRE(std::bit_cast<std::uint32_t>(wide[i]) == (first + i) << 16);
    }
  }
}

TEST_CASE("vectors: stores round as BFloat16 does, but perhaps for subnormal numbers") {
  // Each upper half with what decides: exact, below, at and above the middle, all ones.
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    Lanes wide{};
    std::uint32_t const lower[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    for (std::size_t i = 0; i < lanes; ++i) {
      wide[i] = std::bit_cast<float>(upper << 16 | lower[i % 6]);
    }
    std::array<BFloat16, lanes> halves;
    store(halves.data(), load(wide.data()));
    for (std::size_t i = 0; i < lanes; ++i) {
      BFloat16 const expected{wide[i]};
      bool const flushed = std::abs(wide[i]) < std::numeric_limits<float>::min() &&
                           halves[i].bits == (upper & 0x8000U);
      REQUIRE((halves[i].bits == expected.bits || flushed));
    }
  }
}

TEST_CASE_TEMPLATE("vectors: the first lanes only", T, float, BFloat16) {
  T const canary{-3.0F};
  for (int n = 0; n <= lanes; ++n) {
    std::vector<T> from;  // of exactly n elements: a sanitizer sees a read behind them
    for (int i = 0; i < n; ++i) {
      from.push_back(T{static_cast<float>(i + 1)});
    }
    Floats const loaded = load(from.data(), n);
    Lanes const wide = of(loaded);
    std::array<T, lanes> to;
    to.fill(canary);
    store(to.data(), loaded, n);
    for (int i = 0; i < lanes; ++i) {
      auto const at = static_cast<std::size_t>(i);
      CHECK(wide[at] == (i < n ? static_cast<float>(i + 1) : 0.0F));
      CHECK(to[at] == (i < n ? T{static_cast<float>(i + 1)} : canary));
    }
  }
}

TEST_CASE("vectors: arithmetic and comparisons are those of each lane") {
  Floats const a = counting(-8.0F, 1.0F);
  Floats const b = counting(3.0F, -0.5F);
  Lanes const x = of(a);
  Lanes const y = of(b);
  Floats total = a;
  total += b;
  for (std::size_t i = 0; i < lanes; ++i) {
    CHECK(of(a + b)[i] == x[i] + y[i]);
    CHECK(of(a - b)[i] == x[i] - y[i]);
    CHECK(of(a * b)[i] == x[i] * y[i]);
    CHECK(of(total)[i] == x[i] + y[i]);
    CHECK(of(multiply_add(a, b, a))[i] == x[i] * y[i] + x[i]);
    CHECK(of(max(a, b))[i] == (x[i] > y[i] ? x[i] : y[i]));
    CHECK(of(min(a, b))[i] == (x[i] < y[i] ? x[i] : y[i]));
    CHECK(of(select(a > b, a, Floats{7.0F}))[i] == (x[i] > y[i] ? x[i] : 7.0F));
    CHECK(of(select(a <= b, a, Floats{7.0F}))[i] == (x[i] <= y[i] ? x[i] : 7.0F));
    CHECK(of(select(a == Floats{2.0F}, b, a))[i] == (i == 10 ? y[i] : x[i]));
    CHECK(of(where_positive(a, b))[i] == (x[i] > 0 ? y[i] : 0.0F));
  }
}

TEST_CASE("vectors: square roots are rounded as those of each lane") {
  for (float first = 1e-30F; first < 1e30F; first *= 3.0F) {
    Floats const x = counting(first, 0.37F * first);
    Lanes const root = of(sqrt(x));
    for (std::size_t i = 0; i < lanes; ++i) {
      CHECK(root[i] == std::sqrt(of(x)[i]));
    }
  }
  CHECK(std::isnan(of(sqrt(Floats{-1.0F}))[0]));
}

TEST_CASE("vectors: what becomes of a NaN") {
  Floats const number{1.0F};
  CHECK(std::isnan(of(max(Floats{nan}, number))[3]));
  CHECK(std::isnan(of(min(Floats{nan}, number))[3]));
  CHECK(of(max(number, Floats{nan}))[3] == 1.0F);
  CHECK(of(min(number, Floats{nan}))[3] == 1.0F);
  CHECK(of(where_positive(Floats{nan}, number))[3] == 1.0F);
  CHECK(std::isnan(of(where_positive(Floats{nan}, Floats{nan}))[3]));
}

}  // namespace vectors_test

#endif
