// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <tandem/ops/onednn/activation.hpp>

#include <limits>

#include <doctest/doctest.h>

#include <tandem/ops/host/activation.hpp>

#include "channels_last.hpp"

namespace activation_test {

using namespace tandem;
using test::Case;

constexpr int channel_counts[] = {1, 3, 17, 24, 100};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (int const channels : channel_counts) {
    for (bool const in_place : {false, true}) {
      for (Shape const shape : {vector_shape(channels), image_shape(channels, 1, 1),
                                image_shape(channels, 5, 3), image_shape(channels, 9, 8)}) {
        list.push_back({.inputs = {shape},
                        .out = shape,
                        .samples = 3,
                        .in_place = in_place,
                        .state = {.seed = 9, .step = 4}});
      }
    }
  }
  return list;
}

TEST_CASE_TEMPLATE("ReLU gives the portable op's bits, also in place", Precision, Fp32, Bf16) {
  for (Case const& c : cases()) {
    test::check_same<ReLU, Precision>(c);
  }
}

TEST_CASE_TEMPLATE("ReLU: NaN and the zeros", T, float, BFloat16) {
  host::Team team{1};
  float const nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<T> x;
  for (float const value : {nan, -0.0F, 0.0F, -1.0F, 2.0F}) {
    x.push_back(static_cast<T>(value));
  }
  std::vector<T> const dy(5, static_cast<T>(3.0F));
  std::vector<T> y(5), dx(5);
  host::channels_last::relu_forward(team, x.data(), y.data(), 5);
  host::channels_last::relu_gradient(team, y.data(), dy.data(), dx.data(), 5);
  auto const at = [](std::vector<T> const& v, std::size_t i) { return static_cast<float>(v[i]); };
  CHECK(at(y, 0) != at(y, 0));
  CHECK((at(y, 1) == 0 && std::signbit(at(y, 1))));  // as the portable one
  CHECK((at(y, 2) == 0 && !std::signbit(at(y, 2))));
  CHECK(at(y, 3) == 0);
  CHECK(at(y, 4) == 2);
  CHECK(at(dx, 0) == 3);
  CHECK(at(dx, 1) == 0);
  CHECK(at(dx, 2) == 0);
  CHECK(at(dx, 3) == 0);
  CHECK(at(dx, 4) == 3);
}

TEST_CASE_TEMPLATE("Dropout draws the portable op's mask for each element (C, H, W)", Precision,
                   Fp32, Bf16) {
  for (Case c : cases()) {
    test::check_same<Dropout<Percent<40>>, Precision>(c);
    c.training = false;
    // Backward is not run in evaluation: only y is compared.
    CHECK(test::same_bits(test::on_threads<Dropout<Percent<40>>, Precision>(c).y,
                          c.x<typename Precision::Scalar>(0)));
  }
}

TEST_CASE("Dropout drops its share, other elements in other steps, layers and samples") {
  Case c{.inputs = {image_shape(20, 10, 10)}, .out = image_shape(20, 10, 10)};
  auto const mask = [](Case const& at) {
    std::vector<bool> dropped;
    for (float const value : test::channels_last<Dropout<Percent<25>>, Fp32>(at).y) {
      dropped.push_back(value == 0);
    }
    return dropped;
  };
  auto const first = mask(c);
  auto const count = std::count(first.begin(), first.end(), true);
  // 4000 draws with a standard deviation of 27: six of them.
  CHECK(std::abs(static_cast<double>(count) - 1000) < 165);
  Case other = c;
  other.index = 4;
  CHECK(mask(other) != first);
  other = c;
  other.state.step = 1;
  CHECK(mask(other) != first);
  other = c;
  other.first_sample = 6;
  auto const moved = mask(other);
  CHECK(std::vector<bool>(first.begin() + 2000, first.end()) ==
        std::vector<bool>(moved.begin(), moved.begin() + 2000));
}

}  // namespace activation_test

#endif
