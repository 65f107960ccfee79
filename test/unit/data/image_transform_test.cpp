// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/images.hpp>
#include <tandem/io/file.hpp>

namespace image_transform_test {

using doctest::Contains;
using tandem::AugmentOp;
using tandem::CenterCrop;
using tandem::ColorJitter;
using tandem::ContractError;
using tandem::image_shape;
using tandem::RandAugment;
using tandem::Random4;
using tandem::RandomErasing;
using tandem::Resize;
using tandem::Shape;

static_assert(tandem::FixedTransform<Resize> && tandem::FixedTransform<CenterCrop>);
static_assert(tandem::RandomTransform<ColorJitter> && tandem::RandomTransform<RandAugment>);
static_assert(tandem::RandomTransform<RandomErasing> && !tandem::FixedTransform<RandomErasing>);
static_assert(tandem::RandomTransform<tandem::RandomResizedCrop>);

constexpr Shape photo = image_shape(3, 23, 37);

std::vector<float> counting(Shape const& shape) {
  std::vector<float> x(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i) / 1024;
  }
  return x;
}

/// Image @p index of operations.rgb, which Pillow wrote: (H, W, C) bytes as (C, H, W) numbers.
std::vector<float> expected(std::size_t index) {
  static std::vector<std::uint8_t> const bytes =
      tandem::read_file(std::string{TANDEM_TEST_DATA} + "/images/operations.rgb");
  std::size_t const plane = 23 * 37;
  REQUIRE(bytes.size() == 30 * 3 * plane);
  std::vector<float> x(3 * plane);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(bytes[(index * plane + i % plane) * 3 + i / plane]) / 255.0F;
  }
  return x;
}

struct Difference {
  float most = 0;
  std::size_t count = 0;  // of those above it
};

/// The largest difference but for those above @p bound, which are counted.
Difference difference(std::vector<float> const& a, std::vector<float> const& b, float bound) {
  Difference found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    float const d = std::abs(a[i] - b[i]);
    found.count += d <= bound ? 0 : 1;
    found.most = d <= bound ? std::max(found.most, d) : found.most;
  }
  return found;
}

TEST_CASE("RandAugment's operations are Pillow's but for its rounding to bytes") {
  for (std::size_t i = 0; i < 28; ++i) {
    CAPTURE(i);
    std::vector<float> x = expected(0);
    RandAugment{.magnitude = 21}.run(static_cast<AugmentOp>(i % 14), x, photo, i >= 14);
    // Pillow computes the nearest pixel by 16 bits behind the point.
    std::size_t const moved = i % 14 >= 1 && i % 14 <= 5 ? 30 : 0;
    CHECK(difference(x, expected(i < 14 ? i : i + 1), 1.7F / 255).count <= moved);
  }
}

TEST_CASE("The hue turns as in HSV") {
  for (float const sign : {1.0F, -1.0F}) {
    std::vector<float> x = expected(0);
    tandem::detail::adjust_hue(x, photo, sign * 0.3F);
    CHECK(difference(x, expected(sign > 0 ? 14 : 29), 0.6F / 255).count == 0);
  }
}

TEST_CASE("Random transforms do nothing where they are told so, and else what the bits say") {
  std::vector<float> const before = expected(0);
  auto const after = [&](auto const& transform, Random4 const& bits) {
    std::vector<float> x = before;
    CHECK(transform.output(photo) == photo);
    transform.apply(x, photo, bits);
    return x;
  };
  Random4 const bits{{1, 2, 3, 4}};
  CHECK(after(ColorJitter{}, bits) == before);
  CHECK(after(RandAugment{.ops = 0}, bits) == before);
  CHECK(after(RandomErasing{.probability = 0}, bits) == before);
  auto const random = [&](auto const& transform) {
    CHECK(after(transform, bits) == after(transform, bits));
    std::set<std::vector<float>> seen;
    for (std::uint32_t i = 0; i < 20; ++i) {
      seen.insert(after(transform, {{i, 2, 3, 4}}));
      for (float const pixel : *seen.begin()) {
        REQUIRE((pixel >= 0 && pixel <= 1));
      }
    }
    return seen.size();
  };
  CHECK(random(ColorJitter{.brightness = 0.4F}) == 20);
  CHECK(random(ColorJitter{.contrast = 2}) == 20);
  CHECK(random(ColorJitter{.saturation = 0.4F}) == 20);
  CHECK(random(ColorJitter{.hue = 0.5F}) == 20);
  CHECK(random(RandAugment{}) >= 18);
  CHECK(random(RandomErasing{.probability = 1}) == 20);
}

TEST_CASE("Transforms of colours take grey images") {
  Shape const shape = image_shape(1, 4, 5);
  std::vector<float> x = counting(shape);
  for (std::uint32_t i = 0; i < 40; ++i) {
    ColorJitter{0.1F, 0.1F, 0.1F, 0.1F}.apply(x, shape, {{i, 0, 0, 0}});
    RandAugment{.ops = 3, .magnitude = 30}.apply(x, shape, {{i, 0, 0, 0}});
  }
  CHECK(std::all_of(x.begin(), x.end(), [](float v) { return v >= 0 && v <= 1; }));
}

TEST_CASE("Transforms of colours take what is no number, and leave it to the loss to be found") {
  Shape const shape = image_shape(1, 4, 5);
  for (float const odd : {std::numeric_limits<float>::quiet_NaN(), 1e30F, -1e30F,
                          std::numeric_limits<float>::infinity()}) {
    for (int op = 0; op < 14; ++op) {
      std::vector<float> x = counting(shape);
      x[7] = odd;
      RandAugment{.magnitude = 30}.run(static_cast<AugmentOp>(op), x, shape, false);
      ColorJitter{0.1F, 0.1F, 0.1F, 0.1F}.apply(x, shape, {});
    }
  }
}

TEST_CASE("RandomErasing paints one rectangle of the area and the ratio that it says") {
  Shape const shape = image_shape(2, 40, 50);
  RandomErasing const erasing{.probability = 0.5, .value = -3};
  int painted = 0;
  for (std::uint32_t i = 0; i < 400; ++i) {
    std::vector<float> x(4000, 1.0F);
    erasing.apply(x, shape, {{i, 0, 7, 0}});
    int top = 40, bottom = -1, left = 50, right = -1, count = 0;
    for (int p = 0; p < 4000; ++p) {
      if (x[static_cast<std::size_t>(p)] < 0) {
        ++count;
        top = std::min(top, p % 2000 / 50);
        bottom = std::max(bottom, p % 2000 / 50);
        left = std::min(left, p % 50);
        right = std::max(right, p % 50);
      }
    }
    if (count > 0) {
      ++painted;
      int const h = bottom - top + 1;
      int const w = right - left + 1;
      REQUIRE(count == 2 * h * w);
      REQUIRE((h * w > 2000 * 0.015 && h * w < 2000 * 0.36));
      REQUIRE((h > 0.2 * w && h < 4.5 * w));
    }
  }
  CHECK(painted > 160);
  CHECK(painted < 240);
}

TEST_CASE("CenterCrop takes the middle, as torchvision rounds it") {
  Shape const in = image_shape(2, 5, 8);
  std::vector<float> x = counting(in);
  std::vector<float> const before = x;
  CenterCrop const crop{2, 3};
  CHECK(crop.output(in) == image_shape(2, 2, 3));
  crop.apply(x, in);
  for (std::size_t i = 0; i < 12; ++i) {  // borders of 3 and 5: from row 2, column 2
    CHECK(x[i] == before[i / 6 * 40 + (2 + i % 6 / 3) * 8 + 2 + i % 3]);
  }
  std::vector<int> borders;
  for (int rest = 0; rest < 9; ++rest) {
    borders.push_back(CenterCrop::border(rest));
  }
  CHECK(borders == std::vector<int>{0, 0, 1, 2, 2, 2, 3, 4, 4});
}

TEST_CASE("Resize is the bytes' resize without its rounding, larger and smaller") {
  std::vector<float> const before = expected(0);
  tandem::Pixels bytes{3, 23, 37, std::vector<std::uint8_t>(before.size())};
  for (std::size_t i = 0; i < before.size(); ++i) {
    bytes.bytes[i % 851 * 3 + i / 851] = static_cast<std::uint8_t>(before[i] * 255 + 0.5F);
  }
  for (auto const& [height, width] :
       {std::pair{11, 50}, std::pair{40, 41}, std::pair{9, 7}, std::pair{23, 12}}) {
    Resize const resize{height, width};
    Shape const out = resize.output(photo);
    CHECK(out == image_shape(3, height, width));
    std::vector<float> x = before;
    x.resize(std::max(x.size(), static_cast<std::size_t>(out.elements())));
    resize.apply(x, photo);
    tandem::Pixels const rounded = tandem::resize(bytes, height, width);
    std::size_t const plane = static_cast<std::size_t>(height * width);
    float most = 0;
    for (std::size_t i = 0; i < 3 * plane; ++i) {
      float const byte = static_cast<float>(rounded.bytes[i % plane * 3 + i / plane]);
      most = std::max(most, std::abs(x[i] * 255 - byte));
    }
    CHECK(most <= 1.01F);  // it rounds twice
  }
}

TEST_CASE("Transforms of images say what they want") {
  auto const refused = [](auto const& transform, Shape const& in, char const* sentence) {
    CHECK_THROWS_WITH_AS(static_cast<void>(transform.output(in)), Contains(sentence),
                         ContractError);
  };
  refused(Resize{0, 3}, photo, "Resize: give a height and a width from 1");
  refused(Resize{3, 3}, tandem::vector_shape(3), "Resize: the sample must be an image");
  refused(CenterCrop{24, 3}, photo, "at most the image's; PadTo makes it larger");
  refused(CenterCrop{3, 3}, tandem::vector_shape(3), "CenterCrop: the sample must be an image");
  refused(ColorJitter{}, image_shape(4, 2, 2), "with C of 1 or 3");
  refused(ColorJitter{.hue = 0.6F}, photo, "hue is in [0, 0.5]");
  refused(ColorJitter{.contrast = std::nanf("")}, photo, "are at least 0");
  refused(RandAugment{}, image_shape(2, 2, 2), "with C of 1 or 3");
  refused(RandAugment{.magnitude = 31}, photo, "magnitude from 0 to 30");
  refused(RandAugment{.fill = 2}, photo, "fill is in [0, 1]");
  refused(RandomErasing{.probability = 2}, photo, "probability is in [0, 1]");
  refused(RandomErasing{.min_area = 0}, photo, "0 < min_area");
  refused(RandomErasing{.max_ratio = 0.1}, photo, "0 < min_ratio");
  refused(RandomErasing{}, tandem::vector_shape(3), "RandomErasing: the sample must be an image");
  refused(tandem::RandomResizedCrop{}, tandem::vector_shape(3), "RandomResizedCrop: the sample");
}

}  // namespace image_transform_test
