// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/element_loss.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <ratio>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/layers/loss.hpp>

#include "support.hpp"

namespace element_loss_test {

using namespace tandem;
using test::Team;

TEST_CASE_TEMPLATE("element_loss: sum and gradient", T, float, double) {
  for (std::int64_t const elements : {1, 3, 100}) {
    int const batch = 5;
    auto const y = test::random<T>(batch * elements, 1);
    auto const t = test::random<T>(batch * elements, 2);
    auto const losses = test::on_teams([&](Team& team) {
      auto out = test::poisoned<double>(batch);
      double whole = 1;  // is added to
      host::element_loss_forward<MeanSquaredError>(team, batch, elements, y.data(), t.data(),
                                                   out.data(), whole);
      double parts = 1;
      for (int s = 0; s < batch; ++s) {
        double one = 0;
        host::element_loss_forward<MeanSquaredError>(team, 1, elements, y.data() + s * elements,
                                                     t.data() + s * elements, &one, parts);
      }
      CHECK(whole == parts);
      out.push_back(whole);
      return out;
    });
    auto const dy = test::on_teams([&](Team& team) {
      auto out = test::poisoned<T>(batch * elements);
      host::element_loss_gradient<MeanSquaredError>(team, y.data(), t.data(), T{0.125}, out.data(),
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

/// A loss of a program's own.
struct LogCosh : MeanOverElements {
  static constexpr std::string_view name = "LogCosh";
  template <class R>
  TANDEM_HOST_DEVICE static R loss(R y, R t) {
    return std::log(std::cosh(y - t));
  }
  template <class R>
  TANDEM_HOST_DEVICE static R gradient(R y, R t) {
    return std::tanh(y - t);
  }
};

TEST_CASE_TEMPLATE("the gradient of a loss of elements is its derivative", L, MeanSquaredError,
                   MeanAbsoluteError, Huber<>, Huber<std::ratio<1, 4>>, BinaryCrossEntropy,
                   LogCosh) {
  static_assert(ElementLoss<L> && Loss<L>);
  CHECK(L::targets(image_shape(2, 3, 4)) == 24);
  for (double y = -3.05; y < 3.1; y += 0.1) {
    for (double const t : {0.0, 0.3, 1.0}) {
      double const h = 1e-6;
      double const slope = (L::loss(y + h, t) - L::loss(y - h, t)) / (2 * h);
      CHECK(std::abs(L::gradient(y, t) - slope) <= 1e-6);
      CHECK(std::abs(double{L::gradient(static_cast<float>(y), static_cast<float>(t))} - slope) <=
            1e-5);
      CHECK(L::loss(y, t) >= 0.0);
    }
  }
  CHECK(std::isnan(L::gradient(test::nan<double>, 0.5)));
  CHECK(std::isnan(L::loss(test::nan<double>, 0.5)));
}

TEST_CASE("losses of elements have their textbook values") {
  CHECK(MeanAbsoluteError::loss(1.0, 3.0) == 2.0);
  CHECK(MeanAbsoluteError::gradient(1.0, 1.0) == 0.0);
  CHECK(Huber<>::loss(0.5, 0.0) == 0.125);
  CHECK(Huber<>::loss(3.0, 0.0) == 2.5);
  CHECK(Huber<std::ratio<1, 2>>::loss(-3.0, 0.0) == 0.5 * (3.0 - 0.25));
  CHECK(BinaryCrossEntropy::loss(0.0, 1.0) == doctest::Approx(std::log(2.0)));
  CHECK(BinaryCrossEntropy::loss(2.0, 0.25) ==
        doctest::Approx(-0.25 * std::log(1 / (1 + std::exp(-2.0))) -
                        0.75 * std::log(1 - 1 / (1 + std::exp(-2.0)))));
  CHECK(BinaryCrossEntropy::loss(800.0, 0.0) == 800.0);  // the sigmoid is 1 there
  CHECK(BinaryCrossEntropy::loss(-800.0, 1.0) == 800.0);
  CHECK(BinaryCrossEntropy::gradient(-800.0F, 1.0F) == -1.0F);
  CHECK(std::isinf(BinaryCrossEntropy::loss(std::numeric_limits<double>::infinity(), 0.0)));
}

TEST_CASE("element_loss: no element, no loss") {
  Team team{2};
  double loss = test::nan<double>;
  double total = 0;
  host::element_loss_forward<MeanSquaredError, double>(team, 1, 0, nullptr, nullptr, &loss, total);
  CHECK(total == 0);
}

}  // namespace element_loss_test
