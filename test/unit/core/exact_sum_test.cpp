// SPDX-License-Identifier: Apache-2.0
#include <tandem/core/exact_sum.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include <tandem/engine/step/sums.hpp>

namespace tandem {
namespace exact_sum_test {

static_assert(8 * tandem::exact_lanes == 704);  // bytes, as docs/cluster.md has it

using Row = std::array<double, exact_lanes>;
using Limits = std::numeric_limits<double>;

static_assert(exact_lanes == 88);

/// Splitmix64, which Python has, too.
struct Random {
  std::uint64_t state;
  std::uint64_t operator()() {
    state += 0x9E3779B97F4A7C15;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
};

struct Exponents {
  std::uint64_t low, count;
};
constexpr Exponents ranges[] = {{0, 2047}, {1000, 40}, {0, 60}, {1940, 100}, {933, 180}};
constexpr std::size_t sizes[] = {1, 2, 3, 10, 100, 1000};

/// Of all doubles, some near 1, subnormal ones, very large ones, of 1e-27 to 1e27; in some sets
/// nearly all cancel.
std::vector<double> numbers(int seed) {
  Exponents const range = ranges[seed % 5];
  std::size_t const n = sizes[seed % 6];
  Random random{static_cast<std::uint64_t>(seed)};
  std::vector<double> all;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t const bits = random();
    std::uint64_t const exponent = range.low + (bits >> 52 & 0x7FF) % range.count;
    all.push_back(std::bit_cast<double>((bits & 0x800FFFFFFFFFFFFF) | exponent << 52));
  }
  if (seed / 2 % 3 == 0) {
    for (std::size_t i = n / 2; i + 1 < n; ++i) {
      all[i] = -all[i - n / 2];
    }
  }
  return all;
}

Row row_of(std::vector<double> const& all) {
  Row row{};
  for (double const value : all) {
    add_exactly(value, row.data());
  }
  return row;
}

double sum(std::vector<double> const& all) { return exact_total(row_of(all).data()); }

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

// float(sum(map(fractions.Fraction, numbers(seed)))), which Python rounds once.
constexpr double golden[] = {
    -0x1.0a8397b1dcdafp+547,  -0x1.a2dec8fe5c51ap+9,   -0x1.bbcc5eb16f295p-992,
    0x1.6ecfc56d74fe4p+1015,  -0x1.3392055bb4d8cp+90,  -0x1.a428065040071p+1023,
    -0x1.4a5d9adefe000p-1,    0x1.be1e45af5db56p-987,  -0x1.654383c6c1f8fp+1002,
    0x1.86420861f034ep+87,    0x1.3e5b69ebafc94p+1003, -0x1.d489c710fb322p+18,
    -0x1.ff9fc99de8f03p-1000, 0x1.4e3deaf36a008p+963,  0x1.119f8fc22478ap+22,
    -0x1.8b15819680bd8p+661,  0x1.c8d8ff91c2199p+13,   0x1.cd98372c08b19p-961,
    0x1.0b3d00955f032p+991,   0x1.b4fcdd7c6d939p+27,   0x1.9d22ed225a1f7p+8,
    0x1.94562eec28804p+4,     -0x1.7c7281135959ap-964, -0x1.5d12528d37073p+1014,
    -0x1.8c00000a81e44p+54,   -0x1.8bea9a73f4c5dp-479, 0x1.69769bf2fccadp+16,
    0x1.c7a96573fc955p-967,   0x1.c585735af676bp+1014, -0x1.b89322ed8338ap+90,
};

TEST_CASE("a sum is the exact one, rounded once") {
  for (int seed = 0; seed < static_cast<int>(std::size(golden)); ++seed) {
    CAPTURE(seed);
    CHECK(bits(sum(numbers(seed))) == bits(golden[seed]));
  }
}

TEST_CASE("the order of a sum, and who adds which part of it, change no bit") {
  for (int seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    std::vector<double> all = numbers(seed);
    std::uint64_t const wanted = bits(sum(all));
    Random random{77};
    for (int trial = 0; trial < 3; ++trial) {
      for (std::size_t i = all.size(); i > 1; --i) {
        std::swap(all[i - 1], all[random() % i]);
      }
      CHECK(bits(sum(all)) == wanted);
      std::vector<Row> ranks(1 + random() % 7);
      for (double const value : all) {
        add_exactly(value, ranks[random() % ranks.size()].data());
      }
      Row total{};
      for (std::size_t lane = 0; lane < total.size(); ++lane) {
        for (Row const& rank : ranks) {
          total[lane] += rank[lane];
        }
      }
      CHECK(bits(exact_total(total.data())) == wanted);
      for (int lane = 0; lane < exact_lanes; ++lane) {  // as a GPU adds them
        total[static_cast<std::size_t>(lane)] =
            exact_lane(all.data(), static_cast<int>(all.size()), 1, lane);
      }
      CHECK(bits(exact_total(total.data())) == wanted);
    }
  }
}

/// Losses and metrics as a step has them: of one exponent, of a few, whole numbers, zeros, or any.
double number_of_a_step(int kind, Random& random) {
  std::uint64_t const bits = random();
  std::uint64_t const mantissa = bits & 0xFFFFFFFFFFFFF;
  std::uint64_t const exponents[] = {1024, 1020 + (bits >> 52 & 7), 0, bits >> 52 & 0x7FF};
  if (kind == 4) {
    return static_cast<double>(bits & 31);
  }
  return std::bit_cast<double>((bits & (kind == 3 ? std::uint64_t{1} << 63 : 0)) | mantissa |
                               exponents[kind] << 52);
}

TEST_CASE("a step's numbers, added many at once, give the bits of one by one") {
  Random random{5};
  for (std::size_t const each : std::vector<std::size_t>{1, 2, 3, 4, 9}) {
    for (std::size_t const count : std::vector<std::size_t>{0, 1, 4, 5, 8, 33, 264, 3000}) {
      for (int kind = 0; kind < 25; ++kind) {  // of the even and of the odd numbers
        CAPTURE(each);
        CAPTURE(count);
        CAPTURE(kind);
        std::vector<double> sums;
        for (std::size_t i = 0; i < count * each; ++i) {
          bool const exception = kind % 3 == 0 && random() % 100 == 0;
          int const own = i % each % 2 == 0 ? kind % 5 : kind / 5;
          sums.push_back(number_of_a_step(exception ? 3 : own, random));
        }
        std::vector<double> lanes(each * exact_lanes, 1.0);
        put_exact_lanes(sums, each, lanes.data());
        for (std::size_t which = 0; which < each; ++which) {
          std::vector<double> column;
          for (std::size_t i = which; i < sums.size(); i += each) {
            column.push_back(sums[i]);
          }
          double const wanted = sum(column);
          double const got = exact_total(&lanes[which * exact_lanes]);
          CHECK((bits(got) == bits(wanted) || (std::isnan(got) && std::isnan(wanted))));
        }
      }
    }
  }
}

TEST_CASE("what cancels leaves what is far below it, and halves are rounded to even") {
  CHECK(sum({}) == 0.0);
  CHECK(bits(sum({-0.0})) == bits(0.0));
  CHECK(bits(sum({3.0, -3.0})) == bits(0.0));
  CHECK(sum({1e308, 1.0, -1e308}) == 1.0);
  CHECK(sum({1e308, -5e-324, -1e308}) == -5e-324);
  CHECK(sum({1.0, 0x1p-53}) == 1.0);
  CHECK(sum({1.0, 0x1p-53, 5e-324}) == 1.0 + 0x1p-52);
  CHECK(sum({1.0, 0x1p-53, -5e-324}) == 1.0);
  CHECK(sum({1.0 + 0x1p-52, 0x1p-53}) == 1.0 + 0x1p-51);
  CHECK(sum({5e-324, 5e-324, 5e-324}) == 1.5e-323);
  CHECK(sum({Limits::min(), -5e-324}) == 0x0.fffffffffffffp-1022);
}

TEST_CASE("a sum beyond the doubles is infinite, but not where the rest of it comes back") {
  double const most = Limits::max();
  CHECK(sum({most, most}) == Limits::infinity());
  CHECK(sum({-most, -most}) == -Limits::infinity());
  CHECK(sum({most, most, -most}) == most);
  CHECK(sum({most, 0x1p969}) == most);                // less than half of the last bit
  CHECK(sum({most, 0x1p970}) == Limits::infinity());  // half of it, to even
}

TEST_CASE("infinities and NaNs are what a plain sum makes of them") {
  constexpr double infinity = Limits::infinity();
  constexpr double nan = Limits::quiet_NaN();
  CHECK(sum({1.0, infinity, -1e308}) == infinity);
  CHECK(sum({-infinity, 2.0, -infinity}) == -infinity);
  CHECK(std::isnan(sum({infinity, 1.0, -infinity})));
  CHECK(std::isnan(sum({1e-300, nan, 3.0})));
  CHECK(std::isnan(sum({nan, infinity})));
}

TEST_CASE("2^29 rows add up without rounding") {
  constexpr double times = 1 << 29;
  for (double const value : {0x1.fffffffffffffp0, -0x1.fffffffffffffp-700, 0x1.fffffffffffffp994,
                             0x0.fffffffffffffp-1022, 1e-30, 1e30, 2.302585092994046}) {
    CAPTURE(value);
    for (int place = 0; place < exact_bits; ++place) {  // of the mantissa in its lanes
      double const shifted = std::ldexp(value, std::abs(value) < 0x1p-1021 ? 0 : -place);
      Row row = row_of({shifted});
      for (double& lane : row) {
        CHECK(std::abs(lane) < 1 << exact_bits);
        lane *= times;  // a power of two: exact
        CHECK(std::abs(lane) <= 0x1p53);
      }
      CHECK(exact_total(row.data()) == shifted * times);
    }
  }
  Row full{};
  full.fill(0x1p53);  // more than any sum is
  CHECK(exact_total(full.data()) == Limits::infinity());
  full.fill(0.0);
  full[0] = full[1] = -0x1p53;
  CHECK(exact_total(full.data()) == -(0x1p53 + 0x1p77) * 0x1p-1074);
}

}  // namespace exact_sum_test
}  // namespace tandem
