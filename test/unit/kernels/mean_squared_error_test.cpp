// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/mean_squared_error.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace mean_squared_error_test {

using namespace tandem;
using test::Team;

TEST_CASE_TEMPLATE("mean_squared_error: sum and gradient", T, float, double) {
  for (std::int64_t const elements : {1, 3, 100}) {
    int const batch = 5;
    auto const y = test::random<T>(batch * elements, 1);
    auto const t = test::random<T>(batch * elements, 2);
    auto const losses = test::on_teams([&](Team& team) {
      auto out = test::poisoned<double>(batch);
      double whole = 1;  // is added to
      host::mean_squared_error_forward(team, batch, elements, y.data(), t.data(), out.data(),
                                       whole);
      double parts = 1;
      for (int s = 0; s < batch; ++s) {
        double one = 0;
        host::mean_squared_error_forward(team, 1, elements, y.data() + s * elements,
                                         t.data() + s * elements, &one, parts);
      }
      CHECK(whole == parts);
      out.push_back(whole);
      return out;
    });
    auto const dy = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(batch * elements);
      host::mean_squared_error_gradient(team, y.data(), t.data(), T{0.125}, out.data(),
                                        batch * elements);
      return out;
    });
    double expected = 1;
    for (std::size_t i = 0; i < y.size(); ++i) {
      double const error = static_cast<double>(y[i]) - static_cast<double>(t[i]);
      expected += error * error;
      CHECK(dy[i] == (y[i] - t[i]) * T{0.25});
    }
    double const roundings = 2 * static_cast<double>(y.size()) + 4;
    CHECK(std::abs(losses.back() - expected) <= roundings * test::eps<double> * expected);
  }
}

TEST_CASE("mean_squared_error: no element, no loss") {
  Team team{2};
  double loss = test::nan<double>;
  double total = 0;
  host::mean_squared_error_forward<double>(team, 1, 0, nullptr, nullptr, &loss, total);
  CHECK(total == 0);
}

}  // namespace mean_squared_error_test
