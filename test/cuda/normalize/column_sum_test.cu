// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/column_sum.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/runtime/cuda/graph.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace {

using test::DeviceArray;
using test::gpu;
using test::MasterOf;

TEST_CASE("column_tiles: every element belongs to one thread, for any size") {
  for (int columns : {1, 2, 3, 4, 8, 17, 31, 32, 33, 100, 128, 132, 520, 1000, 2048, 100000}) {
    for (std::int64_t rows : {0, 1, 7, 100, 2049, 100000}) {
      cuda::ColumnTiles const tiles = cuda::column_tiles<float>(rows, columns);
      CHECK(tiles.across * tiles.down <= cuda::column_threads);
      CHECK(tiles.down >= 8);
      CHECK(columns % tiles.vector == 0);
      CHECK(std::int64_t{tiles.groups} * tiles.across * tiles.vector >= columns);
      CHECK((std::int64_t{tiles.groups} - 1) * tiles.across * tiles.vector < columns);
      CHECK(tiles.chunks * tiles.chunk_rows >= rows);
      CHECK((tiles.chunks - 1) * tiles.chunk_rows <= (rows > 0 ? rows - 1 : 0));
      CHECK((tiles.chunks == 1 || std::int64_t{tiles.groups} * tiles.chunks <= 256));
      for (std::int64_t fewer : {rows / 3, rows - 1, rows}) {
        if (fewer >= 0) {
          CHECK(cuda::column_tiles<float>(fewer, columns).chunks <=
                cuda::most_chunks<float>(rows, columns));
        }
      }
    }
  }
}

TEST_CASE("column_tiles: the full width where rows divide into 16 bytes") {
  CHECK(cuda::column_vector<float>(64) == 4);
  CHECK(cuda::column_vector<float>(66) == 1);
  CHECK(cuda::column_vector<double>(66) == 2);
  CHECK(cuda::column_vector<BFloat16>(64) == 8);
  CHECK(cuda::column_vector<BFloat16>(100) == 1);
  CHECK(cuda::column_tiles<float>(100000, 100).across == 25);
  CHECK(cuda::column_tiles<float>(100000, 64).chunks > 200);
}

TEST_CASE_TEMPLATE("column_sum: against sums in double", T, float, double, BFloat16) {
  using P = MasterOf<T>;
  for (test::Size const& n : test::sizes) {
    CAPTURE(n.rows);
    CAPTURE(n.columns);
    auto const x = test::numbers<T>(n.elements(), 1);
    auto const before = test::numbers<P>(n.columns, 2);
    std::vector<double> sum(static_cast<std::size_t>(n.columns));
    std::vector<double> size(static_cast<std::size_t>(n.columns));
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum[i % sum.size()] += test::number(x[i]);
      size[i % sum.size()] += std::abs(test::number(x[i]));
    }
    auto const bound = [&](std::size_t c) {
      return (test::roundings<T>(n.rows, n.columns) * size[c] + 2) * test::unit<P>;
    };
    DeviceArray<T> const in{gpu(), x};
    DeviceArray<std::byte> const scratch{gpu(),
                                         cuda::column_sum_scratch_bytes<T>(n.rows, n.columns)};
    DeviceArray<P> const out{gpu(), n.columns};
    cuda::column_sum(gpu().compute, in.data(), n.rows, n.columns, out.data(), false,
                     scratch.data());
    auto const first = out.host();
    test::check_within(first, sum, bound);

    DeviceArray<T> const shifted{gpu(), x, {.unaligned = true}};
    DeviceArray<P> const again{gpu(), n.columns, {.unaligned = true}};
    cuda::column_sum(gpu().compute, shifted.data(), n.rows, n.columns, again.data(), false,
                     scratch.data());
    CHECK(test::same_bits(again.host(), first));

    DeviceArray<P> const added{gpu(), before};
    cuda::column_sum(gpu().compute, in.data(), n.rows, n.columns, added.data(), true,
                     scratch.data());
    std::vector<P> expected = first;
    for (std::size_t c = 0; c < expected.size(); ++c) {
      expected[c] = before[c] + first[c];
    }
    CHECK(test::same_bits(added.host(), expected));
    CHECK(test::same_bits(in.host(), x));
    static_cast<void>(scratch.host());  // looks at what stands around it
  }
}

TEST_CASE_TEMPLATE("column_sum: one launch, and the same bits whichever block comes last", T, float,
                   double, BFloat16) {
  using P = MasterOf<T>;
  for (test::Size const& n : {test::Size{5000, 3}, test::Size{5000, 24}, test::Size{9000, 520}}) {
    CHECK(cuda::column_tiles<T>(n.rows, n.columns).chunks >= 8);
    DeviceArray<T> const x{gpu(), test::numbers<T>(n.elements(), 1)};
    DeviceArray<std::byte> const scratch{gpu(),
                                         cuda::column_sum_scratch_bytes<T>(n.rows, n.columns)};
    DeviceArray<P> const out{gpu(), n.columns};
    cuda::Capture capture{gpu().compute};
    cuda::column_sum(gpu().compute, x.data(), n.rows, n.columns, out.data(), false, scratch.data());
    cuda::Graph const sum = capture.finish();
    CHECK(sum.nodes() == 1);
    sum.launch(gpu().compute);
    auto const first = out.host();
    for (int again = 0; again < 4; ++again) {  // on the emulator in another order each time
      sum.launch(gpu().compute);
      CHECK(test::same_bits(out.host(), first));
    }
  }
}

TEST_CASE("column_sum: of no rows is 0, or what was there") {
  DeviceArray<float> const in{gpu(), 0};
  DeviceArray<std::byte> const scratch{gpu(), cuda::column_sum_scratch_bytes<float>(0, 5)};
  DeviceArray<float> const out{gpu(), 5};
  cuda::column_sum(gpu().compute, in.data(), 0, 5, out.data(), false, scratch.data());
  CHECK(out.host() == std::vector<float>(5, 0.0F));
  DeviceArray<float> const kept{gpu(), std::vector<float>(5, 3.0F)};
  cuda::column_sum(gpu().compute, in.data(), 0, 5, kept.data(), true, scratch.data());
  CHECK(kept.host() == std::vector<float>(5, 3.0F));
}

TEST_CASE_TEMPLATE("add_bias: to every row", T, float, double, BFloat16) {
  using P = MasterOf<T>;
  for (test::Size const& n : test::sizes) {
    auto const y = test::numbers<T>(n.elements(), 1);
    auto const bias = test::numbers<P>(n.columns, 2);
    std::vector<T> expected = y;
    for (std::size_t i = 0; i < y.size(); ++i) {
      expected[i] = static_cast<T>(cuda::load(y[i]) + bias[i % bias.size()]);
    }
    DeviceArray<P> const b{gpu(), bias};
    for (bool unaligned : {false, true}) {
      DeviceArray<T> const place{gpu(), y, {.unaligned = unaligned}};
      cuda::add_bias(gpu().compute, place.data(), b.data(), n.rows, n.columns);
      CHECK(test::same_bits(place.host(), expected));
    }
  }
  DeviceArray<T> const none{gpu(), 0};
  DeviceArray<P> const b{gpu(), 3};
  cuda::add_bias(gpu().compute, none.data(), b.data(), 0, 3);
  CHECK(none.host().empty());
}

}  // namespace
}  // namespace tandem
