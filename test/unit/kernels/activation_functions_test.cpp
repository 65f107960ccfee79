// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/functors/activations.hpp>

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "support.hpp"

namespace activation_functions_test {

using namespace tandem;

template <class Function>
void gradient_is_that_of_the_value() {
  for (double x = -6.0; x < 6.0; x += 0.23) {
    double const h = 0x1p-17;
    double const slope = (Function::value(x + h) - Function::value(x - h)) / (2 * h);
    double const kept = Function::gradient_from_output ? Function::value(x) : x;
    CHECK(std::abs(Function::gradient(kept, 3.0) - 3.0 * slope) < 1e-8);
  }
}

TEST_CASE("activations have the values of their formulas") {
  CHECK(GeluFunction::value(1.0) == doctest::Approx(0.84134474606854293).epsilon(1e-15));
  CHECK(GeluFunction::value(-2.0) == doctest::Approx(-0.045500263896358417).epsilon(1e-14));
  CHECK(GeluTanhFunction::value(1.0) == doctest::Approx(0.84119199060827676).epsilon(1e-15));
  CHECK(GeluTanhFunction::value(-2.0) == doctest::Approx(-0.045402305912225013).epsilon(1e-13));
  CHECK(SiluFunction::value(1.0) == doctest::Approx(0.73105857863000490).epsilon(1e-15));
  CHECK(SigmoidFunction::value(-1.0) == doctest::Approx(0.26894142136999512).epsilon(1e-15));
  CHECK(TanhFunction::value(0.5) == doctest::Approx(0.46211715726000976).epsilon(1e-15));
  CHECK(SwiGluFunction::value(1.0, 3.0) == doctest::Approx(3 * 0.73105857863000490).epsilon(1e-15));
  for (double const x : {-3.0, -0.7, 0.0, 0.4, 2.5}) {
    double const u = 0.79788456080286536 * (x + 0.044715 * x * x * x);
    CHECK(GeluTanhFunction::value(x) ==
          doctest::Approx(0.5 * x * (1 + std::tanh(u))).epsilon(1e-13));
    CHECK(GeluFunction::value(x) ==
          doctest::Approx(0.5 * x * (1 + std::erf(x / std::sqrt(2.0)))).epsilon(1e-13));
  }
}

TEST_CASE("gradients of activations are their slopes") {
  gradient_is_that_of_the_value<GeluFunction>();
  gradient_is_that_of_the_value<GeluTanhFunction>();
  gradient_is_that_of_the_value<SiluFunction>();
  gradient_is_that_of_the_value<SigmoidFunction>();
  gradient_is_that_of_the_value<TanhFunction>();
  double const h = 0x1p-17;
  auto const at = SwiGluFunction::gradient(0.7, -1.3, 2.0);
  double const gate = SwiGluFunction::value(0.7 + h, -1.3) - SwiGluFunction::value(0.7 - h, -1.3);
  double const up = SwiGluFunction::value(0.7, -1.3 + h) - SwiGluFunction::value(0.7, -1.3 - h);
  CHECK(std::abs(at.gate - gate / h) < 1e-8);
  CHECK(std::abs(at.up - up / h) < 1e-8);
}

TEST_CASE("activations far from zero are finite, and a NaN stays one") {
  for (double const x : {-1e4, 1e4}) {
    CHECK(GeluFunction::value(x) == (x > 0 ? x : 0.0));
    CHECK(GeluTanhFunction::value(x) == (x > 0 ? x : 0.0));
    CHECK(SiluFunction::value(x) == (x > 0 ? x : 0.0));
    CHECK(GeluFunction::gradient(x, 1.0) == (x > 0 ? 1.0 : 0.0));
    CHECK(GeluTanhFunction::gradient(static_cast<float>(x), 1.0F) == (x > 0 ? 1.0F : 0.0F));
    CHECK(SiluFunction::gradient(x, 1.0) == (x > 0 ? 1.0 : 0.0));
  }
  double const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(GeluFunction::value(nan)));
  CHECK(std::isnan(GeluTanhFunction::value(nan)));
  CHECK(std::isnan(SiluFunction::value(nan)));
}

}  // namespace activation_functions_test
