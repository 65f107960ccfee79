// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/transform.hpp>

namespace transform_test {

using doctest::Contains;
using tandem::ContractError;
using tandem::image_shape;
using tandem::Normalize;
using tandem::PadTo;
using tandem::Random4;
using tandem::RandomCrop;
using tandem::RandomFlip;
using tandem::Shape;
using tandem::vector_shape;

static_assert(tandem::FixedTransform<Normalize> && !tandem::RandomTransform<Normalize>);
static_assert(tandem::FixedTransform<PadTo> && !tandem::RandomTransform<PadTo>);
static_assert(!tandem::FixedTransform<RandomCrop> && tandem::RandomTransform<RandomCrop>);
static_assert(!tandem::FixedTransform<RandomFlip> && tandem::RandomTransform<RandomFlip>);
static_assert(tandem::Transform<Normalize> && tandem::Transform<RandomFlip>);
static_assert(!tandem::Transform<int>);

std::vector<float> counting(Shape const& shape) {
  std::vector<float> x(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i + 1);
  }
  return x;
}

/// x(c, r, column), zero outside the image.
float at(std::vector<float> const& x, Shape const& shape, int c, int r, int column) {
  bool const inside = r >= 0 && r < shape[1] && column >= 0 && column < shape[2];
  return inside ? x[static_cast<std::size_t>((c * shape[1] + r) * shape[2] + column)] : 0.0F;
}

TEST_CASE("Normalize treats each channel by its own numbers") {
  Normalize const normalize{.mean = {1.0F, 2.0F}, .std = {2.0F, 4.0F}};
  Shape const shape = image_shape(2, 1, 2);
  std::vector<float> x{1.0F, 3.0F, 2.0F, 10.0F};
  CHECK(normalize.output(shape) == shape);
  normalize.apply(x, shape);
  CHECK(x == std::vector<float>{0.0F, 1.0F, 0.0F, 2.0F});
}

TEST_CASE("Normalize takes a vector as one channel") {
  Normalize const normalize{.mean = {1.0F}, .std = {0.5F}};
  std::vector<float> x{1.0F, 2.0F, 3.0F};
  CHECK(normalize.output(vector_shape(3)) == vector_shape(3));
  normalize.apply(x, vector_shape(3));
  CHECK(x == std::vector<float>{0.0F, 2.0F, 4.0F});
}

TEST_CASE("Normalize wants a positive std for each of at most 4 channels") {
  Normalize const two{.mean = {1.0F, 2.0F}, .std = {2.0F, 4.0F}};
  CHECK_THROWS_WITH_AS(static_cast<void>(two.output(image_shape(3, 1, 1))),
                       Contains("give a mean and an std above 0 for each channel"), ContractError);
  for (float const bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (Normalize const& one : {Normalize{{bad}, {1.0F}}, Normalize{{0.0F}, {bad}}}) {
      CHECK_THROWS_WITH_AS(static_cast<void>(one.output(image_shape(1, 1, 1))),
                           Contains("for each channel, both finite"), ContractError);
    }
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(two.output(image_shape(5, 1, 1))),
                       Contains("at most 4 channels"), ContractError);
}

TEST_CASE("Normalize refuses numbers of channels that are not there") {
  for (Normalize const& three :
       {Normalize{{1.0F, 2.0F, 3.0F}, {1.0F}}, Normalize{{0.0F}, {1.0F, 1.0F, 1.0F}}}) {
    for (Shape const& shape : {vector_shape(3), image_shape(1, 2, 2), tandem::timed_shape(3, 4)}) {
      CHECK_THROWS_WITH_AS(static_cast<void>(three.output(shape)),
                           Contains("more means or stds are given than the sample has channels"),
                           ContractError);
    }
  }
}

TEST_CASE("PadTo centres an image") {
  for (Shape const& in : {image_shape(1, 2, 3), image_shape(2, 3, 3), image_shape(3, 1, 1),
                          image_shape(3, 5, 6), image_shape(1, 5, 6), image_shape(1, 5, 1)}) {
    for (int const channels : {1, 2, 3}) {
      if (in[0] != 1 && in[0] != channels) {
        continue;
      }
      Shape const out = image_shape(channels, 5, 6);
      PadTo const pad{out};
      CHECK(pad.output(in) == out);
      std::vector<float> const sample = counting(in);
      std::vector<float> x(static_cast<std::size_t>(out.elements()), -1.0F);
      std::copy(sample.begin(), sample.end(), x.begin());
      pad.apply(x, in);
      bool same = true;
      for (int c = 0; c < channels; ++c) {
        for (int r = 0; r < 5; ++r) {
          for (int column = 0; column < 6; ++column) {
            same = same &&
                   at(x, out, c, r, column) == at(sample, in, in[0] == 1 ? 0 : c,
                                                  r - (5 - in[1]) / 2, column - (6 - in[2]) / 2);
          }
        }
      }
      CAPTURE(to_string(in));
      CAPTURE(channels);
      CHECK(same);
    }
  }
}

TEST_CASE("PadTo refuses what does not fit") {
  PadTo const pad{image_shape(3, 4, 4)};
  CHECK_THROWS_WITH_AS(static_cast<void>(pad.output(image_shape(3, 5, 4))),
                       Contains("at least as high and wide"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(pad.output(image_shape(3, 4, 5))),
                       Contains("at least as high and wide"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(pad.output(image_shape(2, 4, 4))),
                       Contains("only a single channel can be repeated"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(pad.output(vector_shape(4))),
                       Contains("must be images (C, H, W)"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(PadTo{vector_shape(4)}.output(image_shape(3, 4, 4))),
                       Contains("must be images (C, H, W)"), ContractError);
}

TEST_CASE("RandomCrop::shift moves an image in every direction") {
  Shape const shape = image_shape(2, 4, 5);
  std::vector<float> const sample = counting(shape);
  for (int down = -3; down <= 3; ++down) {
    for (int right = -4; right <= 4; ++right) {
      std::vector<float> x = sample;
      RandomCrop::shift(x, shape, down, right);
      bool same = true;
      for (int c = 0; c < 2; ++c) {
        for (int r = 0; r < 4; ++r) {
          for (int column = 0; column < 5; ++column) {
            same = same &&
                   at(x, shape, c, r, column) == at(sample, shape, c, r + down, column + right);
          }
        }
      }
      CAPTURE(down);
      CAPTURE(right);
      CHECK(same);
    }
  }
}

TEST_CASE("RandomCrop reaches every place, and only those of its padding") {
  Shape const shape = image_shape(1, 3, 3);
  RandomCrop const crop{1};
  CHECK(crop.output(shape) == shape);
  int seen[3][3] = {};
  for (std::uint32_t vertical = 0; vertical < 6; ++vertical) {
    for (std::uint32_t horizontal = 0; horizontal < 6; ++horizontal) {
      std::vector<float> x(9);
      x[4] = 1.0F;  // the pixel in the middle stays in the image and shows where it went
      crop.apply(x, shape, Random4{{vertical * 0x2AAAAAABU, horizontal * 0x2AAAAAABU, 0, 0}});
      for (std::size_t i = 0; i < 9; ++i) {
        seen[i / 3][i % 3] += x[i] == 1.0F ? 1 : 0;
      }
    }
  }
  for (auto const& row : seen) {
    for (int const count : row) {
      CHECK(count == 4);
    }
  }
}

TEST_CASE("RandomCrop with the middle of its bits, or without padding, changes nothing") {
  Shape const shape = image_shape(2, 3, 4);
  std::vector<float> x = counting(shape);
  RandomCrop{2}.apply(x, shape, Random4{{0x80000000U, 0x80000000U, 0, 0}});
  RandomCrop{0}.apply(x, shape, Random4{{0xFFFFFFFFU, 0, 0, 0}});
  CHECK(x == counting(shape));
}

TEST_CASE("RandomCrop refuses what it cannot crop") {
  for (int const padding : {-1, 3}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(RandomCrop{padding}.output(image_shape(1, 3, 9))),
                         Contains("padding must be at least 0 and below"), ContractError);
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(RandomCrop{3}.output(image_shape(1, 9, 3))),
                       Contains("padding must be at least 0 and below"), ContractError);
  CHECK_THROWS_WITH_AS(static_cast<void>(RandomCrop{1}.output(vector_shape(9))),
                       Contains("RandomCrop: the sample must be an image"), ContractError);
}

TEST_CASE("RandomFlip mirrors every row, if its bit says so") {
  Shape const shape = image_shape(2, 2, 3);
  std::vector<float> x = counting(shape);
  RandomFlip const flip;
  CHECK(flip.output(shape) == shape);
  flip.apply(x, shape, Random4{{0x7FFFFFFFU, ~0U, ~0U, ~0U}});
  CHECK(x == counting(shape));
  flip.apply(x, shape, Random4{{0x80000000U, 0, 0, 0}});
  CHECK(x == std::vector<float>{3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10});
  CHECK_THROWS_WITH_AS(static_cast<void>(flip.output(vector_shape(9))),
                       Contains("RandomFlip: the sample must be an image"), ContractError);
}

}  // namespace transform_test
