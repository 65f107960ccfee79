// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/linear.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "reference.hpp"
#include "support.hpp"

namespace linear_test {

using namespace tandem;
using test::Team;

struct Sizes {
  int batch, in, out;
};

TEST_CASE_TEMPLATE("linear: the three products and the bias", T, float, double) {
  for (auto const& [batch, in, out] :
       {Sizes{1, 1, 1}, {5, 7, 3}, {3, 300, 41}, {40, 10, 10}, {300, 2, 3}}) {
    int const b = batch;
    int const m = out;
    int const n = in;
    auto const x = test::random<T>(std::int64_t{b} * n, 1);
    auto const weight = test::random<T>(std::int64_t{m} * n, 2);
    auto const bias = test::random<T>(m, 3);
    auto const dy = test::random<T>(std::int64_t{b} * m, 4);
    auto const old = test::random<T>(std::int64_t{m} * n, 5);
    auto const old_bias = test::random<T>(m, 6);
    auto const at = [](int i) { return static_cast<std::size_t>(i); };
    auto const scratch = [](Team const& team) {
      return test::poisoned<T>(host::linear_scratch<T>(team.size()));
    };
    for (bool const biased : {false, true}) {
      auto const y = test::on_teams([&](Team& team) {
        auto to = test::poisoned<T>(std::int64_t{b} * m);
        host::linear_forward(team, b, n, m, x.data(), weight.data(), biased ? bias.data() : nullptr,
                             to.data(), scratch(team).data());
        return to;
      });
      auto const expected = test::reference_product<T>(
          b, m, n, [&](int s, int i) { return x[at(s * n + i)]; },
          [&](int i, int o) { return weight[at(o * n + i)]; },
          [&](int, int o) { return biased ? bias[at(o)] : T{0}; });
      CHECK(test::within(y, expected.value, expected.bound));
    }
    auto const dx = test::on_teams([&](Team& team) {
      auto to = test::poisoned<T>(std::int64_t{b} * n);
      host::linear_input_gradient(team, b, n, m, weight.data(), dy.data(), to.data(),
                                  scratch(team).data());
      return to;
    });
    auto const dx_expected = test::reference_product<T>(
        b, n, m, [&](int s, int o) { return dy[at(s * m + o)]; },
        [&](int o, int i) { return weight[at(o * n + i)]; }, [](int, int) { return T{0}; });
    CHECK(test::within(dx, dx_expected.value, dx_expected.bound));
    for (bool const accumulate : {false, true}) {
      auto const gradients = test::on_teams([&](Team& team) {
        auto dweight = accumulate ? old : test::poisoned<T>(std::int64_t{m} * n);
        auto dbias = accumulate ? old_bias : test::poisoned<T>(m);
        host::linear_weight_gradient(team, b, n, m, x.data(), dy.data(), dweight.data(),
                                     dbias.data(), accumulate, scratch(team).data());
        return test::joined({dweight, dbias});
      });
      auto expected = test::reference_product<T>(
          m, n, b, [&](int o, int s) { return dy[at(s * m + o)]; },
          [&](int s, int i) { return x[at(s * n + i)]; },
          [&](int o, int i) { return accumulate ? old[at(o * n + i)] : T{0}; });
      auto const bias_expected = test::reference_product<T>(
          m, 1, b, [&](int o, int s) { return dy[at(s * m + o)]; }, [](int, int) { return T{1}; },
          [&](int o, int) { return accumulate ? old_bias[at(o)] : T{0}; });
      expected.value.insert(expected.value.end(), bias_expected.value.begin(),
                            bias_expected.value.end());
      expected.bound.insert(expected.bound.end(), bias_expected.bound.begin(),
                            bias_expected.bound.end());
      CHECK(test::within(gradients, expected.value, expected.bound));
    }
  }
}

}  // namespace linear_test
