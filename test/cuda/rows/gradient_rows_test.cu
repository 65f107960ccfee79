// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/gradient_rows.cuh>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/comm/reduction.hpp>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/tree_sum.cuh>
#include <tandem/kernels/cuda/update.cuh>
#include <tandem/ops/cuda/update_chunks.hpp>
#include <tandem/runtime/cuda/graph.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace gradient_rows_test {
namespace {

using test::DeviceArray;
using test::gpu;
using test::MasterOf;

struct Sizes {
  std::int32_t count;
  int vocabulary, columns;
};
// One index, more of them than rows and fewer, whole packs and not, several blocks of columns.
constexpr Sizes sizes[] = {{1, 1, 1},    {100, 1, 3},   {5, 300, 16},  {1000, 65, 24},
                           {333, 7, 33}, {64, 50, 384}, {40, 9, 1032}, {700, 1025, 8}};

std::vector<std::int32_t> indices(Sizes const& n, std::uint64_t seed) {
  std::vector<std::int32_t> index;
  for (int i = 0; i < n.count; ++i) {
    double const u =
        uniform(philox(seed, RandomUse::user, static_cast<std::uint64_t>(i), 0).word[0]);
    index.push_back(static_cast<std::int32_t>(u * u * n.vocabulary));
  }
  return index;
}

/// Blocks of GradientRows, as the engine has them.
template <class P>
struct Blocks {
  std::int64_t most;
  int width;
  DeviceArray<std::byte> memory;

  Blocks(Sizes const& n, std::int64_t rows, int count = 1)
      : most{std::min<std::int64_t>(rows, n.vocabulary)},
        width{n.columns},
        memory{gpu(), count * gradient_rows_bytes(most, width, sizeof(P))} {}

  [[nodiscard]] GradientRows<P> at(int i, Sizes const& n, DeviceArray<std::byte> const& scratch) {
    std::int64_t const block = gradient_rows_bytes(most, width, sizeof(P));
    auto rows = gradient_rows(reinterpret_cast<P*>(memory.data() + i * block), most, width);
    rows.limit = n.vocabulary;
    rows.scratch = scratch.data();
    rows.scratch_bytes = scratch.size();
    return rows;
  }
  /// The dense gradient that block @p i is; its numbers ascend.
  [[nodiscard]] std::vector<P> dense(int i, Sizes const& n) {
    std::vector<std::byte> bytes = memory.host();
    std::int64_t const block = gradient_rows_bytes(most, width, sizeof(P));
    auto const rows = gradient_rows(reinterpret_cast<P*>(bytes.data() + i * block), most, width);
    std::vector<P> all(static_cast<std::size_t>(n.vocabulary) * static_cast<std::size_t>(width));
    REQUIRE(*rows.count >= 0);
    REQUIRE(*rows.count <= most);
    for (int r = 0; r < *rows.count; ++r) {
      REQUIRE((r == 0 || rows.row[r] > rows.row[r - 1]));
      REQUIRE(rows.row[r] < n.vocabulary);
      std::copy_n(rows.values_of(r), width, all.begin() + std::int64_t{rows.row[r]} * width);
    }
    return all;
  }
};

template <class P>
DeviceArray<std::byte> scratch_for(Sizes const& n, std::int64_t most, int replicas = 1) {
  return {gpu(), cuda::row_scratch_bytes(gpu().compute,
                                         {.keys = n.count,
                                          .most = most,
                                          .block = gradient_rows_bytes(most, n.columns, sizeof(P)),
                                          .limit = n.vocabulary,
                                          .accumulates = true,
                                          .tree = true,
                                          .replicas = replicas})};
}

/// The dense gradient of passes over @p passes batches.
template <class T>
std::vector<MasterOf<T>> dense_gradient(Sizes const& n, std::vector<std::uint64_t> const& passes) {
  using P = MasterOf<T>;
  std::int64_t const bytes = cuda::token_runs_scratch_bytes(gpu().compute, n.count, n.vocabulary);
  DeviceArray<std::byte> const scratch{gpu(), bytes};
  DeviceArray<P> const gradient{gpu(), std::int64_t{n.vocabulary} * n.columns};
  bool accumulate = false;
  for (std::uint64_t const seed : passes) {
    DeviceArray<std::int32_t> const index{gpu(), indices(n, seed)};
    DeviceArray<T> const dy{gpu(), test::numbers<T>(std::int64_t{n.count} * n.columns, seed)};
    cuda::embedding_gradient(gpu().compute, index.data(), n.count, n.vocabulary, {0, n.vocabulary},
                             n.columns, dy.data(), gradient.data(), accumulate, scratch.data(),
                             bytes);
    accumulate = true;
    static_cast<void>(gradient.host());
  }
  return gradient.host();
}

template <class T>
void make_rows(Sizes const& n, GradientRows<MasterOf<T>> const& rows,
               std::vector<std::uint64_t> const& passes) {
  bool accumulate = false;
  for (std::uint64_t const seed : passes) {
    DeviceArray<std::int32_t> const index{gpu(), indices(n, seed)};
    DeviceArray<T> const dy{gpu(), test::numbers<T>(std::int64_t{n.count} * n.columns, seed)};
    cuda::embedding_gradient_rows(gpu().compute, index.data(), n.count, dy.data(), rows,
                                  accumulate);
    accumulate = true;
    gpu().compute.synchronize();
  }
}

TEST_CASE_TEMPLATE(
    "an embedding's gradient of rows has the dense one's bits, of several passes too", T, float,
    double, BFloat16) {
  using P = MasterOf<T>;
  for (Sizes const& n : sizes) {
    CAPTURE(n.count);
    CAPTURE(n.vocabulary);
    CAPTURE(n.columns);
    Blocks<P> blocks{n, 3 * n.count};
    DeviceArray<std::byte> const scratch = scratch_for<P>(n, blocks.most);
    for (std::vector<std::uint64_t> const& passes :
         {std::vector<std::uint64_t>{1}, std::vector<std::uint64_t>{1, 2, 3}}) {
      make_rows<T>(n, blocks.at(0, n, scratch), passes);
      CHECK(test::same_bits(blocks.dense(0, n), dense_gradient<T>(n, passes)));
    }
    static_cast<void>(scratch.host());
  }
}

TEST_CASE_TEMPLATE("gradients of rows are added as dense ones are", P, float, double) {
  for (Sizes const& n : sizes) {
    CAPTURE(n.columns);
    for (int const sets : {2, 3, 6, 13}) {
      CAPTURE(sets);
      Blocks<P> blocks{n, n.count, sets};
      DeviceArray<std::byte> const scratch = scratch_for<P>(n, blocks.most, sets);
      std::vector<DeviceArray<P>> dense;
      std::vector<P const*> in;
      std::vector<GradientRows<P>> rows;
      for (int s = 0; s < sets; ++s) {
        auto const seed = static_cast<std::uint64_t>(10 + s);
        rows.push_back(blocks.at(s, n, scratch));
        make_rows<P>(n, rows.back(), {seed});
        dense.emplace_back(gpu(), dense_gradient<P>(n, {seed}));
        in.push_back(dense.back().data());
      }
      Blocks<P> sum{n, std::int64_t{sets} * n.count};
      cuda::sum_gradient_rows(gpu().compute, rows.data(), sets, sum.at(0, n, scratch));
      DeviceArray<P> const expected{gpu(), dense[0].size()};
      cuda::tree_sum(gpu().compute, cuda::pointers(in.data(), sets), 0, dense[0].size(),
                     cuda::pointers<P>(std::vector<P*>{expected.data()}.data(), 1), Sum{});
      CHECK(test::same_bits(sum.dense(0, n), expected.host()));
      static_cast<void>(scratch.host());
    }
    // Leaves of a tree, in whose buffers there is room for both.
    Blocks<P> blocks{n, 2 * n.count, 2};
    DeviceArray<std::byte> const scratch = scratch_for<P>(n, blocks.most);
    make_rows<P>(n, blocks.at(0, n, scratch), {21});
    make_rows<P>(n, blocks.at(1, n, scratch), {22});
    cuda::add_rows(gpu().compute, blocks.at(1, n, scratch), blocks.at(0, n, scratch));
    DeviceArray<P> const y{gpu(), dense_gradient<P>(n, {21})};
    DeviceArray<P> const x{gpu(), dense_gradient<P>(n, {22})};
    cuda::add(gpu().compute, x.data(), y.data(), y.size());
    CHECK(test::same_bits(blocks.dense(0, n), y.host()));
    cuda::copy_rows(gpu().compute, blocks.at(0, n, scratch), blocks.at(1, n, scratch));
    CHECK(test::same_bits(blocks.dense(1, n), y.host()));
  }
}

TEST_CASE_TEMPLATE("square sums of rows have the dense gradient's bits, chunk by chunk", P, float,
                   double) {
  for (Sizes const& n : sizes) {
    CAPTURE(n.columns);
    Blocks<P> blocks{n, n.count};
    DeviceArray<std::byte> const scratch = scratch_for<P>(n, blocks.most);
    auto const rows = blocks.at(0, n, scratch);
    make_rows<P>(n, rows, {5});
    std::int64_t const all = std::int64_t{n.vocabulary} * n.columns;
    for (std::int64_t const chunk : {4096, 100}) {
      std::vector<UpdateRun> const runs{{.begin = 0, .end = all}};
      DeviceArray<cuda::UpdateChunk> const chunks{gpu(), update_chunks(runs, chunk)};
      DeviceArray<RunSettings> const settings{gpu(), run_settings(runs, Sgd{})};
      DeviceArray<double> const expected{gpu(), chunks.size()};
      DeviceArray<double> const squares{gpu(), chunks.size()};
      DeviceArray<P> const dense{gpu(), dense_gradient<P>(n, {5})};
      cuda::gradient_squares(gpu().compute, chunks.data(), chunks.size(), settings.data(),
                             dense.data(), expected.data());
      cuda::gradient_row_squares(gpu().compute, rows, chunk, chunks.size(), squares.data());
      CHECK(test::same_bits(squares.host(), expected.host()));
    }
  }
}

TEST_CASE("indices that name no row, as of targets that there are not, are left out") {
  Sizes const n{6, 5, 4};
  std::vector<std::int32_t> const words{5, 2, 5, 0, 2, 5};
  std::vector<std::int32_t> const kept{2, 0, 2};
  auto const dy = test::numbers<float>(24, 1);
  std::vector<float> kept_dy;
  for (std::ptrdiff_t const i : {1, 3, 4}) {
    kept_dy.insert(kept_dy.end(), dy.begin() + 4 * i, dy.begin() + 4 * (i + 1));
  }
  Blocks<float> blocks{n, n.count, 2};
  DeviceArray<std::byte> const scratch = scratch_for<float>(n, blocks.most);
  DeviceArray<std::int32_t> const index{gpu(), words};
  DeviceArray<std::int32_t> const index_kept{gpu(), kept};
  DeviceArray<float> const slope{gpu(), dy};
  DeviceArray<float> const slope_kept{gpu(), kept_dy};
  for (bool const accumulate : {false, true}) {
    cuda::embedding_gradient_rows(gpu().compute, index.data(), 6, slope.data(),
                                  blocks.at(0, n, scratch), accumulate);
    cuda::embedding_gradient_rows(gpu().compute, index_kept.data(), 3, slope_kept.data(),
                                  blocks.at(1, n, scratch), accumulate);
    CHECK(blocks.dense(0, n) == blocks.dense(1, n));
  }
  DeviceArray<std::int32_t> const none{gpu(), std::vector<std::int32_t>(6, 5)};
  cuda::embedding_gradient_rows(gpu().compute, none.data(), 6, slope.data(),
                                blocks.at(0, n, scratch), true);
  CHECK(blocks.dense(0, n) == blocks.dense(1, n));
  cuda::embedding_gradient_rows(gpu().compute, none.data(), 6, slope.data(),
                                blocks.at(0, n, scratch), false);
  CHECK(blocks.dense(0, n) == std::vector<float>(20));
}

TEST_CASE("gradients of rows are recorded, and replayed for other words") {
  Sizes const n{200, 300, 12};
  Blocks<float> blocks{n, 2 * n.count};
  DeviceArray<std::byte> const scratch = scratch_for<float>(n, blocks.most);
  auto const rows = blocks.at(0, n, scratch);
  DeviceArray<std::int32_t> const index{gpu(), n.count};
  DeviceArray<float> const dy{gpu(), std::int64_t{n.count} * n.columns};
  cuda::Capture capture{gpu().compute};
  cuda::embedding_gradient_rows(gpu().compute, index.data(), n.count, dy.data(), rows, false);
  cuda::embedding_gradient_rows(gpu().compute, index.data(), n.count, dy.data(), rows, true);
  cuda::Graph const graph = capture.finish();
  for (std::uint64_t const seed : {7U, 8U}) {
    auto const words = indices(n, seed);
    auto const slopes = test::numbers<float>(std::int64_t{n.count} * n.columns, seed);
    cuda::check(cudaMemcpy(index.data(), words.data(), words.size() * 4, cudaMemcpyHostToDevice));
    cuda::check(cudaMemcpy(dy.data(), slopes.data(), slopes.size() * 4, cudaMemcpyHostToDevice));
    graph.launch(gpu().compute);
    CHECK(test::same_bits(blocks.dense(0, n), dense_gradient<float>(n, {seed, seed})));
  }
}

TEST_CASE("gradients of rows: no words give no rows; too little scratch is refused") {
  Sizes const n{0, 3, 4};
  Blocks<float> blocks{n, 4};
  DeviceArray<std::byte> const scratch = scratch_for<float>(n, blocks.most);
  auto rows = blocks.at(0, n, scratch);
  DeviceArray<std::int32_t> const index{gpu(), std::vector<std::int32_t>(1000, 1)};
  DeviceArray<float> const dy{gpu(), std::vector<float>(4000, 1.0F)};
  cuda::embedding_gradient_rows(gpu().compute, index.data(), 0, dy.data(), rows, false);
  CHECK(blocks.dense(0, n) == std::vector<float>(12));
  CHECK_THROWS_WITH_AS(
      cuda::embedding_gradient_rows(gpu().compute, index.data(), 1000, dy.data(), rows, false),
      doctest::Contains("row_scratch_bytes"), ContractError);
}

}  // namespace
}  // namespace gradient_rows_test
}  // namespace tandem
