// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/gradient_rows.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/layers/row_gradient.hpp>

#include "rows.hpp"

namespace gradient_rows_test {

using namespace tandem;
using test::Team;

static_assert(RowsTouched{.of_sample = 20}.most(200'000, 64, 2) == 2560);
static_assert(RowsTouched{.of_sample = 20, .of_step = 100}.most(1500, 64) == 1380);
static_assert(RowsTouched{.of_sample = 20, .of_step = 100}.most(1300, 64) == 1300);
static_assert(RowsTouched{.of_sample = 20, .of_step = 100}.most(9000, 64, 3) == 3940);
static_assert(!RowsTouched{}.sparse());
static_assert(row_gradient_is_cheaper(200'000, 1280, 2) && !row_gradient_is_cheaper(50, 49, 1));
static_assert(row_gradient_is_cheaper(8, 1, 4) && !row_gradient_is_cheaper(8, 3, 4));
static_assert(gradient_rows_elements<float>(15, 16) == 16 + 240);
static_assert(gradient_rows_elements<double>(16, 1) == 16 + 16);

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Their sums round.
template <class T>
std::vector<T> numbers(std::int64_t n, int seed) {
  std::vector<T> list;
  for (float const x : test::random<float>(n, static_cast<std::uint64_t>(seed))) {
    list.push_back(static_cast<T>(x));
  }
  return list;
}

// A block of memory with its view; and what it is as a dense gradient.
template <class P>
struct Rows {
  Rows(std::int64_t most, int width)
      : block(static_cast<std::size_t>(gradient_rows_elements<P>(most, width)), P{77}),
        view{gradient_rows(block.data(), most, width)} {}

  [[nodiscard]] std::vector<P> dense(int vocabulary) const {
    std::vector<P> all(static_cast<std::size_t>(vocabulary) * static_cast<std::size_t>(view.width));
    for (std::int32_t i = 0; i < *view.count; ++i) {
      CHECK((i == 0 || view.row[i - 1] < view.row[i]));
      std::copy_n(view.values_of(i), view.width,
                  all.data() + std::int64_t{view.row[i]} * view.width);
    }
    return all;
  }

  std::vector<P> block;
  GradientRows<P> view;
};

TEST_CASE_TEMPLATE("gradients of rows are the dense ones", T, float, double, BFloat16) {
  using P = host::Real<T>;
  Team team{2};
  for (int const vocabulary : {1, 5, 5000}) {
    for (int const channels : {1, 100, 300}) {
      CAPTURE(vocabulary);
      CAPTURE(channels);
      std::vector<Rows<P>> ranks;
      std::vector<std::vector<P>> dense;
      ranks.reserve(5);
      for (int rank = 0; rank < 5; ++rank) {
        std::int64_t const n = rank == 1 ? 0 : 40;  // one has no samples
        ranks.emplace_back(2 * n, channels);
        dense.emplace_back(static_cast<std::size_t>(vocabulary * channels));
        std::vector<std::int32_t> scratch(static_cast<std::size_t>(
            host::embedding_rows_scratch(n) + host::embedding_scratch(n, vocabulary)));
        for (int microbatch = 0; microbatch < 2; ++microbatch) {
          std::vector<std::int32_t> index;
          for (float const x :
               test::random<float>(n, static_cast<std::uint64_t>(7 + 2 * rank + microbatch))) {
            index.push_back(static_cast<std::int32_t>(x * x * static_cast<float>(vocabulary)));
          }
          auto const dy = numbers<T>(n * channels, 30 + 3 * rank + microbatch);
          host::embedding_gradient(team, n, {0, vocabulary}, channels, index.data(), dy.data(),
                                   dense.back().data(), microbatch > 0, scratch.data());
          host::embedding_gradient_rows(team, n, vocabulary, index.data(), dy.data(),
                                        ranks.back().view, microbatch > 0, scratch.data());
        }
        CHECK(same_bits(ranks.back().dense(vocabulary), dense.back()));
        CHECK(host::sum_of_squares(ranks.back().view, vocabulary * channels) ==
              host::sum_of_squares(team, dense.back().data(), vocabulary * channels));
      }
      std::vector<GradientRows<P>> sets;
      std::vector<P const*> inputs;
      for (int n = 1; n <= 5; ++n) {
        sets.push_back(ranks[static_cast<std::size_t>(n - 1)].view);
        inputs.push_back(dense[static_cast<std::size_t>(n - 1)].data());
        Rows<P> sum{80 * n, channels};
        host::sum_gradient_rows(team, sets.data(), n, sum.view);
        std::vector<P> expected(dense.front().size());
        std::vector<P*> const outputs{expected.data()};
        reduce_in_tree(std::span<P const* const>{inputs}, 0, expected.size(),
                       std::span<P* const>{outputs}, Sum{});
        CHECK(same_bits(sum.dense(vocabulary), expected));
      }
      Rows<P> joined{160, channels};  // leaves: the earlier one first
      std::vector<std::int32_t> place(80);
      host::copy_rows(team, sets[2], joined.view);
      host::add_rows(team, sets[0], joined.view, place.data());
      std::vector<P> expected = dense[2];
      P const* const both[] = {dense[0].data(), dense[2].data()};
      host::sum(team, both, 2, expected.data(), vocabulary * channels);
      CHECK(same_bits(joined.dense(vocabulary), expected));
    }
  }
}

TEST_CASE("rows that were there and new ones stand in order") {
  Rows<double> rows{6, 1};
  std::int32_t place[4];
  std::int32_t const first[] = {1, 4};
  host::open_rows(rows.view, 2, first, place, false);
  rows.view.value[0] = 10;
  rows.view.value[1] = 40;
  std::int32_t const second[] = {0, 4, 5, 9};
  host::open_rows(rows.view, 4, second, place, true);
  CHECK(std::vector<std::int32_t>(place, place + 4) == std::vector<std::int32_t>{0, 2, 3, 4});
  CHECK(rows.dense(10) == std::vector<double>{0, 10, 0, 0, 40, 0, 0, 0, 0, 0});
  host::open_rows(rows.view, 0, second, place, true);
  CHECK(*rows.view.count == 5);
  host::open_rows(rows.view, 0, second, place, false);
  CHECK(*rows.view.count == 0);
}

}  // namespace gradient_rows_test
