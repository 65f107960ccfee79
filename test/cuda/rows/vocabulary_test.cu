// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/vocabulary.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/host/vocabulary.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace vocabulary_test {
namespace {

using test::DeviceArray;
using test::gpu;

constexpr test::Size rows_of[] = {{1, 1},    {5, 2},    {7, 10},    {64, 65},
                                  {2, 1024}, {3, 1025}, {2, 50257}, {600, 3}};

/// Every fourth row, about, has none.
std::vector<std::int32_t> targets_of(test::Size const& n) {
  std::vector<std::int32_t> targets;
  for (std::int64_t r = 0; r < n.rows; ++r) {
    auto const words = philox(11, RandomUse::user, static_cast<std::uint64_t>(r), 0);
    bool const none = words.word[1] % 4 == 0;
    targets.push_back(
        none ? -1 : static_cast<std::int32_t>(words.word[0] % static_cast<unsigned>(n.columns)));
  }
  return targets;
}

TEST_CASE_TEMPLATE("vocabulary rows: losses and gradients as Host's in double, rows without target",
                   T, float, double, BFloat16) {
  host::Team team{1};
  for (test::Size const& n : rows_of) {
    for (double const smoothing : {0.0, 0.1}) {
      CAPTURE(n.rows);
      CAPTURE(n.columns);
      CAPTURE(smoothing);
      auto const z = test::numbers<T>(n.elements(), 1, 8);
      auto const targets = targets_of(n);
      auto expected = test::in_double(z);
      std::vector<VocabularyRow> rows(targets.size());
      double const scale = 1.0 / 64;
      host::vocabulary_rows(team, n.rows, n.columns, expected.data(), targets.data(), smoothing,
                            &scale, rows.data());
      DeviceArray<double> const factor{gpu(), std::vector<double>{scale}};
      double const lanes = cuda::takes_whole_block(n.columns) ? 256 : 32;
      double const relative =
          test::unit<T> * (16 + 4 * 8 + 2 * std::ceil(n.columns / lanes)) + 0x1p-40;
      DeviceArray<std::int32_t> const at{gpu(), targets};
      for (bool const gradient : {false, true}) {
        DeviceArray<T> const logits{gpu(), z};
        DeviceArray<T> const results{gpu(), 3 * n.rows};
        cuda::vocabulary_rows(gpu().compute, logits.data(), at.data(), n.rows, n.columns, smoothing,
                              gradient ? factor.data() : nullptr, results.data());
        auto const found = test::in_double(results.host());
        for (std::size_t r = 0; r < rows.size(); ++r) {
          double const loss = found[3 * r] + found[3 * r + 1];
          double const rounded = test::stored_unit<T> * test::stored_unit<T> * rows[r].loss;
          CHECK(std::abs(found[3 * r] - rows[r].loss) <=
                test::stored_unit<T> * rows[r].loss + relative * (1 + 16 * smoothing));
          CHECK(std::abs(loss - rows[r].loss) <= relative * (1 + 16 * smoothing) + rounded);
          CHECK(found[3 * r + 2] == static_cast<double>(rows[r].right));
          CHECK((targets[r] >= 0 || loss == 0.0));
        }
        if (!gradient) {
          CHECK(test::same_bits(logits.host(), z));
          continue;
        }
        test::check_within(logits.host(), expected, [&](std::size_t i) {
          auto const columns = static_cast<std::size_t>(n.columns);
          std::int32_t const target = targets[i / columns];
          if (target < 0) {
            return 0.0;
          }
          bool const own = static_cast<std::int32_t>(i % columns) == target;
          double const q = smoothing / n.columns + (own ? 1 - smoothing : 0);
          double const p = std::abs(expected[i] / scale + q);
          return scale * (2 * relative * p + 4 * test::unit<T> * (p + q)) +
                 test::stored_unit<T> * std::abs(expected[i]) + 0x1p-149;
        });
      }
    }
  }
}

struct Row {
  float loss;
  bool right;
};

TEST_CASE(
    "vocabulary rows: the first of equal logits is right, a NaN is not, and spoils its loss") {
  auto const row_of = [](std::vector<float> const& z, std::int32_t target) {
    DeviceArray<float> const logits{gpu(), z};
    DeviceArray<std::int32_t> const at{gpu(), std::vector<std::int32_t>{target}};
    DeviceArray<float> const result{gpu(), 3};
    cuda::vocabulary_rows(gpu().compute, logits.data(), at.data(), 1, static_cast<int>(z.size()),
                          0.0, nullptr, result.data());
    auto const y = result.host();
    return Row{y[0], y[2] == 1};
  };
  CHECK(row_of({1, 2, 2}, 1).right);
  CHECK(!row_of({1, 2, 2}, 2).right);
  CHECK(!row_of({NAN, 2, 1}, 1).right);
  CHECK(!row_of({NAN, 2, 1}, 0).right);
  CHECK(std::isnan(row_of({1, NAN, 2}, 2).loss));
  CHECK(row_of({-INFINITY, 1}, 0).loss == INFINITY);
  CHECK(row_of({-INFINITY, 1}, 1).loss == 0.0F);
  DeviceArray<float> const logits{gpu(), std::vector<float>{1, 2, 3, 4}};
  DeviceArray<float> const results{gpu(), 6};
  DeviceArray<double> const scale{gpu(), std::vector<double>{1}};
  cuda::vocabulary_rows(gpu().compute, logits.data(), nullptr, 2, 2, 0.0, scale.data(),
                        results.data());
  CHECK(logits.host() == std::vector<float>(4, 0.0F));  // no row has a target
  CHECK(results.host() == std::vector<float>(6, 0.0F));
  cuda::vocabulary_rows(gpu().compute, logits.data(), nullptr, 2, 2, 0.0, scale.data(),
                        static_cast<float*>(nullptr));  // the gradient alone
}

}  // namespace
}  // namespace vocabulary_test
}  // namespace tandem