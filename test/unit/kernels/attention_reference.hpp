// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of attention share: the definition in double with whole matrices, and runs of a
/// kernel of either kind on vectors.

#include <cmath>
#include <cstdint>
#include <vector>

#include <tandem/kernels/channels_last/attention.hpp>
#include <tandem/kernels/channels_last/attention_gradient.hpp>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/kernels/host/attention.hpp>

#include "support.hpp"

namespace tandem::test {

struct AttentionCase {
  AttentionShape shape;
  int batch;
  int time;
  std::vector<std::int32_t> lengths{};
  float rate = 0.0F;
  std::uint32_t first_sample = 5;

  [[nodiscard]] AttentionRows rows() const {
    return {batch, time, lengths.empty() ? nullptr : lengths.data()};
  }
  [[nodiscard]] AttentionDropout dropout() const {
    return {{.seed = 7, .step = 3, .layer = 2, .first_sample = first_sample}, rate};
  }
  [[nodiscard]] std::int64_t in() const { return std::int64_t{batch} * time * shape.row(); }
  [[nodiscard]] std::int64_t out() const { return std::int64_t{batch} * time * shape.out(); }
};

struct AttentionResult {
  std::vector<double> y, dx;
};

/// y, and dx for dy, by the definition.
inline AttentionResult attention_by_definition(AttentionCase const& c, std::vector<double> const& x,
                                               std::vector<double> const& dy) {
  AttentionShape const& s = c.shape;
  AttentionResult result{std::vector<double>(static_cast<std::size_t>(c.out())),
                         std::vector<double>(static_cast<std::size_t>(c.in()))};
  for (int b = 0; b < c.batch; ++b) {
    for (int h = 0; h < s.heads; ++h) {
      auto const at = [&](int i, std::int64_t column, int d) {
        return static_cast<std::size_t>((std::int64_t{b} * c.time + i) * s.row() + column + d);
      };
      int const length = c.rows().length(b);
      for (int i = 0; i < length; ++i) {
        int const keys = s.causal ? i + 1 : length;
        std::vector<double> p(static_cast<std::size_t>(keys));
        std::vector<double> dp(p.size());
        auto const kept = [&](int j) {
          auto const word = attention_word(s, c.dropout().place, b, h, i, j);
          return c.rate == 0 ? 1.0 : uniform(word) >= c.rate ? 1.0 / (1.0 - double{c.rate}) : 0.0;
        };
        double largest = -INFINITY;
        for (int j = 0; j < keys; ++j) {
          for (int d = 0; d < s.width; ++d) {
            p[static_cast<std::size_t>(j)] +=
                x[at(i, s.query(h), d)] * x[at(j, s.key(h / s.group()), d)] / std::sqrt(s.width);
          }
          largest = std::max(largest, p[static_cast<std::size_t>(j)]);
        }
        double total = 0;
        for (double& value : p) {
          value = std::exp(value - largest);
          total += value;
        }
        double mean = 0;
        for (int j = 0; j < keys; ++j) {
          double& value = p[static_cast<std::size_t>(j)];
          value /= total;
          for (int d = 0; d < s.width; ++d) {
            auto const o =
                static_cast<std::size_t>((std::int64_t{b} * c.time + i) * s.out() + s.query(h) + d);
            auto const v = at(j, s.value(h / s.group()), d);
            result.y[o] += kept(j) * value * x[v];
            result.dx[v] += kept(j) * value * dy[o];
            dp[static_cast<std::size_t>(j)] += kept(j) * dy[o] * x[v];
          }
          mean += value * dp[static_cast<std::size_t>(j)];
        }
        for (int j = 0; j < keys; ++j) {
          double const ds = p[static_cast<std::size_t>(j)] *
                            (dp[static_cast<std::size_t>(j)] - mean) / std::sqrt(s.width);
          for (int d = 0; d < s.width; ++d) {
            result.dx[at(i, s.query(h), d)] += ds * x[at(j, s.key(h / s.group()), d)];
            result.dx[at(j, s.key(h / s.group()), d)] += ds * x[at(i, s.query(h), d)];
          }
        }
      }
    }
  }
  return result;
}

/// The kernels row by row.
struct ByRow {
  template <class T>
  static void run(Team& team, AttentionCase const& c, std::vector<T> const& x,
                  std::vector<T> const& dy, std::vector<T>& y, std::vector<T>& dx) {
    using F = host::AttentionScalar<T>;
    auto normalisers = std::vector<F>(y.size());
    std::vector<F> scratch(static_cast<std::size_t>(
        host::attention_forward_scratch<T>(c.shape, c.time, team.size()) +
        host::attention_gradient_scratch<T>(c.shape, c.time, team.size())));
    host::attention_forward<T>(team, c.shape, c.rows(), c.dropout(), x.data(), y.data(),
                               normalisers.data(), scratch.data());
    host::attention_gradient<T>(team, c.shape, c.rows(), c.dropout(), x.data(), y.data(), dy.data(),
                                normalisers.data(), dx.data(), scratch.data());
  }
};

/// Those in vectors; their scratch begins as NaN.
struct InVectors {
  template <class T>
  static void run(Team& team, AttentionCase const& c, std::vector<T> const& x,
                  std::vector<T> const& dy, std::vector<T>& y, std::vector<T>& dx) {
    namespace vectors = host::channels_last;
    auto normalisers = poisoned<float>(static_cast<std::int64_t>(c.batch) * c.shape.heads * c.time);
    auto scratch =
        poisoned<float>(vectors::attention_forward_scratch(c.shape, c.time, team.size()) / 4);
    vectors::attention_forward<T>(team, c.shape, c.rows(), c.dropout(), x.data(), y.data(),
                                  normalisers.data(), scratch.data());
    scratch =
        poisoned<float>(vectors::attention_gradient_scratch(c.shape, c.time, team.size()) / 4);
    vectors::attention_gradient<T>(team, c.shape, c.rows(), c.dropout(), x.data(), y.data(),
                                   dy.data(), normalisers.data(), dx.data(), scratch.data());
  }
};

/// y and dx behind one another, the same for teams of 1, 2 and 3; all of both is written.
template <class Kernels, class T>
std::vector<T> attention(AttentionCase const& c, std::vector<T> const& x,
                         std::vector<T> const& dy) {
  return on_teams([&](Team& team) {
    std::vector<T> y(dy.size(), T{nan<float>});
    std::vector<T> dx(x.size(), T{nan<float>});
    Kernels::run(team, c, x, dy, y, dx);
    return joined({y, dx});
  });
}

}  // namespace tandem::test
