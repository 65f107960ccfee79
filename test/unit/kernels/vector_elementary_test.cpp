// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/channels_last/elementary.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <doctest/doctest.h>

#include <tandem/kernels/channels_last/activations.hpp>

namespace vector_elementary_test {

using namespace tandem;
using namespace tandem::host::channels_last;

/// The largest error over floats in [low, high], 4000 of each sign, in ulp of the exact result or,
/// if `absolute`, in 2⁻²³.
template <class Vector, class Exact>
double worst_error(float low, float high, bool absolute, Vector const& vector, Exact const& exact) {
  double worst = 0.0;
  for (std::uint32_t const sign : {0U, 0x80000000U}) {
    for (std::uint32_t word = 0x0D000000; word < 0x7F800000; word += lanes * 0x7793) {
      float x[lanes];
      float y[lanes];
      for (std::uint32_t i = 0; i < lanes; ++i) {
        x[i] = std::bit_cast<float>((word + i) | sign);
      }
      if (!(x[0] >= low && x[0] <= high)) {
        continue;
      }
      store(y, vector(load(x)));
      for (int i = 0; i < lanes; ++i) {
        double const wanted = exact(static_cast<double>(x[i]));
        double const ulp = absolute ? 0x1p-23 : std::ldexp(1.0, std::ilogb(wanted) - 23);
        double const error = std::abs(static_cast<double>(y[i]) - wanted) / ulp;
        worst = error <= worst ? worst : error;
      }
    }
  }
  return worst;
}

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST_CASE("elementary functions of vectors are as near to double's as they say") {
  CHECK(worst_error(
            -87.0F, 88.3F, false, [](auto const& x) { return exponential(x); },
            [](double x) { return std::exp(x); }) < 1.2);
  CHECK(worst_error(
            -87.0F, infinity, false, [](auto const& x) { return logistic(x); },
            [](double x) { return elementary::logistic(x); }) < 2.5);
  CHECK(worst_error(
            -infinity, infinity, false, [](auto const& x) { return hyperbolic_tangent(x); },
            [](double x) { return std::tanh(x); }) < 1.4);
  CHECK(worst_error(
            -infinity, infinity, true, [](auto const& x) { return normal(x).cumulative; },
            [](double x) { return elementary::normal(x).cumulative; }) < 2.1);
  CHECK(worst_error(
            -5.0F, infinity, false, [](auto const& x) { return normal(x).cumulative; },
            [](double x) { return elementary::normal(x).cumulative; }) < 12.0);
  CHECK(worst_error(
            -infinity, infinity, true, [](auto const& x) { return normal(x).density; },
            [](double x) { return elementary::normal(x).density; }) < 0.4);
}

template <class Function>
void check_activation(double value, double gradient) {
  CHECK(worst_error(
            -1e4F, 1.0F, true, [](auto const& x) { return InVectors<Function>::value(x); },
            [](double x) { return Function::value(x); }) < value);
  CHECK(worst_error(
            -1e4F, 1e4F, true,
            [](auto const& x) { return InVectors<Function>::gradient(x, Floats{1.0F}); },
            [](double x) { return Function::gradient(x, 1.0); }) < gradient);
}

TEST_CASE("activations of vectors are as near to double's as their functions let them") {
  check_activation<GeluFunction>(1.0, 2.2);
  check_activation<GeluTanhFunction>(1.0, 17.0);  // 1 - s where s is near 1, times 2 u
  check_activation<SiluFunction>(1.5, 17.0);
}

TEST_CASE("elementary functions of vectors at infinities, and a NaN stays one") {
  float const nan = std::bit_cast<float>(0x7FC12345U);
  float const x[lanes] = {infinity, -infinity, nan, -nan, 1e30F, -1e30F, 89.5F, -89.5F};
  float y[lanes];
  auto const is = [&](int i, float wanted) {
    return std::isnan(y[i]) ? wanted != wanted : y[i] == wanted;
  };
  auto const check = [&](float above, float below) {
    for (int i = 0; i < 8; ++i) {
      CHECK(is(i, i == 2 || i == 3 ? nan : i % 2 == 0 ? above : below));
    }
  };
  store(y, exponential(load(x)));
  check(infinity, 0.0F);
  store(y, logistic(load(x)));
  check(1.0F, 0.0F);
  store(y, hyperbolic_tangent(load(x)));
  check(1.0F, -1.0F);
  store(y, normal(load(x)).cumulative);
  check(1.0F, 0.0F);
  store(y, normal(load(x)).density);
  check(0.0F, 0.0F);
}

}  // namespace vector_elementary_test
