// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/channels_last/exponential.hpp>

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

namespace exponential_test {

using namespace tandem::host::channels_last;

TEST_CASE("exponential: within 1.1 units in the last place") {
  double worst = 0;
  for (float base = -87.3F; base < 87.5F; base += 0.173F) {
    float x[lanes];
    float y[lanes];
    for (int i = 0; i < lanes; ++i) {
      x[i] = base + 0.0107F * static_cast<float>(i);
    }
    store(y, exponential(load(x)));
    for (int i = 0; i < lanes; ++i) {
      double const wanted = std::exp(static_cast<double>(x[i]));
      int exponent = 0;
      std::frexp(wanted, &exponent);
      worst = std::max(
          worst, std::abs(static_cast<double>(y[i]) - wanted) / std::ldexp(1.0, exponent - 24));
    }
  }
  CHECK(worst <= 1.1);
}

TEST_CASE("exponential: exact at 0, 0 far below it, a NaN stays") {
  float const infinity = std::numeric_limits<float>::infinity();
  float x[lanes] = {0.0F, -0.0F, -infinity, -1e30F, -87.4F, NAN};
  float y[lanes];
  store(y, exponential(load(x)));
  CHECK(y[0] == 1.0F);
  CHECK(y[1] == 1.0F);
  CHECK(y[2] == 0.0F);
  CHECK(y[3] == 0.0F);
  CHECK(y[4] == 0.0F);
  CHECK(std::isnan(y[5]));
}

}  // namespace exponential_test
