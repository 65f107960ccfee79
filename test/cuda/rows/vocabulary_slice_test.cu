// SPDX-License-Identifier: Apache-2.0

/// @file
/// Rows of a softmax whose words several ranks have: the losses and gradients of one that has all.

#include <tandem/kernels/cuda/vocabulary_slice.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/columns.hpp>
#include <tandem/kernels/host/vocabulary.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace vocabulary_slice_test {
namespace {

using test::DeviceArray;
using test::gpu;

/// What @p ranks ranks make of rows of logits, as they do it: what each one has found lies behind
/// the others', and each has its gradient.
template <class T>
struct Joint {
  std::vector<T> y;
  std::vector<T> gradient;  ///< (rows, V), put together
  std::vector<double> parts;
  bool padding_is_zero = true;

  Joint(std::vector<T> const& z, std::vector<std::int32_t> const& targets, int words, int ranks,
        double smoothing, double scale)
      : gradient(z.size()) {
    auto const rows = static_cast<std::int64_t>(targets.size());
    int const stride = padded_slice(words, ranks);
    DeviceArray<std::int32_t> const at{gpu(), targets};
    DeviceArray<double> const factor{gpu(), std::vector<double>{scale}};
    DeviceArray<VocabularyPart> const found{gpu(), rows * ranks};
    DeviceArray<VocabularyPart> const kept{gpu(), rows};
    std::vector<DeviceArray<T>> logits;
    for (int rank = 0; rank < ranks; ++rank) {
      auto const [first, count] = padded_range(words, {rank, ranks});
      std::vector<T> own;
      for (std::int64_t r = 0; r < rows; ++r) {
        auto const begin = z.begin() + r * words + first;
        own.insert(own.end(), begin, begin + count);
        own.resize(own.size() + static_cast<std::size_t>(stride - count), static_cast<T>(1e30F));
      }
      logits.emplace_back(gpu(), own);
      cuda::vocabulary_parts(gpu().compute, static_cast<T const*>(logits.back().data()), at.data(),
                             rows, WordRange{first, count, stride}, found.data() + rank * rows);
      CHECK(test::same_bits(logits.back().host(), own));
    }
    DeviceArray<T> const losses{gpu(), 3 * rows};
    cuda::join_vocabulary_parts(gpu().compute, rows, ranks, at.data(), words, smoothing,
                                found.data(), kept.data(), losses.data());
    y = losses.host();
    for (VocabularyPart const& part : kept.host()) {
      parts.insert(parts.end(), {part.largest, part.total, part.own, part.sum});
    }
    for (int rank = 0; rank < ranks; ++rank) {
      auto const [first, count] = padded_range(words, {rank, ranks});
      auto& own = logits[static_cast<std::size_t>(rank)];
      cuda::vocabulary_part_gradients(
          gpu().compute, own.data(), at.data(), rows, WordRange{first, count, stride}, words,
          static_cast<VocabularyPart const*>(kept.data()), smoothing, factor.data());
      auto const slope = own.host();
      for (std::size_t i = 0; i < slope.size(); ++i) {
        auto const row = static_cast<std::int64_t>(i) / stride;
        auto const column = static_cast<std::int64_t>(i) % stride;
        if (column < count) {
          gradient[static_cast<std::size_t>(row * words + first + column)] = slope[i];
        } else {
          padding_is_zero = padding_is_zero && test::number(slope[i]) == 0.0;
        }
      }
    }
  }
};

/// Every fourth row, about, has none.
std::vector<std::int32_t> word_targets(test::Size const& n) {
  std::vector<std::int32_t> targets;
  for (std::int64_t r = 0; r < n.rows; ++r) {
    auto const words = philox(12, RandomUse::user, static_cast<std::uint64_t>(r), 0);
    bool const none = words.word[1] % 4 == 0;
    targets.push_back(
        none ? -1 : static_cast<std::int32_t>(words.word[0] % static_cast<unsigned>(n.columns)));
  }
  return targets;
}

TEST_CASE_TEMPLATE("ranks' rows of a vocabulary: losses and gradients as Host's in double of all",
                   T, float, double, BFloat16) {
  host::Team team{1};
  double const scale = 1.0 / 64;
  for (test::Size const& n :
       {test::Size{1, 1}, {7, 10}, {64, 65}, {3, 1025}, {2, 5001}, {300, 3}}) {
    for (double const smoothing : {0.0, 0.1}) {
      auto const z = test::numbers<T>(n.elements(), 1, 8);
      auto const targets = word_targets(n);
      auto expected = test::in_double(z);
      std::vector<VocabularyRow> rows(targets.size());
      host::vocabulary_rows(team, n.rows, n.columns, expected.data(), targets.data(), smoothing,
                            &scale, rows.data());
      for (int const ranks : {1, 2, 3, 4, 8}) {
        CAPTURE(n.rows);
        CAPTURE(n.columns);
        CAPTURE(smoothing);
        CAPTURE(ranks);
        Joint<T> const joint{z, targets, n.columns, ranks, smoothing, scale};
        double const lanes = cuda::takes_whole_block(padded_slice(n.columns, ranks)) ? 256 : 32;
        double const relative =
            test::unit<T> * (16 + 4 * 8 + 2 * std::ceil(n.columns / lanes)) + 0x1p-40;
        auto const found = test::in_double(joint.y);
        for (std::size_t r = 0; r < rows.size(); ++r) {
          double const loss = found[3 * r] + found[3 * r + 1];
          double const rounded = test::stored_unit<T> * test::stored_unit<T> * rows[r].loss;
          CHECK(std::abs(loss - rows[r].loss) <= relative * (1 + 16 * smoothing) + rounded);
          CHECK(found[3 * r + 2] == static_cast<double>(rows[r].right));
        }
        CHECK(joint.padding_is_zero);
        test::check_within(joint.gradient, expected, [&](std::size_t i) {
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

// The joins are Host's functor, in its order.
TEST_CASE(
    "ranks' rows of a vocabulary: in double the joined parts are Host's, to a few roundings") {
  host::Team team{1};
  constexpr int words = 21;
  constexpr int ranks = 4;
  test::Size const n{40, words};
  auto const z = test::numbers<double>(n.elements(), 3, 8);
  auto const targets = word_targets(n);
  Joint<double> const joint{z, targets, words, ranks, 0.1, 1.0};
  std::vector<VocabularyPart> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const [first, count] = padded_range(words, {rank, ranks});
    for (std::size_t r = 0; r < targets.size(); ++r) {
      WordRange const own{first, count, words};
      parts.push_back(targets[r] < 0 ? no_words
                                     : host::vocabulary_part(count, z.data() + r * words + first,
                                                             own.column(targets[r])));
    }
  }
  host::join_vocabulary_parts(team, n.rows, ranks, parts.data());
  for (std::size_t r = 0; r < targets.size(); ++r) {
    VocabularyPart const& all = parts[r];
    double const* const found = joint.parts.data() + 4 * r;
    CHECK(found[0] == all.largest);
    CHECK(found[1] == doctest::Approx(all.total).epsilon(1e-14));
    CHECK(found[2] == all.own);
    CHECK(std::abs(found[3] - all.sum) <= 1e-12);
  }
}

struct Row {
  float loss;
  bool right;
};

TEST_CASE("ranks' rows of a vocabulary: the first of equals is right, a NaN is not, on any rank") {
  auto const row_of = [](std::vector<float> const& z, std::int32_t target) {
    Joint<float> const joint{z, {target}, static_cast<int>(z.size()), 3, 0.0, 1.0};
    return Row{joint.y[0], joint.y[2] == 1};
  };
  CHECK(row_of({1, 2, 2, 2, 2, 0}, 1).right);
  CHECK(!row_of({1, 2, 2, 2, 2, 0}, 2).right);
  CHECK(!row_of({1, 2, 2, 2, 2, 0}, 3).right);
  CHECK(!row_of({1, 2, 2, 2, 2, 0}, 4).right);
  CHECK(row_of({1, 2, 2, 2, 3}, 4).right);
  CHECK(!row_of({1, 1, 1, 1, 3, 1}, 0).right);
  CHECK(row_of({1, 1, 1, 1}, 0).right);  // the last rank has no word
  CHECK(!row_of({NAN, 2, 1, 1}, 1).right);
  CHECK(!row_of({NAN, 2, 1, 1}, 0).right);
  CHECK(!row_of({3, 2, 1, NAN}, 0).right);
  CHECK(std::isnan(row_of({1, NAN, 2, 1}, 2).loss));
  CHECK(std::isnan(row_of({1, 1, 2, NAN}, 3).loss));
  CHECK(row_of({-INFINITY, 1, 1, 1}, 0).loss == INFINITY);
  CHECK(row_of({-INFINITY, -INFINITY, -INFINITY, 1}, 3).loss == 0.0F);
}

TEST_CASE("ranks' rows of a vocabulary: no row, and rows without targets") {
  DeviceArray<float> const logits{gpu(), std::vector<float>{1, 2, 3, 4}};
  DeviceArray<double> const scale{gpu(), std::vector<double>{1}};
  DeviceArray<VocabularyPart> const parts{gpu(), 4};
  DeviceArray<float> const y{gpu(), std::vector<float>(6, 5.0F)};
  WordRange const own{0, 2, 2};
  auto const& stream = gpu().compute;
  auto const* const none = static_cast<std::int32_t const*>(nullptr);
  auto* const nowhere = static_cast<VocabularyPart*>(nullptr);
  auto const* const z = static_cast<float const*>(logits.data());
  cuda::vocabulary_parts(stream, z, none, 0, own, parts.data());
  cuda::join_vocabulary_parts(stream, 0, 2, none, 4, 0.1, parts.data(), nowhere, y.data());
  CHECK(y.host() == std::vector<float>(6, 5.0F));
  cuda::vocabulary_parts(stream, z, none, 2, own, parts.data());
  cuda::vocabulary_parts(stream, z, none, 2, own, parts.data() + 2);
  cuda::join_vocabulary_parts(stream, 2, 2, none, 4, 0.1, parts.data(), nowhere, y.data());
  CHECK(y.host() == std::vector<float>(6, 0.0F));
  cuda::vocabulary_part_gradients(stream, logits.data(), none, 2, own, 4,
                                  static_cast<VocabularyPart const*>(parts.data()), 0.1,
                                  scale.data());
  CHECK(logits.host() == std::vector<float>(4, 0.0F));
}

}  // namespace
}  // namespace vocabulary_slice_test
}  // namespace tandem
