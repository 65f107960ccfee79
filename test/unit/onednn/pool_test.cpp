// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <tandem/ops/onednn/conv_transpose.hpp>
#include <tandem/ops/onednn/group_norm.hpp>
#include <tandem/ops/onednn/pool.hpp>
#include <tandem/ops/onednn/resample.hpp>

#include <limits>

#include <doctest/doctest.h>

#include <tandem/ops/host/conv_transpose.hpp>
#include <tandem/ops/host/group_norm.hpp>
#include <tandem/ops/host/pool.hpp>
#include <tandem/ops/host/resample.hpp>

#include <onednn_op.hpp>

#include "channels_last.hpp"

namespace pool_test {

using namespace tandem;
using test::Case;

constexpr int channel_counts[] = {1, 3, 16, 17, 24, 64, 521};

template <class L>
Case pool_case(Shape in, int gap) {
  return {.inputs = {in}, .out = L::output(in), .x_gap = gap, .y_gap = gap == 0 ? 0 : gap + 3};
}

template <class L, class F>
void for_images(F const& f) {
  for (int const channels : channel_counts) {
    for (int const gap : {0, 13}) {
      for (Shape const in : {image_shape(channels, 4, 4), image_shape(channels, 6, 5),
                             image_shape(channels, 1, 3), image_shape(channels, 1, 1)}) {
        if (L::fault(in) == Fault::none && (channels < 500 || in[2] < 5)) {
          f(pool_case<L>(in, gap));
        }
      }
    }
  }
}

template <class Precision, class L>
void max_pool_agrees() {
  for_images<L>([](Case const& c) { test::check_same<L, Precision>(c); });
}

TEST_CASE_TEMPLATE("max pool gives the portable op's bits", Precision, Fp32, Bf16) {
  max_pool_agrees<Precision, MaxPool2d<Kernel<1>>>();
  max_pool_agrees<Precision, MaxPool2d<Kernel<2>>>();
  max_pool_agrees<Precision, MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>>();
  max_pool_agrees<Precision, MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>>();
  max_pool_agrees<Precision, MaxPool2d<Kernel<3, 2>, Stride<1, 3>, Padding<1, 0>>>();
  max_pool_agrees<Precision, MaxPool2d<Kernel<2>, Stride<3>, Padding<1>>>();  // cells of no window
}

TEST_CASE_TEMPLATE("max pool: windows of 255 cells and more", Precision, Fp32, Bf16) {
  // 15 x 17 cells are numbered in a byte, 16 x 16 are not.
  Shape const in = image_shape(17, 17, 19);
  test::check_same<MaxPool2d<Kernel<15, 17>, Stride<1>>, Precision>(
      pool_case<MaxPool2d<Kernel<15, 17>, Stride<1>>>(in, 0));
  test::check_same<MaxPool2d<Kernel<16>, Stride<1>>, Precision>(
      pool_case<MaxPool2d<Kernel<16>, Stride<1>>>(in, 0));
  test::check_same<MaxPool2d<Kernel<16>, Stride<5>, Padding<7>>, Precision>(
      pool_case<MaxPool2d<Kernel<16>, Stride<5>, Padding<7>>>(image_shape(5, 17, 19), 7));
  auto const saved = [&]<class L>(L) {
    OpSetup const setup = pool_case<L>(in, 0).setup();
    return Op<L, BasicHost<OneDnn, Precision>>{setup}.needs().saved_bytes;
  };
  CHECK(saved(MaxPool2d<Kernel<15, 17>, Stride<1>>{}) == 3 * 17 * 3 * 3);
  CHECK(saved(MaxPool2d<Kernel<16>, Stride<1>>{}) == 3 * 17 * 2 * 4 * 4);
}

TEST_CASE_TEMPLATE("max pool: NaNs in any row of any image win", Precision, Fp32, Bf16) {
  for (int const channels : {3, 24, 64}) {
    for (int const every : {7, 113, 1201, 3001}) {  // from some in each window to one in all
      for (Shape const in : {image_shape(channels, 6, 5), image_shape(channels, 9, 4)}) {
        using Overlapping = MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>;
        Case c = pool_case<Overlapping>(in, 3);
        c.nan_every = every;
        test::check_same<Overlapping, Precision>(c);
        using Apart = MaxPool2d<Kernel<2>, Stride<3>>;
        c = pool_case<Apart>(in, 0);
        c.nan_every = every;
        test::check_same<Apart, Precision>(c);
      }
    }
  }
}

/// One window over each row of @p rows: the maxima and the cells.
template <class T>
std::vector<float> row_maxima(std::vector<float> const& x, int width, std::vector<int>& where) {
  host::Team team{1};
  int const rows = static_cast<int>(x.size()) / width;
  PoolGeometry const g{1, {rows, width}, {rows, 1}, {{1, width}, {1, 1}, {0, 0}}};
  std::vector<T> in;
  for (float const value : x) {
    in.push_back(static_cast<T>(value));
  }
  std::vector<T> y(static_cast<std::size_t>(rows));
  std::vector<std::uint8_t> cells(y.size());
  host::channels_last::max_pool_forward(team, g, 1, in.data(), 1, y.data(), 1, cells.data());
  where.assign(cells.begin(), cells.end());
  std::vector<float> result;
  for (T const value : y) {
    result.push_back(static_cast<float>(value));
  }
  return result;
}

TEST_CASE_TEMPLATE("max pool: ties, NaN and infinities", T, float, BFloat16) {
  float const nan = std::numeric_limits<float>::quiet_NaN();
  float const inf = std::numeric_limits<float>::infinity();
  std::vector<int> where;
  auto const y = row_maxima<T>({1,     2,    2,     //
                                nan,   5,    6,     //
                                7,     nan,  8,     //
                                -inf,  -inf, -inf,  //
                                nan,   1,    nan,   //
                                inf,   inf,  3,     //
                                -0.0F, 0.0F, -1},
                               3, where);
  // Of NaNs the last, as LargestCell takes it.
  CHECK(where == std::vector<int>{1, 0, 1, 0, 2, 0, 0});
  CHECK(y[0] == 2);
  CHECK(y[1] != y[1]);
  CHECK(y[2] != y[2]);
  CHECK(y[3] == -inf);
  CHECK(y[4] != y[4]);
  CHECK(y[5] == inf);
  CHECK(std::signbit(y[6]));
}

TEST_CASE("max pool: a window of padding only is minus infinity and has no gradient") {
  host::Team team{2};
  PoolGeometry const g{17, {1, 1}, {3, 3}, {{1, 1}, {1, 1}, {1, 1}}};
  std::vector<float> const x(17, 0.5F);
  std::vector<float> y(9 * 17), dx(17, 9.0F);
  std::vector<std::uint8_t> cells(y.size());
  host::channels_last::max_pool_forward(team, g, 1, x.data(), 17, y.data(), 17, cells.data());
  for (std::size_t i = 0; i < y.size(); ++i) {
    bool const middle = i / 17 == 4;
    CHECK(y[i] == (middle ? 0.5F : -std::numeric_limits<float>::infinity()));
    CHECK(cells[i] == (middle ? 0 : 255));
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<float>(i / 17 + 1);
  }
  host::channels_last::max_pool_gradient(team, g, 1, y.data(), 17, cells.data(), dx.data(), 17);
  CHECK(dx == std::vector<float>(17, 5.0F));
}

/// An average is a sum in the same order, but times a reciprocal: two roundings in float more than
/// the portable op's, of terms below 1; then the one of T.
template <class Precision, class L>
void avg_pool_agrees() {
  constexpr double unit = std::is_same_v<Precision, Fp32> ? 0x1p-24 : 0x1p-8;
  for_images<L>([](Case const& c) { test::check_near<L, Precision>(c, 4 * unit, 16 * 0x1p-24); });
}

TEST_CASE_TEMPLATE("average pool agrees with the portable op", Precision, Fp32, Bf16) {
  avg_pool_agrees<Precision, AvgPool2d<Kernel<2>>>();
  avg_pool_agrees<Precision, AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>>();
  avg_pool_agrees<Precision, AvgPool2d<Kernel<3>, Stride<1>, Padding<1>, ExcludePadding>>();
  avg_pool_agrees<Precision, AvgPool2d<Kernel<3, 2>, Stride<1, 3>, Padding<1, 0>>>();
  avg_pool_agrees<Precision, AvgPool2d<Kernel<2>, Stride<3>, Padding<1>, ExcludePadding>>();
}

TEST_CASE_TEMPLATE("average pool of windows of 2 x 2 gives the portable op's bits", Precision, Fp32,
                   Bf16) {
  using L = AvgPool2d<Kernel<2>, Stride<2>>;
  for_images<L>([](Case const& c) { test::check_same<L, Precision>(c); });
}

TEST_CASE("average pool: a window of padding only is 0 and has no gradient") {
  host::Team team{2};
  PoolGeometry const g{3, {1, 1}, {3, 3}, {{1, 1}, {1, 1}, {1, 1}}};
  std::vector<float> const x(3, 0.5F);
  std::vector<float> y(9 * 3), dx(3);
  host::channels_last::avg_pool_forward(team, g, 1, false, x.data(), 3, y.data(), 3);
  for (std::size_t i = 0; i < y.size(); ++i) {
    CHECK(y[i] == (i / 3 == 4 ? 0.5F : 0.0F));
    y[i] = static_cast<float>(i / 3 + 1);
  }
  host::channels_last::avg_pool_gradient(team, g, 1, false, y.data(), 3, dx.data(), 3);
  CHECK(dx == std::vector<float>(3, 5.0F));
}

TEST_CASE_TEMPLATE("global average pool agrees with the portable op", Precision, Fp32, Bf16) {
  constexpr double unit = std::is_same_v<Precision, Fp32> ? 0x1p-24 : 0x1p-8;
  for (int const channels : channel_counts) {
    for (auto const& [height, width] : {std::pair{1, 1}, {8, 8}, {13, 11}}) {
      for (int const gap : {0, 5}) {
        Shape const in = image_shape(channels, height, width);
        Case const c{.inputs = {in}, .out = vector_shape(channels), .x_gap = gap};
        // Sums of up to 143 terms below 1 in another order, divided by their number.
        test::check_near<GlobalAvgPool, Precision>(c, 2 * unit, 16 * 0x1p-24);
      }
    }
  }
}

TEST_CASE_TEMPLATE("subsample moves the portable op's bits", Precision, Fp32, Bf16) {
  for (auto const& [height, width] : {std::pair{1, 1}, {8, 8}, {7, 5}}) {
    test::check_same<Subsample2d<17, 2>, Precision>(
        {.inputs = {image_shape(3, height, width)},
         .out = Subsample2d<17, 2>::output(image_shape(3, height, width))});
    test::check_same<Subsample2d<32, 3>, Precision>(
        {.inputs = {image_shape(32, height, width)},
         .out = Subsample2d<32, 3>::output(image_shape(32, height, width))});
  }
}

template <class L, class Precision>
void resample_agrees(double relative) {
  for (int const channels : {1, 16, 21}) {
    Shape const in = image_shape(channels, 4, 3);
    test::check_near<L, Precision>({.inputs = {in}, .out = L::output(in)}, relative,
                                   relative > 0 ? 9 * 0x1p-24 : 0.0);
  }
}

TEST_CASE_TEMPLATE("Pad2d and Upsample agree with the portable op", Precision, Fp32, Bf16) {
  resample_agrees<Pad2d<Padding<2, 1>>, Precision>(0);
  // Sums of up to nine terms below 1: products may be contracted, or not.
  constexpr double unit = std::is_same_v<Precision, Fp32> ? 0x1p-24 : 0x1p-8;
  resample_agrees<Pad2d<Padding<2>, Reflect>, Precision>(2 * unit);
  resample_agrees<Pad2d<Padding<3, 1>, Replicate>, Precision>(2 * unit);
  resample_agrees<Pad2d<Padding<1, 3>, Circular>, Precision>(2 * unit);
  resample_agrees<Upsample<2>, Precision>(2 * unit);
  resample_agrees<Upsample<3, Bilinear>, Precision>(2 * unit);
}

template <class Precision, class L>
void group_norm_agrees(Shape in) {
  // Sums of up to 324 terms in another order, some divided by a deviation of 1/3 or more.
  constexpr double unit = std::is_same_v<Precision, Fp32> ? 0x1p-24 : 0x1p-8;
  test::check_near<L, Precision>({.inputs = {in}, .out = in}, 2 * unit, 128 * 0x1p-24);
}

TEST_CASE_TEMPLATE("group norm agrees with the portable op", Precision, Fp32, Bf16) {
  group_norm_agrees<Precision, GroupNorm<1>>(image_shape(6, 9, 8));
  group_norm_agrees<Precision, GroupNorm<3>>(image_shape(51, 5, 3));
  group_norm_agrees<Precision, GroupNorm<150, NoAffine>>(image_shape(300, 4, 3));  // two tasks
  group_norm_agrees<Precision, GroupNorm<2>>(image_shape(600, 1, 1));              // two runs each
  group_norm_agrees<Precision, InstanceNorm2d<>>(image_shape(3, 9, 8));
  group_norm_agrees<Precision, InstanceNorm2d<Affine>>(image_shape(17, 4, 3));
  group_norm_agrees<Precision, GroupNorm<4>>(vector_shape(40));
}

template <class Precision, class L>
void conv_transpose_agrees(Shape in) {
  if (!test::computes<typename Precision::Scalar>()) {
    return;
  }
  // Sums of up to 400 terms below 1; in BFloat16 of rounded weights, and rounded before the bias.
  constexpr double unit = std::is_same_v<Precision, Fp32> ? 0x1p-24 : 0x1p-8;
  test::check_near<L, Precision>({.inputs = {in}, .out = L::output(in)}, 4 * unit, 64 * unit);
}

TEST_CASE_TEMPLATE("transposed convolution agrees with the portable op", Precision, Fp32, Bf16) {
  using Doubles = ConvTranspose2d<17, Kernel<2>, Stride<2>>;
  using Uneven = ConvTranspose2d<3, Kernel<3, 4>, Stride<2, 3>, Padding<1, 0>, OutputPadding<1, 2>>;
  using Grouped = ConvTranspose2d<8, Kernel<3>, Stride<2>, Dilation<2>, Groups<4>, NoBias>;
  conv_transpose_agrees<Precision, Doubles>(image_shape(24, 4, 3));
  conv_transpose_agrees<Precision, Uneven>(image_shape(5, 4, 3));
  conv_transpose_agrees<Precision, Grouped>(image_shape(12, 3, 4));
  conv_transpose_agrees<Precision, ConvTranspose2d<16>>(image_shape(32, 3, 4));
}

}  // namespace pool_test

#endif
