// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/augment.hpp>
#include <tandem/data/tensor_dataset.hpp>

namespace augment_test {

using doctest::Contains;
using tandem::augment;
using tandem::ContractError;
using tandem::image_shape;
using tandem::Normalize;
using tandem::PadTo;
using tandem::Random4;
using tandem::RandomCrop;
using tandem::RandomFlip;
using tandem::Randomness;
using tandem::Shape;

using Data = tandem::TensorDataset<std::int32_t>;

/// Three images of 1 x 4 x 4, all pixels different.
Data images() {
  std::vector<float> x(48);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i + 1);
  }
  return {image_shape(1, 4, 4), std::move(x), {5, 6, 7}};
}

struct Classified : Data {
  [[nodiscard]] int classes() const { return 10; }
};

/// Adds its first word to the first pixel, in units of 2^-32.
struct Reveal {
  [[nodiscard]] Shape output(Shape const& in) const { return in; }
  void apply(std::span<float> x, Shape const&, Random4 const& bits) const {
    x[0] = static_cast<float>(bits.word[0]);
  }
};

struct Shrink {
  [[nodiscard]] Shape output(Shape const&) const { return image_shape(1, 1, 2); }
  void apply(std::span<float> x, Shape const& in) const {
    CHECK(static_cast<std::int64_t>(x.size()) == in.elements());
    x[0] = x[15];
  }
};

struct Vanish {
  [[nodiscard]] Shape output(Shape const&) const { return image_shape(1, 0, 1); }
  void apply(std::span<float>, Shape const&) const {}
};

struct RandomGrow {
  [[nodiscard]] Shape output(Shape const&) const { return image_shape(1, 9, 9); }
  void apply(std::span<float>, Shape const&, Random4 const&) const {}
};

template <class D>
std::vector<float> plain(D const& data, std::int64_t index) {
  std::vector<float> x(static_cast<std::size_t>(data.shape().elements()), -1.0F);
  std::vector<std::int32_t> y(1);
  data.read(index, x, y);
  return x;
}

template <class D>
std::vector<float> trained(D const& data, Randomness const& randomness) {
  std::vector<float> x(static_cast<std::size_t>(data.shape().elements()), -1.0F);
  std::vector<std::int32_t> y(1);
  data.read(randomness.sample, x, y, randomness);
  return x;
}

using OfReference = decltype(augment(std::declval<Data const&>(), RandomFlip{}));
using OfValue = decltype(augment(std::declval<Data>(), RandomFlip{}));
static_assert(std::is_same_v<OfReference, tandem::Augmented<Data const&, RandomFlip>>);
static_assert(std::is_same_v<OfValue, tandem::Augmented<Data, RandomFlip>>);
static_assert(tandem::RandomDataset<OfReference> && tandem::RandomDataset<OfValue>);
static_assert(!tandem::ClassifiedDataset<OfValue>);
static_assert(tandem::ClassifiedDataset<decltype(augment(std::declval<Classified>()))>);

TEST_CASE("augment refers to an lvalue and keeps an rvalue") {
  Data const data = images();
  auto const referring = augment(data, RandomFlip{});
  auto const keeping = augment(images(), RandomFlip{});
  CHECK(plain(referring, 1) == plain(data, 1));
  CHECK(plain(keeping, 1) == plain(data, 1));
  CHECK(referring.size() == 3);
  CHECK(referring.targets() == 1);
  CHECK(augment(Classified{images()}, RandomFlip{}).classes() == 10);
  auto const moved = std::move(keeping);
  CHECK(plain(moved, 2) == plain(data, 2));
}

TEST_CASE("augment applies its transforms in order") {
  auto const data = augment(images(), PadTo{image_shape(3, 6, 6)},
                            Normalize{.mean = {1, 2, 3}, .std = {1, 2, 4}});
  CHECK(data.shape() == image_shape(3, 6, 6));
  std::vector<float> const x = plain(data, 0);
  CHECK(x[0] == -1.0F);  // the border is padded before it is normalised
  CHECK(x[36] == -1.0F);
  CHECK(x[72] == -0.75F);
  CHECK(x[36 + 7] == (1.0F - 2.0F) / 2.0F);
  CHECK(trained(data, Randomness{}) == x);
  std::vector<float> y(108);
  std::vector<std::int32_t> label(1);
  data.read(2, y, label);
  CHECK(label[0] == 7);
}

TEST_CASE("evaluation leaves random transforms out, training does not") {
  auto const data = augment(images(), Normalize{.mean = {1}, .std = {2}}, Reveal{});
  CHECK(plain(data, 0)[0] == 0.0F);
  Randomness const randomness{.seed = 3, .epoch = 4, .sample = 0};
  CHECK(trained(data, randomness)[0] == static_cast<float>(randomness.draw(1).word[0]));
}

TEST_CASE("augmentation depends on seed, epoch and sample only") {
  auto const data = augment(images(), RandomCrop{2}, RandomFlip{});
  std::vector<std::vector<float>> seen;
  for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
    Randomness const randomness{.seed = 1, .epoch = epoch, .sample = 1};
    std::vector<float> const x = trained(data, randomness);
    CHECK(x == trained(data, randomness));
    CHECK(x == trained(augment(images(), RandomCrop{2}, RandomFlip{}), randomness));
    bool fresh = true;
    for (auto const& other : seen) {
      fresh = fresh && other != x;
    }
    if (fresh) {
      seen.push_back(x);
    }
  }
  CHECK(seen.size() > 20);  // of 50 that there are
}

TEST_CASE("transforms of one chain, and of nested ones, draw different bits") {
  auto const inner = augment(images(), Reveal{}, Reveal{});
  Randomness const randomness{.seed = 8, .epoch = 2, .sample = 1};
  CHECK(decltype(inner)::draws == 2);
  CHECK(trained(inner, randomness)[0] == static_cast<float>(randomness.draw(1).word[0]));
  auto const outer = augment(inner, Reveal{});
  CHECK(decltype(outer)::draws == 3);
  CHECK(trained(outer, randomness)[0] == static_cast<float>(randomness.draw(2).word[0]));
  CHECK(plain(outer, 1) == plain(images(), 1));
}

TEST_CASE("augment applies random transforms of the dataset inside") {
  auto const data = augment(augment(images(), Reveal{}), Normalize{.mean = {0}, .std = {2}});
  Randomness const randomness{.seed = 8, .epoch = 2, .sample = 1};
  CHECK(trained(data, randomness)[0] == static_cast<float>(randomness.draw(0).word[0]) / 2.0F);
}

TEST_CASE("augment refuses transforms that do not fit") {
  auto const refused = [](char const* sentence, auto const&... transforms) {
    CHECK_THROWS_WITH_AS(static_cast<void>(augment(images(), transforms...)), Contains(sentence),
                         ContractError);
  };
  refused("PadTo: the image to pad to must be at least", PadTo{image_shape(3, 2, 2)});
  refused("Normalize: give a mean and an std", PadTo{image_shape(3, 4, 4)},
          Normalize{.mean = {1}, .std = {1}});
  refused("a transform leaves nothing of the sample", Vanish{});
  refused("a random transform may not change the shape", RandomGrow{});
}

TEST_CASE("augment takes transforms that make samples smaller, and larger again") {
  auto const data = augment(images(), RandomFlip{}, Shrink{});
  CHECK(data.shape() == image_shape(1, 1, 2));
  CHECK(plain(data, 1) == std::vector<float>{32, 18});
  bool flips = false;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    flips = flips || trained(data, {1, epoch, 1}) == std::vector<float>{29, 19};
  }
  CHECK(flips);
  auto const padded = augment(data, PadTo{image_shape(1, 1, 4)});
  CHECK(plain(padded, 0) == std::vector<float>{0, 16, 2, 0});
}

TEST_CASE("Augmented::read checks its arguments") {
  auto const data = augment(images(), PadTo{image_shape(1, 5, 5)});
  std::vector<float> x(16);
  std::vector<std::int32_t> y(1);
  CHECK_THROWS_WITH_AS(data.read(0, x, y), Contains("x takes shape().elements() numbers"),
                       ContractError);
  CHECK_THROWS_WITH_AS(data.read(0, x, y, Randomness{}),
                       Contains("x takes shape().elements() numbers"), ContractError);
}

}  // namespace augment_test
