// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/vocabulary.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/channels_last/vocabulary.hpp>

#include "support.hpp"

namespace vocabulary_test {

using namespace tandem;
using test::Team;

/// The kernel row by row and the one in vectors, by one name.
struct ByRow {
  template <class... Arguments>
  static void run(Arguments&&... arguments) {
    host::vocabulary_rows(arguments...);
  }
};
struct InVectors {
  template <class... Arguments>
  static void run(Arguments&&... arguments) {
    host::channels_last::vocabulary_rows(arguments...);
  }
};

template <class T>
std::vector<T> random_logits(std::int64_t count, float size) {
  std::vector<T> logits;
  for (float const value : test::random<float>(count, 1)) {
    logits.push_back(T(size * value));
  }
  return logits;
}

std::vector<std::int32_t> targets_for(int rows, int vocabulary) {
  std::vector<std::int32_t> targets;
  for (int r = 0; r < rows; ++r) {
    targets.push_back(r % 4 == 2 ? -1 : r * 37 % vocabulary);
  }
  return targets;
}

/// Losses and counts, the same for teams of 1, 2 and 3; the logits become their gradient.
template <class Kernel, class T>
std::vector<double> results(std::vector<T>& logits, std::vector<std::int32_t> const& targets,
                            double smoothing, double const* scale) {
  auto const rows = static_cast<std::int64_t>(targets.size());
  auto const before = logits;
  auto const all = test::on_teams([&](Team& team) {
    logits = before;
    std::vector<VocabularyRow> row(targets.size(), {test::nan<double>, 7});
    Kernel::run(team, rows, static_cast<int>(logits.size() / targets.size()), logits.data(),
                targets.data(), smoothing, scale, row.data());
    std::vector<double> list;
    for (VocabularyRow const& one : row) {
      list.push_back(one.loss);
      list.push_back(static_cast<double>(one.right));
    }
    for (T const& value : logits) {
      list.push_back(static_cast<double>(value));
    }
    return list;
  });
  return {all.begin(), all.begin() + 2 * rows};
}

template <class Kernel, class T>
void follows_the_formula(int vocabulary, double smoothing) {
  int const rows = 9;
  auto const z = random_logits<T>(rows * vocabulary, 20);
  auto const targets = targets_for(rows, vocabulary);
  auto gradient = z;
  double const scale = 0.375;
  auto const found = results<Kernel>(gradient, targets, smoothing, &scale);
  auto kept = z;
  CHECK(test::same_bits(results<Kernel>(kept, targets, smoothing, nullptr), found));
  CHECK(test::same_bits(kept, z));
  double const eps = std::is_same_v<T, double> ? test::eps<double> : test::eps<float>;
  double const stored = std::is_same_v<T, BFloat16> ? 0x1P-8 : eps;
  for (int r = 0; r < rows; ++r) {
    auto const at = [&](int v) {
      return static_cast<double>(z[static_cast<std::size_t>(r * vocabulary + v)]);
    };
    auto const target = targets[static_cast<std::size_t>(r)];
    double total = 0;
    double most = -INFINITY;
    for (int v = 0; v < vocabulary; ++v) {
      total += std::exp(at(v));
      most = std::max(most, at(v));
    }
    double loss = 0;
    double worst = 0;
    for (int v = 0; v < vocabulary; ++v) {
      double const p = std::exp(at(v)) / total;
      double const q = (v == target ? 1 - smoothing : 0) + smoothing / vocabulary;
      loss -= target < 0 ? 0 : q * (at(v) - std::log(total));
      double const wanted = target < 0 ? 0 : (p - q) * scale;
      auto const got = static_cast<double>(gradient[static_cast<std::size_t>(r * vocabulary + v)]);
      // An exponent of at most 40 is rounded to eps / 2 · 40; exponentials and their sum, and what
      // is stored, to a few eps.
      double const bound = stored * std::abs(wanted) + scale * 60 * eps * (p + q);
      worst = std::max(worst, std::abs(got - wanted) / (bound + 1e-300));
    }
    CHECK(worst <= 1.0);
    double const summed = 2 * vocabulary * test::eps<double>;  // here, and in order by the kernel
    CHECK(std::abs(found[static_cast<std::size_t>(2 * r)] - loss) <= 60 * eps + summed);
    CHECK(found[static_cast<std::size_t>(2 * r + 1)] ==
          (target >= 0 && at(target) == most ? 1.0 : 0.0));
  }
}

TEST_CASE("vocabulary_rows: losses, counts and gradients by the formula") {
  for (int const vocabulary : {1, 2, 15, 16, 65, 5003}) {
    for (double const smoothing : {0.0, 0.1}) {
      follows_the_formula<ByRow, double>(vocabulary, smoothing);
      follows_the_formula<InVectors, float>(vocabulary, smoothing);
      follows_the_formula<InVectors, BFloat16>(vocabulary, smoothing);
    }
  }
}

TEST_CASE("the gradient of vocabulary_rows is a finite difference") {
  Team team{2};
  auto const targets = targets_for(4, 7);
  double const scale = 3.0;
  for (double const smoothing : {0.0, 0.2}) {
    auto const z = test::random<double>(4 * 7, 1);
    auto const loss = [&](std::vector<double> x, double const* by) {
      VocabularyRow rows[4];
      host::vocabulary_rows(team, 4, 7, x.data(), targets.data(), smoothing, by, rows);
      return std::pair{scale * (rows[0].loss + rows[1].loss + rows[2].loss + rows[3].loss), x};
    };
    auto const expected = test::finite_differences(
        z, [&](std::vector<double> const& x) { return loss(x, nullptr).first; });
    // h² / 6 times a third derivative below 1, and the rounding of a loss below 30 divided by h.
    CHECK(test::within(loss(z, &scale).second, expected, test::constant(z.size(), 5e-9)));
  }
}

template <class Kernel, class T>
void survives() {
  double const scale = 1.0;
  auto const found = [&](std::vector<float> const& list, std::int32_t target) {
    std::vector<T> logits;
    for (float const value : list) {
      logits.push_back(T(value));
    }
    auto const result = results<Kernel>(logits, {target}, 0.1, &scale);
    for (std::size_t i = 0; i < list.size() && std::isfinite(result[0]); ++i) {
      CHECK(std::abs(static_cast<double>(logits[i])) <= 1.0);
    }
    return result;
  };
  std::vector<float> large(40, -1e4F);
  large[35] = 1e4F;
  CHECK(std::abs(found(large, 35)[0] - 0.1 * (2e4 - 2e4 / 40)) <= 30);  // 1e4 is 9984 in bf16
  CHECK(std::abs(found(large, 3)[0] - (0.9 * 2e4 + 0.1 * (2e4 - 2e4 / 40))) <= 60);
  CHECK(found(large, 35)[1] == 1.0);
  CHECK(found(std::vector<float>(40, 2.0F), 0)[1] == 1.0);  // of equals the first is right
  CHECK(found(std::vector<float>(40, 2.0F), 1)[1] == 0.0);
  for (std::size_t const at : {0U, 20U, 39U}) {
    auto bad = large;
    bad[at] = NAN;
    CHECK(std::isnan(found(bad, 35)[0]));
    CHECK(found(bad, 35)[1] == 0.0);
    CHECK(found(bad, 39)[1] == 0.0);
  }
}

TEST_CASE("vocabulary_rows: logits of 1e4, equal ones and NaN") {
  survives<ByRow, float>();
  survives<InVectors, float>();
  survives<InVectors, BFloat16>();
}

TEST_CASE("vocabulary_rows: without targets no row has a loss") {
  Team team{1};
  auto logits = test::random<float>(3 * 20, 1);
  VocabularyRow rows[3] = {{1, 1}, {1, 1}, {1, 1}};
  host::channels_last::vocabulary_rows<float>(team, 3, 20, logits.data(), nullptr, 0.1, nullptr,
                                              rows);
  for (VocabularyRow const& row : rows) {
    CHECK(row.loss == 0.0);
    CHECK(row.right == 0);
  }
  CHECK(logits == test::random<float>(3 * 20, 1));
}

}  // namespace vocabulary_test
