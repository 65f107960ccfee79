// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/embedding.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/host/rotary.hpp>

#include "rows.hpp"

namespace embedding_test {

using namespace tandem;
using test::Team;

std::vector<std::int32_t> indices(std::int64_t rows, int vocabulary) {
  std::vector<std::int32_t> list;
  for (float const x : test::random<float>(rows, 7)) {
    list.push_back(static_cast<std::int32_t>((x * x) * static_cast<float>(vocabulary)));
  }
  return list;
}

TEST_CASE("an embedding picks rows, and its gradient adds them") {
  Team team{1};
  std::vector<std::int32_t> const index{2, 0, 2};
  std::vector<double> const table{1, 2, 3, 4, 5, 6};
  std::vector<double> y(6);
  host::embedding_forward(team, 3, {0, 3}, 2, index.data(), table.data(), y.data());
  CHECK(y == std::vector<double>{5, 6, 1, 2, 5, 6});
  std::vector<double> gradient = test::poisoned<double>(6);
  std::vector<std::int32_t> scratch(static_cast<std::size_t>(host::embedding_scratch(3, 3)));
  std::vector<double> const dy{1, 10, 100, 1000, 2, 20};
  host::embedding_gradient(team, 3, {0, 3}, 2, index.data(), dy.data(), gradient.data(), false,
                           scratch.data());
  CHECK(gradient == std::vector<double>{100, 1000, 0, 0, 3, 30});
  host::embedding_gradient(team, 3, {0, 3}, 2, index.data(), dy.data(), gradient.data(), true,
                           scratch.data());
  CHECK(gradient == std::vector<double>{200, 2000, 0, 0, 6, 60});
}

// Of four rows a rank has the last two.
TEST_CASE("a slice of a table gives -0.0 for the rows of others, and has no gradient of them") {
  Team team{1};
  std::vector<std::int32_t> const index{2, 0, 3, 1, 2};
  std::vector<double> const table{5, 6, 7, 8};
  std::vector<double> y(10);
  host::embedding_forward(team, 5, {2, 2}, 2, index.data(), table.data(), y.data());
  CHECK(y == std::vector<double>{5, 6, 0, 0, 7, 8, 0, 0, 5, 6});
  for (int const foreign : {2, 3, 6, 7}) {
    CHECK(std::signbit(y[static_cast<std::size_t>(foreign)]));
  }
  std::vector<double> gradient = test::poisoned<double>(4);
  std::vector<std::int32_t> scratch(static_cast<std::size_t>(host::embedding_scratch(5, 2)));
  std::vector<double> const dy{1, 10, 100, 1000, 2, 20, 7, 7, 3, 30};
  host::embedding_gradient(team, 5, {2, 2}, 2, index.data(), dy.data(), gradient.data(), false,
                           scratch.data());
  CHECK(gradient == std::vector<double>{4, 40, 2, 20});
}

TEST_CASE_TEMPLATE("gradients of embeddings add the rows in order", T, float, double, BFloat16) {
  using P = host::Real<T>;
  for (int const vocabulary : {1, 5, 999}) {
    for (int const channels : {1, 16, 100}) {
      for (std::int64_t const rows : {0, 1, 300}) {
        auto const index = indices(rows, vocabulary);
        auto const dy = test::row_numbers<T>(rows * channels, 1);
        auto const old = test::row_numbers<P>(vocabulary * channels, 2);
        for (bool const accumulate : {false, true}) {
          auto const gradient = test::on_teams([&](Team& team) {
            auto out = accumulate ? old : test::row_poison<P>(vocabulary * channels);
            std::vector<std::int32_t> scratch(
                static_cast<std::size_t>(host::embedding_scratch(rows, vocabulary)));
            host::embedding_gradient(team, rows, {0, vocabulary}, channels, index.data(), dy.data(),
                                     out.data(), accumulate, scratch.data());
            return out;
          });
          auto wanted = accumulate ? old : std::vector<P>(old.size());
          for (std::size_t i = 0; i < dy.size(); ++i) {
            auto const c = static_cast<std::size_t>(channels);
            wanted[static_cast<std::size_t>(index[i / c]) * c + i % c] += static_cast<P>(dy[i]);
          }
          CHECK(gradient == wanted);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("positions add a row of the table, also in a short step", T, float, double,
                   BFloat16) {
  using P = host::Real<T>;
  int const longest = 9;
  int const channels = 37;
  auto const table = test::row_numbers<P>(longest * channels, 1, 0.125F);
  for (int const time : {1, 4, 9}) {
    int const batch = 3;
    std::int64_t const n = std::int64_t{batch} * time * channels;
    auto const x = test::row_numbers<T>(n, 2);
    auto const y = test::on_teams([&](Team& team) {
      auto out = test::row_poison<T>(n);
      host::positions_forward(team, batch, time, channels, x.data(), table.data(), out.data());
      return out;
    });
    auto const old = test::row_numbers<P>(longest * channels, 3);
    auto const gradient = [&](bool accumulate) {
      return test::on_teams([&](Team& team) {
        auto out = accumulate ? old : test::row_poison<P>(longest * channels);
        host::positions_gradient(team, batch, time, longest, channels, x.data(), out.data(),
                                 accumulate);
        return out;
      });
    };
    auto added = old;
    std::vector<P> written(old.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto const at = i % static_cast<std::size_t>(time * channels);
      CHECK(static_cast<double>(y[i]) ==
            static_cast<double>(static_cast<T>(static_cast<P>(x[i]) + table[at])));
      added[at] += static_cast<P>(x[i]);
      written[at] += static_cast<P>(x[i]);
    }
    CHECK(gradient(false) == written);
    CHECK(gradient(true) == added);
  }
}

TEST_CASE_TEMPLATE("rotary positions turn halves of heads, and back", T, float, double, BFloat16) {
  using R = host::Real<T>;
  int const batch = 2;
  int const time = 5;
  for (int const size : {2, 6, 64}) {
    host::RotaryHeads const heads{4, 3, size};
    int const half = size / 2;
    std::vector<R> cosine(static_cast<std::size_t>(8 * half));
    std::vector<R> sine(cosine.size());
    host::rotary_table(8, size, 10000.0, cosine.data(), sine.data());
    std::int64_t const row = heads.all * size;
    std::int64_t const n = batch * time * row;
    auto const x = test::row_numbers<T>(n, 1);
    auto const turn = [&](std::vector<T> const& from, bool backwards) {
      return test::on_teams([&](Team& team) {
        auto out = test::row_poison<T>(n);
        host::rotate(team, batch, time, heads, from.data(), cosine.data(), sine.data(), backwards,
                     out.data());
        auto place = from;
        host::rotate(team, batch, time, heads, place.data(), cosine.data(), sine.data(), backwards,
                     place.data());
        CHECK(test::same_bits(place, out));
        return out;
      });
    };
    auto const y = turn(x, false);
    std::vector<double> wanted;
    std::vector<double> start;
    for (std::int64_t i = 0; i < n; ++i) {
      auto const t = static_cast<double>(i / row % time);
      int const within = static_cast<int>(i % size);
      auto const at = [&](std::int64_t j) {
        return static_cast<double>(x[static_cast<std::size_t>(j)]);
      };
      double const angle = t * std::pow(10000.0, -2.0 * (within % half) / size);
      double const other = within < half ? -at(i + half) : at(i - half);
      bool const turned = i % row / size < 3;
      wanted.push_back(turned ? at(i) * std::cos(angle) + other * std::sin(angle) : at(i));
      start.push_back(at(i));
    }
    CHECK(test::row_error(y, wanted) < test::row_bound<T>);
    CHECK(test::row_error(turn(y, true), start) < 2 * test::row_bound<T>);
  }
}

}  // namespace embedding_test
