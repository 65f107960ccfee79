// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <tandem/ops/onednn/join.hpp>
#include <tandem/ops/onednn/own_join.hpp>

#include <doctest/doctest.h>

#include <tandem/ops/host/join.hpp>

#include <concat_rows.hpp>
#include <own_parts.hpp>

#include "channels_last.hpp"

namespace join_test {

using namespace tandem;
using test::Case;

TEST_CASE_TEMPLATE("Concat gives the portable op's bits", Precision, Fp32, Bf16) {
  for (auto const& [height, width] : {std::pair{1, 1}, {5, 3}, {8, 8}}) {
    test::check_same<ConcatJoin, Precision>(
        {.inputs = {image_shape(3, height, width), image_shape(17, height, width),
                    image_shape(1, height, width), image_shape(24, height, width)},
         .out = image_shape(45, height, width)});
    test::check_same<ConcatJoin, Precision>(
        {.inputs = {image_shape(16, height, width)}, .out = image_shape(16, height, width)});
  }
  test::check_same<ConcatJoin, Precision>(
      {.inputs = {vector_shape(5), vector_shape(20)}, .out = vector_shape(25)});
}

/// y = Σ (i + 1) x_i (1 + pixel), whose gradient reads y, too: shows order and shapes.
struct Ramps {
  static constexpr std::string_view name = "Ramps";
  static constexpr Shape output(std::span<Shape const> in) { return in[0]; }
  static float factor(Shape const& shape, std::size_t at, int i) {
    auto const pixels = static_cast<std::size_t>(shape.elements() / shape[0]);
    return static_cast<float>(i + 1) * (1 + static_cast<float>(at % pixels));
  }
  static void forward(auto const& c) {
    c.for_each_sample([&](std::size_t s) {
      std::size_t const size = c.y.size() / static_cast<std::size_t>(c.batch);
      for (std::size_t at = s * size; at < (s + 1) * size; ++at) {
        c.y[at] = 0;
        for (int i = 0; i < c.inputs; ++i) {
          c.y[at] += factor(c.in(i), at, i) * c.x(i)[at];
        }
      }
    });
  }
  static void input_gradient(auto const& c) {
    for (int i = 0; i < c.inputs; ++i) {
      c.for_each(c.dx(i).size(), [&](std::size_t at) {
        c.dx(i)[at] = factor(c.out, at, i) * c.dy[at] + 0 * c.y[at];
      });
    }
  }
};
static_assert(HostJoin<Ramps, float> && !OwnElementJoin<Ramps>);
static_assert(OwnElementJoin<test::OwnProduct> && !HostJoin<test::OwnProduct, float>);

TEST_CASE_TEMPLATE("a program's own joins give the portable op's bits", Precision, Fp32, Bf16) {
  for (Shape const& shape :
       {vector_shape(5), image_shape(3, 5, 3), image_shape(24, 2, 2), image_shape(1, 4, 4)}) {
    test::check_same<test::OwnProduct, Precision>({.inputs = {shape, shape}, .out = shape});
    test::check_same<Ramps, Precision>({.inputs = {shape, shape, shape}, .out = shape});
  }
}

TEST_CASE_TEMPLATE("Concat joins sequences row by row", Precision, Fp32, Bf16) {
  test::check_concat_of_rows<BasicHost<OneDnn, Precision>>();
}

TEST_CASE_TEMPLATE("Concat leaves out inputs that want no gradient", T, float, BFloat16) {
  host::Team team{2};
  int const channels[] = {2, 3};
  std::vector<T> dy, dx(2 * 3, static_cast<T>(9.0F));
  for (int i = 0; i < 10; ++i) {
    dy.push_back(static_cast<T>(static_cast<float>(i)));
  }
  T* const out[] = {nullptr, dx.data()};
  host::channels_last::concat_gradient(team, 2, 2, channels, dy.data(), out);
  std::vector<float> got;
  for (T const value : dx) {
    got.push_back(static_cast<float>(value));
  }
  CHECK(got == std::vector<float>{2, 3, 4, 7, 8, 9});
}

TEST_CASE_TEMPLATE("Multiply gives the portable op's bits", Precision, Fp32, Bf16) {
  for (int const channels : {1, 3, 17, 24}) {
    for (Shape const shape : {vector_shape(channels), image_shape(channels, 5, 3)}) {
      test::check_same<MultiplyJoin, Precision>({.inputs = {shape, shape}, .out = shape});
      test::check_same<MultiplyJoin, Precision>({.inputs = {shape, shape, shape}, .out = shape});
    }
  }
}

TEST_CASE("Multiply is a product, its gradient dy times the others, of those that want one") {
  host::Team team{2};
  double const a[] = {2, 0}, b[] = {3, 5}, c[] = {-1, 4}, dy[] = {10, 100};
  double const* const x[] = {a, b, c};
  double y[2], da[2], dc[2];
  double* const dx[] = {da, nullptr, dc};
  host::product_forward(team, x, 3, y, 2);
  host::product_gradient(team, x, 3, dy, dx, 2);
  CHECK((y[0] == -6 && y[1] == 0));
  CHECK((da[0] == -30 && da[1] == 2000));
  CHECK((dc[0] == 60 && dc[1] == 0));
}

TEST_CASE_TEMPLATE("Add gives the portable op's bits", Precision, Fp32, Bf16) {
  for (int const channels : {1, 3, 17, 24}) {
    for (Shape const shape : {vector_shape(channels), image_shape(channels, 5, 3)}) {
      auto const c = Case{.inputs = {shape, shape}, .out = shape};
      using T = typename Precision::Scalar;
      CHECK(test::same_bits(test::on_threads<AddJoin, Precision>(c).y,
                            test::rounded<T>(test::portable<AddJoin, T>(c).y)));
    }
  }
}

}  // namespace join_test

#endif
