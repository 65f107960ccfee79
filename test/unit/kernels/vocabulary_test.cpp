// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/vocabulary.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
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

// What slices of the words find, joined, is what one finds of all: the reference and the vectors, a
// smoothing over all words, and slices of no words.
template <class T, class Kernel, class Part, class Gradient>
void joins(int words, int slices, double bound, Kernel const& whole, Part const& part,
           Gradient const& gradient) {
  int const rows = 6;
  Team team{2};
  auto const z = random_logits<T>(rows * words, 8);
  auto targets = targets_for(rows, words);
  double const scale = 0.375;
  VocabularyRow expected[rows];
  auto wanted = z;
  whole(team, rows, words, wanted.data(), targets.data(), 0.25, &scale, expected);
  int const each = (words + slices - 1) / slices;
  std::vector<VocabularyPart> parts(static_cast<std::size_t>(rows * slices));
  std::vector<std::vector<T>> own;
  std::vector<WordRange> ranges;
  for (int slice = 0; slice < slices; ++slice) {
    int const first = std::min(words, slice * each);
    ranges.push_back({first, std::min(each, words - first), each});
    own.emplace_back(static_cast<std::size_t>(rows * each), T(1000.0F));  // what is nobody's
    for (int r = 0; r < rows; ++r) {
      std::copy_n(z.begin() + r * words + first, ranges.back().count,
                  own.back().begin() + r * each);
    }
    host::vocabulary_parts(team, rows, ranges.back(), own.back().data(), targets.data(),
                           parts.data() + slice * rows, part);
  }
  host::join_vocabulary_parts(team, rows, slices, parts.data());
  for (int r = 0; r < rows; ++r) {
    bool const counts = targets[static_cast<std::size_t>(r)] >= 0;
    VocabularyRow const found =
        counts ? vocabulary_row(parts[static_cast<std::size_t>(r)], words, 0.25) : VocabularyRow{};
    CHECK(std::abs(found.loss - expected[r].loss) <= bound);
    CHECK(found.right == expected[r].right);
  }
  for (int slice = 0; slice < slices; ++slice) {
    auto const s = static_cast<std::size_t>(slice);
    host::vocabulary_part_gradients(team, rows, ranges[s], words, own[s].data(), targets.data(),
                                    parts.data(), 0.25, &scale, gradient);
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < each; ++v) {
        bool const there = v < ranges[s].count;
        auto const at = static_cast<std::size_t>(r * words + ranges[s].first + v);
        double const want = there ? static_cast<double>(wanted[at]) : 0.0;
        double const got = static_cast<double>(own[s][static_cast<std::size_t>(r * each + v)]);
        CHECK(std::abs(got - want) <= (there ? bound : 0.0));
      }
    }
  }
}

TEST_CASE("what slices of a vocabulary find joins to what one finds of all of it") {
  for (int const slices : {1, 2, 3, 8}) {
    for (int const words : {5, 11, 65}) {
      joins<double>(
          words, slices, 60 * test::eps<double>,
          [](auto&&... all) { host::vocabulary_rows(all...); }, &host::vocabulary_part<double>,
          &host::vocabulary_gradient<double>);
      joins<float>(
          words, slices, 60 * test::eps<float>,
          [](auto&&... all) { host::channels_last::vocabulary_rows(all...); },
          &host::channels_last::vocabulary_part<float>,
          &host::channels_last::vocabulary_gradient<float>);
    }
  }
}

TEST_CASE("of equal logits in several slices the first is right, and a NaN is nowhere") {
  double const z[6] = {1, 3, 2, 3, 3, 0};
  auto const of = [&](int target, double const* logits) {
    VocabularyPart all = host::vocabulary_part(2, logits, target < 2 ? target : 2);
    for (int first = 2; first < 6; first += 2) {
      bool const here = target >= first && target < first + 2;
      all = join(all, host::vocabulary_part(2, logits + first, here ? target - first : 2));
    }
    return vocabulary_row(all, 6, 0.0);
  };
  for (int const target : {0, 1, 2, 3, 4, 5}) {
    CHECK(of(target, z).right == (target == 1 ? 1 : 0));
  }
  for (int at = 0; at < 6; ++at) {
    double bad[6] = {1, 3, 2, 3, 3, 0};
    bad[at] = NAN;
    CHECK(std::isnan(of(1, bad).loss));
    CHECK(of(1, bad).right == 0);
  }
  VocabularyPart const none = join(no_words, no_words);
  CHECK(none.total == 0.0);
  CHECK(join(host::vocabulary_part(2, z, 1), none).right());
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
