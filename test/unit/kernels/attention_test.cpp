// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/attention.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>

#include "attention_reference.hpp"
#include "support.hpp"

namespace attention_test {

using namespace tandem;
using test::AttentionCase;
using test::Team;

AttentionShape shape(int heads, int key_heads, int width, int longest, bool causal) {
  return {heads, key_heads, width, longest, causal};
}

std::vector<AttentionCase> cases() {
  return {{shape(1, 1, 1, 1, true), 1, 1},
          {shape(2, 2, 5, 9, true), 3, 9},
          {shape(2, 2, 16, 20, false), 2, 20, {20, 7}},
          {shape(4, 2, 3, 70, true), 2, 66, {66, 0}, 0.4F},
          {shape(3, 1, 33, 13, false), 2, 11, {1, 10}, 0.2F},
          {shape(1, 1, 8, 280, true), 1, 275, {}, 0.5F},
          {shape(2, 1, 20, 130, true), 2, 130, {130, 97}}};
}

template <class T>
std::vector<T> rounded(std::vector<double> const& list) {
  std::vector<T> result;
  for (double const value : list) {
    result.push_back(T(value));
  }
  return result;
}

/// Against the definition on the same inputs; bound: @p eps times the magnitudes, all below 2.
template <class Kernels, class T>
void follows(AttentionCase const& c, double eps) {
  auto const x = rounded<T>(test::random<double>(c.in(), 1));
  auto const dy = rounded<T>(test::random<double>(c.out(), 2));
  auto const got = test::attention<Kernels>(c, x, dy);
  auto const expected =
      test::attention_by_definition(c, {x.begin(), x.end()}, {dy.begin(), dy.end()});
  auto const wanted = test::joined({expected.y, expected.dx});
  // Sums over keys and heads have as many roundings; of a key's gradient, as many terms below 2.
  double const terms = std::sqrt(static_cast<double>(c.time * c.shape.group() + c.shape.width)) + 8;
  std::vector<double> bound;
  for (double const value : wanted) {
    bound.push_back(eps * terms +
                    (std::is_same_v<T, BFloat16> ? 0x1P-7 : 0) * (std::abs(value) + 0.5));
  }
  std::vector<double> const wide(got.begin(), got.end());
  CHECK(test::within(wide, wanted, bound));
}

TEST_CASE("attention row by row is its definition") {
  for (auto const& c : cases()) {
    follows<test::ByRow, double>(c, test::eps<double>);
    follows<test::ByRow, float>(c, test::eps<float>);
  }
}

TEST_CASE("attention in vectors is its definition") {
  for (auto const& c : cases()) {
    follows<test::InVectors, float>(c, test::eps<float>);
    follows<test::InVectors, BFloat16>(c, test::eps<float>);
  }
}

TEST_CASE("the gradient of attention is a finite difference") {
  Team team{1};
  for (bool const causal : {false, true}) {
    AttentionCase const c{shape(4, 2, 3, 6, causal), 2, 5, {5, 3}, 0.3F};
    auto const x = test::random<double>(c.in(), 1);
    auto const dy = test::random<double>(c.out(), 2);
    std::vector<double> y(dy.size());
    std::vector<double> dx(x.size());
    test::ByRow::run(team, c, x, dy, y, dx);
    auto const expected = test::finite_differences(x, [&](std::vector<double> const& at) {
      std::vector<double> unused(x.size());
      test::ByRow::run(team, c, at, dy, y, unused);
      return test::dot(y, dy);
    });
    // h² / 6 times third derivatives below 4, and the rounding of a sum below 32 divided by h.
    CHECK(test::within(dx, expected, test::constant(dx.size(), 5e-9)));
  }
}

/// Sample 1 of a padded batch has the bits of that sample alone, whatever the padding holds.
template <class Kernels, class T>
void ignores_padding(bool causal) {
  int const time = 83;
  int const length = 21;
  AttentionCase const padded{shape(2, 1, 20, 90, causal), 2, time, {time, length}, 0.3F};
  AttentionCase const alone{padded.shape, 1, length, {}, 0.3F, padded.first_sample + 1};
  auto const wide = padded.shape.row();
  auto const narrow = padded.shape.out();
  auto x = rounded<T>(test::random<double>(padded.in(), 1));
  auto dy = rounded<T>(test::random<double>(padded.out(), 2));
  auto const part = [&](std::vector<T> const& all, std::int64_t columns, int from, int to) {
    auto const sample = all.begin() + time * columns;
    return std::vector<T>(sample + from * columns, sample + to * columns);
  };
  auto const x1 = part(x, wide, 0, length);
  auto const dy1 = part(dy, narrow, 0, length);
  std::fill(x.begin() + (time + length) * wide, x.end(), T(1e4F));
  std::fill(dy.begin() + (time + length) * narrow, dy.end(), T(-1e4F));
  Team team{1};
  std::vector<T> y(dy.size());
  std::vector<T> dx(x.size());
  Kernels::run(team, padded, x, dy, y, dx);
  std::vector<T> y1(dy1.size());
  std::vector<T> dx1(x1.size());
  Kernels::run(team, alone, x1, dy1, y1, dx1);
  CHECK(test::same_bits(part(y, narrow, 0, length), y1));
  CHECK(test::same_bits(part(dx, wide, 0, length), dx1));
  CHECK(part(y, narrow, length, time) == std::vector<T>((time - length) * narrow, T{}));
  CHECK(part(dx, wide, length, time) == std::vector<T>((time - length) * wide, T{}));
}

TEST_CASE("attention: a padded sample has the bits of the sample alone, zeros behind them") {
  for (bool const causal : {false, true}) {
    ignores_padding<test::ByRow, double>(causal);
    ignores_padding<test::InVectors, float>(causal);
    ignores_padding<test::InVectors, BFloat16>(causal);
  }
}

/// With equal keys and unit vectors as values, y shows which probabilities are dropped.
template <class Kernels>
void drops_by_words() {
  int const time = 70;
  AttentionCase const c{shape(2, 2, time, 75, false), 2, time, {}, 0.4F};
  std::vector<float> x(static_cast<std::size_t>(c.in()));
  for (std::int64_t row = 0; row < 2 * time; ++row) {
    for (int head = 0; head < 2; ++head) {
      x[static_cast<std::size_t>(row * c.shape.row() + c.shape.value(head) + row % time)] = 1;
    }
  }
  std::vector<float> y(static_cast<std::size_t>(c.out()));
  std::vector<float> dx(x.size());
  Team team{1};
  Kernels::run(team, c, x, y, y, dx);
  bool as_drawn = true;
  for (std::uint64_t s = 0; s < 2; ++s) {
    for (std::uint64_t h = 0; h < 2; ++h) {
      for (std::uint64_t i = 0; i < time; ++i) {
        for (std::uint64_t j = 0; j < time; ++j) {
          // 75 keys are two blocks of 64 keys, of 16 counters each.
          std::uint64_t const counter = ((h * 75 + i) * 2 + j / 64) * 16 + j % 16;
          auto const word =
              philox(7, RandomUse::dropout, (3ULL << 32) | 2, ((5 + s) << 32) | counter)
                  .word[j % 64 / 16];
          float const value = y[((s * time + i) * 2 + h) * time + j];
          as_drawn =
              as_drawn && (uniform(word) >= 0.4F ? std::abs(value - 1.0F / 0.6F / time) < 1e-6F
                                                 : value == 0.0F);
        }
      }
    }
  }
  CHECK(as_drawn);
}

TEST_CASE("attention drops by a word of seed, step, node, sample, head, row and key alone") {
  drops_by_words<test::ByRow>();
  drops_by_words<test::InVectors>();
}

TEST_CASE("attention: large scores overflow nothing") {
  AttentionCase const c{shape(1, 1, 16, 40, true), 1, 40};
  auto x = test::random<float>(c.in(), 1);
  for (float& value : x) {
    value *= 500;  // scores to 1e6, exponentials to 0 or 1
  }
  auto const dy = test::random<float>(c.out(), 2);
  for (float const value : test::attention<test::InVectors>(c, x, dy)) {
    CHECK(std::isfinite(value));
  }
}

TEST_CASE_TEMPLATE("attention_step has the bits of the whole pass, row after row", T, float, double,
                   BFloat16) {
  AttentionCase const c{shape(4, 2, 5, 12, true), 3, 10};
  auto const x = rounded<T>(test::random<double>(c.in(), 1));
  std::vector<T> y(static_cast<std::size_t>(c.out()));
  std::vector<T> dx(x.size());
  Team one{1};
  test::ByRow::run(one, c, x, y, y, dx);
  auto const stepped = test::on_teams([&](Team& team) {
    std::vector<T> cache(3 * 12 * 4 * 5);
    std::vector<T> all(y.size());
    std::vector<T> row(static_cast<std::size_t>(3 * c.shape.row()));
    std::vector<T> result(static_cast<std::size_t>(3 * c.shape.out()));
    std::vector<host::AttentionScalar<T>> scratch(
        static_cast<std::size_t>(host::attention_step_scratch<T>(c.shape, team.size())));
    for (int i = 0; i < c.time; ++i) {
      for (int s = 0; s < 3; ++s) {
        std::copy_n(x.begin() + (s * c.time + i) * c.shape.row(), c.shape.row(),
                    row.begin() + s * c.shape.row());
      }
      host::attention_step(team, c.shape, 3, i, row.data(), cache.data(), result.data(),
                           scratch.data());
      for (int s = 0; s < 3; ++s) {
        std::copy_n(result.begin() + s * c.shape.out(), c.shape.out(),
                    all.begin() + (s * c.time + i) * c.shape.out());
      }
    }
    return all;
  });
  CHECK(test::same_bits(stepped, y));
}

}  // namespace attention_test
