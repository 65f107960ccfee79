// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/update.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/optim/optimizer.hpp>

#include "support.hpp"

namespace update_kernel_test {

using namespace tandem;
using test::Team;

/// Parameters, gradients and two states, one behind the other.
template <class T>
struct Arrays {
  std::vector<T> value;
  std::int64_t n;

  explicit Arrays(std::int64_t count) : value{test::random<T>(4 * count, 1)}, n{count} {
    for (std::int64_t i = 2 * n; i < 4 * n; ++i) {
      T& state = value[static_cast<std::size_t>(i)];
      state = state * state;
    }
  }
  ParameterRun<T> run(int states, std::int64_t first = 0) {
    T* const p = value.data() + first;
    return {p, p + n, {states > 0 ? p + 2 * n : nullptr, states > 1 ? p + 3 * n : nullptr}};
  }
};

constexpr UpdateSettings settings{
    .learning_rate = 0.01, .weight_decay = 0.1, .gradient_scale = 0.5, .step = 3};

/// Of each optimizer: make(run).
template <class T, class Check>
void each_optimizer(Check const& check) {
  check(0, [](auto run) { return make_update<T>(Sgd{}, settings, run); });
  check(1, [](auto run) { return make_update<T>(Sgd{.momentum = 0.9F}, settings, run); });
  check(1, [](auto run) {
    return make_update<T>(Sgd{.momentum = 0.9F, .nesterov = true}, settings, run);
  });
  check(2, [](auto run) { return make_update<T>(Adam{}, settings, run); });
  check(2, [](auto run) { return make_update<T>(AdamW{}, settings, run); });
  check(0, [](auto run) { return AverageUpdate<T>{run, T{0.25}}; });
}

constexpr std::int64_t lengths[] = {0, 1, 15, 16, 17, 1023, 1025, 5000};

TEST_CASE_TEMPLATE("an update in vectors is that of each element", T, float, double) {
  each_optimizer<T>([](int states, auto const& make) {
    for (std::int64_t const n : lengths) {
      Arrays<T> expected{n};
      for (std::int64_t i = 0; i < n; ++i) {
        make(expected.run(states))(i);
      }
      auto const found = test::on_teams([&](Team& team) {
        Arrays<T> own{n};
        host::update<T>(team, n, make(own.run(states)));
        return own.value;
      });
      T const bound = 8 * std::numeric_limits<T>::epsilon();
      for (std::size_t i = 0; i < found.size(); ++i) {
        REQUIRE(std::abs(found[i] - expected.value[i]) <= bound);
      }
    }
  });
}

TEST_CASE_TEMPLATE("no bit of an update depends on where a run begins", T, float, double) {
  each_optimizer<T>([](int states, auto const& make) {
    constexpr std::int64_t n = 1100;
    Team team{1};
    Arrays<T> whole{n};
    host::update<T>(team, n, make(whole.run(states)));
    for (std::int64_t const cut : {1, 16, 1029}) {
      Arrays<T> parts{n};
      host::update<T>(team, cut, make(parts.run(states)));
      host::update<T>(team, n - cut, make(parts.run(states, cut)));
      CHECK(test::same_bits(parts.value, whole.value));
    }
  });
}

}  // namespace update_kernel_test
