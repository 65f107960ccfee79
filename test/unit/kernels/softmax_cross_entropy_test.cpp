// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/softmax_cross_entropy.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "support.hpp"

namespace softmax_cross_entropy_test {

using namespace tandem;
using test::Team;

std::vector<std::int32_t> labels_for(int batch, int classes) {
  std::vector<std::int32_t> labels;
  for (int s = 0; s < batch; ++s) {
    labels.push_back(s * 7 % classes);
  }
  return labels;
}

template <class T>
ClassificationSums forward(Team& team, int batch, int classes, std::vector<T> const& logits,
                           std::vector<std::int32_t> const& labels, double smoothing, int k,
                           std::vector<double>& losses) {
  ClassificationSums sums;
  losses = test::poisoned<double>(batch);
  host::softmax_cross_entropy_forward(team, batch, classes, logits.data(), labels.data(), smoothing,
                                      k, losses.data(), sums);
  return sums;
}

TEST_CASE_TEMPLATE("softmax_cross_entropy: losses and gradients by the formula", T, float, double) {
  for (int const classes : {1, 2, 10, 100}) {
    for (double const smoothing : {0.0, 0.1}) {
      int const batch = 9;
      auto logits = test::random<T>(batch * classes, 1);
      for (T& z : logits) {
        z *= 20;
      }
      auto const labels = labels_for(batch, classes);
      auto const losses = test::on_teams([&](Team& team) {
        std::vector<double> out;
        auto const sums = forward(team, batch, classes, logits, labels, smoothing, 5, out);
        double total = 0;
        for (double const loss : out) {
          total += loss;
        }
        CHECK(sums.loss == total);
        return out;
      });
      auto const gradient = test::on_teams([&](Team& team) {
        auto dz = test::poisoned<T>(batch * classes);
        host::softmax_cross_entropy_gradient(team, batch, classes, logits.data(), labels.data(),
                                             smoothing, 0.5, dz.data());
        auto place = logits;
        host::softmax_cross_entropy_gradient(team, batch, classes, place.data(), labels.data(),
                                             smoothing, 0.5, place.data());
        CHECK(test::same_bits(place, dz));
        return dz;
      });
      for (int s = 0; s < batch; ++s) {
        T const* const z = logits.data() + s * classes;
        double total = 0;
        for (int c = 0; c < classes; ++c) {
          total += std::exp(static_cast<double>(z[c]));
        }
        double loss = 0;
        auto const label = labels[static_cast<std::size_t>(s)];
        for (int c = 0; c < classes; ++c) {
          double const q = (c == label ? 1 - smoothing : 0) + smoothing / classes;
          double const p = std::exp(static_cast<double>(z[c])) / total;
          loss -= q * std::log(p);
          // The exponent, of at most 40, is rounded to eps / 2 · 40, its exp to eps, twice.
          double const bound = 0.5 * (2 * 22 * p + p + 1) * (test::eps<T> + 40 * test::eps<double>);
          auto const i = static_cast<std::size_t>(s * classes + c);
          CHECK(std::abs(static_cast<double>(gradient[i]) - 0.5 * (p - q)) <= bound);
        }
        double const bound = 22 * test::eps<T> + 100 * classes * test::eps<double>;
        CHECK(std::abs(losses[static_cast<std::size_t>(s)] - loss) <= bound);
      }
    }
  }
}

TEST_CASE("softmax_cross_entropy_gradient is a finite difference") {
  Team team{2};
  auto const logits = test::random<double>(4 * 7, 1);
  auto const labels = labels_for(4, 7);
  std::vector<double> losses;
  for (double const smoothing : {0.0, 0.2}) {
    std::vector<double> dz(logits.size());
    host::softmax_cross_entropy_gradient(team, 4, 7, logits.data(), labels.data(), smoothing, 3.0,
                                         dz.data());
    auto const expected = test::finite_differences(logits, [&](std::vector<double> const& z) {
      return 3 * forward(team, 4, 7, z, labels, smoothing, 1, losses).loss;
    });
    // h² / 6 times a third derivative below 1, and the rounding of a loss below 30 divided by h.
    CHECK(test::within(dz, expected, test::constant(dz.size(), 5e-9)));
  }
}

TEST_CASE_TEMPLATE("softmax_cross_entropy: a batch in parts gives the bits of the whole", T, float,
                   double) {
  Team team{2};
  auto const logits = test::random<T>(11 * 5, 1);
  auto const labels = labels_for(11, 5);
  std::vector<double> losses(11);
  auto const whole = forward(team, 11, 5, logits, labels, 0.1, 2, losses);
  ClassificationSums parts;
  for (int begin = 0; begin < 11; begin += 4) {
    int const count = std::min(4, 11 - begin);
    host::softmax_cross_entropy_forward(team, count, 5, logits.data() + begin * 5,
                                        labels.data() + begin, 0.1, 2, losses.data(), parts);
  }
  CHECK(parts.loss == whole.loss);
  CHECK(parts.correct == whole.correct);
  CHECK(parts.correct_top_k == whole.correct_top_k);
}

TEST_CASE_TEMPLATE("softmax_cross_entropy: counts, ties, NaN and infinity", T, float, double) {
  Team team{1};
  std::vector<double> losses;
  auto const counts = [&](std::vector<T> const& z, std::int32_t label, int k) {
    return forward<T>(team, 1, static_cast<int>(z.size()), z, {label}, 0.0, k, losses);
  };
  CHECK(counts({1, 3, 2}, 1, 2).correct == 1);
  CHECK(counts({1, 3, 2}, 2, 2).correct == 0);
  CHECK(counts({1, 3, 2}, 2, 2).correct_top_k == 1);
  CHECK(counts({1, 3, 2}, 0, 2).correct_top_k == 0);
  CHECK(counts({1, 3, 2}, 0, 9).correct_top_k == 1);
  CHECK(counts({5, 5, 5}, 0, 2).correct == 1);  // of equals the lowest class is first
  CHECK(counts({5, 5, 5}, 1, 2).correct == 0);
  CHECK(counts({5, 5, 5}, 1, 2).correct_top_k == 1);
  CHECK(counts({5, 5, 5}, 2, 2).correct_top_k == 0);
  for (std::int32_t const label : {0, 1}) {
    for (std::vector<T> const& z : {std::vector<T>{test::nan<T>, 1}, {1, test::nan<T>}}) {
      auto const sums = counts(z, label, 2);
      CHECK(sums.correct == 0);
      CHECK(sums.correct_top_k == 0);
      CHECK(std::isnan(sums.loss));
    }
  }
  CHECK(counts({1000, 0}, 0, 1).loss == 0);  // no overflow
  CHECK(counts({-1000, 0}, 0, 1).loss == 1000);
}

}  // namespace softmax_cross_entropy_test
