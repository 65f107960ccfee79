// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/smooth_activation.hpp>

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/host/softmax.hpp>

#include "rows.hpp"

namespace smooth_activation_test {

using namespace tandem;
using test::Team;

/// kernel(team, out) in T on teams of 1 to 3 against the same in double.
template <class T, class Kernel>
void equals_double(std::int64_t n, double bound, Kernel const& kernel) {
  auto const in = [&]<class U>(U) {
    return test::on_teams([&](Team& team) {
      auto out = test::row_poison<U>(n);
      kernel(team, out);
      return out;
    });
  };
  CHECK(test::row_error(in(T{}), in(double{})) < bound);
}

template <class Function, class T>
void check_activation() {
  for (std::int64_t const n : {0, 1, 33, 5000}) {
    equals_double<T>(n, test::row_bound<T>, [n]<class U>(Team& team, std::vector<U>& y) {
      auto const x = test::row_numbers<U>(n, 1, 6.0F);
      host::activation_forward<Function>(team, x.data(), y.data(), n);
      auto place = x;
      host::activation_forward<Function>(team, place.data(), place.data(), n);
      CHECK(test::same_bits(place, y));
    });
    equals_double<T>(n, test::row_bound<T>, [n]<class U>(Team& team, std::vector<U>& dx) {
      auto const kept = test::row_numbers<U>(n, 1, Function::gradient_from_output ? 1.0F : 6.0F);
      auto const dy = test::row_numbers<U>(n, 2);
      host::activation_gradient<Function>(team, kept.data(), dy.data(), dx.data(), n);
      auto place = dy;
      host::activation_gradient<Function>(team, kept.data(), place.data(), place.data(), n);
      CHECK(test::same_bits(place, dx));
    });
  }
}

TEST_CASE_TEMPLATE("activations are those in double, whatever the threads", T, float, BFloat16) {
  check_activation<GeluFunction, T>();
  check_activation<GeluTanhFunction, T>();
  check_activation<SiluFunction, T>();
  check_activation<SigmoidFunction, T>();
  check_activation<TanhFunction, T>();
}

TEST_CASE_TEMPLATE("SwiGLU is that in double, whatever the threads", T, float, BFloat16) {
  for (int const channels : {1, 16, 37}) {
    std::int64_t const rows = 41;
    equals_double<T>(rows * channels, test::row_bound<T>,
                     [=]<class U>(Team& team, std::vector<U>& y) {
                       auto const x = test::row_numbers<U>(2 * rows * channels, 1, 4.0F);
                       host::swiglu_forward(team, rows, channels, x.data(), y.data());
                     });
    equals_double<T>(
        2 * rows * channels, test::row_bound<T>, [=]<class U>(Team& team, std::vector<U>& dx) {
          auto const x = test::row_numbers<U>(2 * rows * channels, 1, 4.0F);
          auto const dy = test::row_numbers<U>(rows * channels, 2);
          host::swiglu_gradient(team, rows, channels, x.data(), dy.data(), dx.data());
          auto place = x;
          host::swiglu_gradient(team, rows, channels, place.data(), dy.data(), place.data());
          CHECK(test::same_bits(place, dx));
        });
  }
}

TEST_CASE_TEMPLATE("softmax is that in double, whatever the threads", T, float, BFloat16) {
  for (int const channels : {1, 16, 37}) {
    std::int64_t const rows = 41;
    equals_double<T>(rows * channels, test::row_bound<T>,
                     [=]<class U>(Team& team, std::vector<U>& y) {
                       auto const x = test::row_numbers<U>(rows * channels, 1, 9.0F);
                       host::softmax_forward(team, rows, channels, x.data(), y.data());
                     });
    equals_double<T>(rows * channels, 4 * test::row_bound<T>,
                     [=]<class U>(Team& team, std::vector<U>& dx) {
                       auto const y = test::row_numbers<U>(rows * channels, 1);
                       auto const dy = test::row_numbers<U>(rows * channels, 2);
                       host::softmax_gradient(team, rows, channels, y.data(), dy.data(), dx.data());
                     });
  }
}

TEST_CASE("a softmax by hand, and of numbers that have no exponential") {
  Team team{1};
  std::vector<double> const x{0, std::log(3.0)};
  std::vector<double> y(2);
  host::softmax_forward(team, 1, 2, x.data(), y.data());
  CHECK(test::row_error(y, {0.25, 0.75}) < 1e-15);
  std::vector<float> const large{1e4F, 1e4F, -1e4F};
  std::vector<float> p(3);
  host::softmax_forward(team, 1, 3, large.data(), p.data());
  CHECK(p == std::vector<float>{0.5F, 0.5F, 0.0F});
}

}  // namespace smooth_activation_test
