// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/embedding.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/columns.hpp>
#include <tandem/runtime/cuda/graph.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace embedding_test {
namespace {

using test::DeviceArray;
using test::gpu;
using test::MasterOf;

struct Sizes {
  std::int32_t count;
  int vocabulary, columns;
};
// One index, more of them than places and fewer, whole packs and not, a warp a row and a block.
constexpr Sizes sizes[] = {{1, 1, 1},    {100, 1, 3},   {5, 300, 16},  {1000, 65, 24},
                           {333, 7, 33}, {64, 50, 384}, {40, 9, 1032}, {700, 1025, 8}};

/// Most of them small, as in a text.
std::vector<std::int32_t> tokens_of(Sizes const& n, std::uint64_t seed) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < n.count; ++i) {
    auto const words = philox(seed, RandomUse::user, static_cast<std::uint64_t>(i), 0);
    double const u = uniform(words.word[0]);
    tokens.push_back(static_cast<std::int32_t>(u * u * n.vocabulary));
  }
  return tokens;
}

TEST_CASE("index_bits: the bits that tell indices apart") {
  CHECK(cuda::index_bits(1) == 1);
  CHECK(cuda::index_bits(2) == 1);
  CHECK(cuda::index_bits(3) == 2);
  CHECK(cuda::index_bits(256) == 8);
  CHECK(cuda::index_bits(257) == 9);
  CHECK(cuda::index_bits(50257) == 16);
  CHECK(cuda::index_bits(2147483647) == 31);
}

TEST_CASE_TEMPLATE("embedding: rows of the table, bit by bit", T, float, double, BFloat16) {
  for (Sizes const& n : sizes) {
    for (bool const unaligned : {false, true}) {
      auto const table = test::numbers<T>(std::int64_t{n.vocabulary} * n.columns, 1);
      auto const tokens = tokens_of(n, 2);
      DeviceArray<T> const from{gpu(), table, {.unaligned = unaligned}};
      DeviceArray<std::int32_t> const at{gpu(), tokens};
      DeviceArray<T> const y{gpu(), std::int64_t{n.count} * n.columns};
      cuda::embedding_forward(gpu().compute, at.data(), n.count, {0, n.vocabulary}, n.columns,
                              from.data(), y.data());
      std::vector<T> expected;
      for (std::int32_t const token : tokens) {
        auto const row = table.begin() + std::int64_t{token} * n.columns;
        expected.insert(expected.end(), row, row + n.columns);
      }
      CHECK(test::same_bits(y.host(), expected));
    }
  }
}

// The last rank's table may end behind the words, and it may have none of them.
TEST_CASE_TEMPLATE("embedding: ranks' words alone, which together are all of them, bit by bit", T,
                   float, double, BFloat16) {
  using P = MasterOf<T>;
  for (Sizes const& n : sizes) {
    auto const table = test::numbers<T>(std::int64_t{n.vocabulary} * n.columns, 1);
    auto const tokens = tokens_of(n, 2);
    auto const dy = test::numbers<T>(std::int64_t{n.count} * n.columns, 4);
    DeviceArray<std::int32_t> const at{gpu(), tokens};
    DeviceArray<T> const slope{gpu(), dy};
    for (int const ranks : {1, 2, 3, 8}) {
      CAPTURE(ranks);
      int const each = padded_slice(n.vocabulary, ranks);
      auto const size = static_cast<std::size_t>(each) * static_cast<std::size_t>(n.columns);
      auto all = table;
      all.resize(size * static_cast<std::size_t>(ranks), T{});
      std::int64_t const bytes =
          cuda::token_runs_scratch_bytes(gpu().compute, n.count, each * ranks);
      DeviceArray<std::byte> const scratch{gpu(), bytes};
      std::vector<P> gradients;
      std::vector<T> sums(dy.size(), static_cast<T>(-0.0F));
      for (int rank = 0; rank < ranks; ++rank) {
        TableRows const own{rank * each, each};
        auto const begin = all.begin() + std::int64_t{rank} * each * n.columns;
        DeviceArray<T> const from{gpu(),
                                  std::vector<T>(begin, begin + std::int64_t{each} * n.columns)};
        DeviceArray<T> const y{gpu(), std::int64_t{n.count} * n.columns};
        DeviceArray<P> const gradient{gpu(), std::int64_t{each} * n.columns};
        cuda::embedding_forward(gpu().compute, at.data(), n.count, own, n.columns, from.data(),
                                y.data());
        cuda::embedding_gradient(gpu().compute, at.data(), n.count, each * ranks, own, n.columns,
                                 slope.data(), gradient.data(), false, scratch.data(), bytes);
        auto const rows = y.host();
        for (std::size_t i = 0; i < rows.size(); ++i) {
          sums[i] = static_cast<T>(test::number(sums[i]) + test::number(rows[i]));
        }
        auto const part = gradient.host();
        gradients.insert(gradients.end(), part.begin(), part.end());
      }
      static std::vector<T> rows_of_one;
      static std::vector<P> gradients_of_one;
      if (ranks == 1) {
        rows_of_one = sums;
        gradients_of_one = gradients;
      }
      CHECK(test::same_bits(sums, rows_of_one));
      auto wanted = gradients_of_one;
      wanted.resize(gradients.size(), P{});
      CHECK(test::same_bits(gradients, wanted));
    }
  }
}

/// Sums of the rows of dy in double, and of their sizes.
template <class T>
struct Sums {
  std::vector<double> sum, size, count;

  Sums(Sizes const& n, std::vector<std::int32_t> const& tokens, std::vector<T> const& dy)
      : sum(static_cast<std::size_t>(n.vocabulary) * static_cast<std::size_t>(n.columns)),
        size(sum.size()),
        count(sum.size()) {
    auto const columns = static_cast<std::size_t>(n.columns);
    for (std::size_t i = 0; i < dy.size(); ++i) {
      std::size_t const to = static_cast<std::size_t>(tokens[i / columns]) * columns + i % columns;
      sum[to] += test::number(dy[i]);
      size[to] += std::abs(test::number(dy[i]));
      ++count[to];
    }
  }
};

TEST_CASE_TEMPLATE("embedding's gradient: sums over the places of each index, 0 where it is none",
                   T, float, double, BFloat16) {
  using P = MasterOf<T>;
  for (Sizes const& n : sizes) {
    CAPTURE(n.count);
    CAPTURE(n.vocabulary);
    CAPTURE(n.columns);
    auto const tokens = tokens_of(n, 3);
    auto const dy = test::numbers<T>(std::int64_t{n.count} * n.columns, 4);
    Sums<T> const expected{n, tokens, dy};
    auto const before = test::numbers<P>(std::int64_t{n.vocabulary} * n.columns, 5);
    DeviceArray<std::int32_t> const at{gpu(), tokens};
    std::int64_t const bytes =
        cuda::token_runs_scratch_bytes(gpu().compute, n.count + 10, n.vocabulary);
    DeviceArray<std::byte> const scratch{gpu(), bytes};
    for (bool const accumulate : {false, true}) {
      std::vector<P> first;
      for (bool const unaligned : {false, true}) {
        DeviceArray<T> const slope{gpu(), dy, {.unaligned = unaligned}};
        DeviceArray<P> const gradient{gpu(), before, {.unaligned = unaligned}};
        cuda::embedding_gradient(gpu().compute, at.data(), n.count, n.vocabulary, {0, n.vocabulary},
                                 n.columns, slope.data(), gradient.data(), accumulate,
                                 scratch.data(), bytes);
        auto const result = gradient.host();
        auto sums = expected.sum;
        for (std::size_t i = 0; i < sums.size() && accumulate; ++i) {
          sums[i] += test::number(before[i]);
        }
        test::check_within(result, sums, [&](std::size_t i) {
          return test::unit<P> * ((expected.count[i] / 8 + 8) * expected.size[i] + 2);
        });
        first = first.empty() ? result : first;
        CHECK(test::same_bits(result, first));  // whatever the width of the packs
      }
    }
    static_cast<void>(scratch.host());
  }
}

TEST_CASE("embedding's gradient is recorded, and replayed for other tokens") {
  Sizes const n{200, 30, 12};
  auto const dy = test::numbers<float>(std::int64_t{n.count} * n.columns, 1);
  DeviceArray<float> const slope{gpu(), dy};
  DeviceArray<float> const gradient{gpu(), n.vocabulary * n.columns};
  std::int64_t const bytes = cuda::token_runs_scratch_bytes(gpu().compute, n.count, n.vocabulary);
  DeviceArray<std::byte> const scratch{gpu(), bytes};
  DeviceArray<std::int32_t> const tokens{gpu(), tokens_of(n, 1)};
  cuda::Capture capture{gpu().compute};
  cuda::embedding_gradient(gpu().compute, tokens.data(), n.count, n.vocabulary, {0, n.vocabulary},
                           n.columns, slope.data(), gradient.data(), false, scratch.data(), bytes);
  cuda::Graph const graph = capture.finish();
  for (std::uint64_t const seed : {7U, 8U}) {
    auto const other = tokens_of(n, seed);
    cuda::check(cudaMemcpy(tokens.data(), other.data(), other.size() * 4, cudaMemcpyHostToDevice));
    graph.launch(gpu().compute);
    Sums<float> const expected{n, other, dy};
    test::check_within(gradient.host(), expected.sum, [&](std::size_t i) {
      return test::unit<float> * (expected.count[i] / 8 + 8) * expected.size[i];
    });
  }
}

TEST_CASE("embedding: no tokens give no rows and a gradient of 0; too little scratch is refused") {
  DeviceArray<std::int32_t> const none{gpu(), 0};
  DeviceArray<float> const table{gpu(), std::vector<float>(12, 1.0F)};
  DeviceArray<float> const gradient{gpu(), 12};
  std::int64_t const bytes = cuda::token_runs_scratch_bytes(gpu().compute, 0, 3);
  DeviceArray<std::byte> const scratch{gpu(), bytes};
  cuda::embedding_forward(gpu().compute, none.data(), 0, {0, 3}, 4, table.data(), table.data());
  cuda::embedding_gradient(gpu().compute, none.data(), 0, 3, {0, 3}, 4, table.data(),
                           gradient.data(), false, scratch.data(), bytes);
  CHECK(gradient.host() == std::vector<float>(12, 0.0F));
  DeviceArray<std::int32_t> const many{gpu(), std::vector<std::int32_t>(1000, 1)};
  CHECK_THROWS_WITH_AS(cuda::token_runs(gpu().compute, many.data(), 1000, 3, scratch.data(), bytes),
                       doctest::Contains("token_runs_scratch_bytes"), ContractError);
}

}  // namespace
}  // namespace embedding_test
}  // namespace tandem
