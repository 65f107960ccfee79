// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/augment.hpp>
#include <tandem/data/soft_labels.hpp>
#include <tandem/data/tensor_dataset.hpp>

namespace augment_test {

using doctest::Contains;
using tandem::augment;
using tandem::ContractError;
using tandem::CutMix;
using tandem::image_shape;
using tandem::Mixup;
using tandem::Normalize;
using tandem::PadTo;
using tandem::Random4;
using tandem::RandomCrop;
using tandem::RandomFlip;
using tandem::Randomness;
using tandem::Shape;
using tandem::soft_labels;

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

/// Images of 1 x 4 x 4 whose pixels are all the sample's number, of class number % 3.
struct Plain {
  using Target = std::int32_t;
  int classes_ = 3;
  [[nodiscard]] static std::int64_t size() { return 6; }
  [[nodiscard]] static Shape shape() { return image_shape(1, 4, 4); }
  [[nodiscard]] static int targets() { return 1; }
  [[nodiscard]] int classes() const { return classes_; }
  static void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y) {
    std::fill(x.begin(), x.end(), static_cast<float>(index));
    y[0] = static_cast<std::int32_t>(index % 3);
  }
};

struct Read {
  std::vector<float> x = std::vector<float>(16);
  std::vector<float> y = std::vector<float>(3);
  friend bool operator==(Read const&, Read const&) = default;
};
template <class D>
Read read(D const& data, Randomness const& randomness) {
  Read made;
  data.read(randomness.sample, made.x, made.y, randomness);
  return made;
}

static_assert(tandem::RandomDataset<decltype(soft_labels(Plain{}, Mixup{}))>);
static_assert(std::is_same_v<decltype(soft_labels(Plain{}))::Target, float>);

TEST_CASE("soft_labels: 1 of the label's class, in evaluation whatever mixes") {
  auto const data = soft_labels(Plain{}, Mixup{}, CutMix{});
  CHECK(data.targets() == 3);
  Read made;
  data.read(4, made.x, made.y);
  CHECK(made.y == std::vector<float>{0, 1, 0});
  CHECK(made.x == std::vector<float>(16, 4.0F));
  CHECK(read(soft_labels(Plain{}), {1, 2, 5}).y == std::vector<float>{0, 0, 1});
  CHECK(soft_labels<12>(images()).targets() == 12);
}

TEST_CASE("Mixup: the shares of the pixels are those of the labels, drawn by seed, epoch, sample") {
  auto const data = soft_labels(Plain{}, Mixup{.alpha = 1.0F});
  std::array<int, 6> partners{};
  double sum = 0;
  double squares = 0;
  constexpr int epochs = 3000;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    Read const made = read(data, {7, epoch, 1});
    if (epoch < 20) {
      CHECK(read(data, {7, epoch, 1}) == made);
      CHECK(read(data, {8, epoch, 1}) != made);
      CHECK(made.x == std::vector<float>(16, made.x[0]));
    }
    CHECK(std::fabs(made.y[0] + made.y[1] + made.y[2] - 1.0F) <= 1e-6F);
    // Of partner 2 the pixel is share + 2 (1 - share): classes 0 and 2 tell the partners' share.
    double const moved = double{made.x[0]} - 1.0;  // (1 - share) (partner - 1)
    double const others = double{made.y[0]} + double{made.y[2]};
    if (others > 1e-3) {
      double const partner = 1.0 + moved / others;
      CHECK(std::fabs(partner - std::round(partner)) <= 1e-3);
      ++partners[static_cast<std::size_t>(std::lround(partner))];
      sum += others;
      squares += others * others;
    }
  }
  int mixed = 0;
  for (int const partner : {0, 2, 3, 5}) {  // of the other classes
    CHECK(std::abs(partners[static_cast<std::size_t>(partner)] - epochs / 6) <= 100);  // 5 sigma
    mixed += partners[static_cast<std::size_t>(partner)];
  }
  CHECK(std::fabs(sum / mixed - 0.5) <= 0.035);  // Beta(1, 1): 1 / 2 and 1 / 3
  CHECK(std::fabs(squares / mixed - 1.0 / 3) <= 0.035);
}

TEST_CASE("Mixup: shares are of Beta(alpha, alpha), also where it is nearly 0 or 1") {
  for (double const alpha : {0.01, 0.2, 3.0, 50.0}) {
    double sum = 0;
    double squares = 0;
    constexpr int count = 4000;
    for (std::int64_t i = 0; i < count; ++i) {
      double const share = tandem::detail::beta_variate(alpha, {3, 0, i}, 5);
      CHECK_MESSAGE((share >= 0 && share <= 1), share);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    double const variance = 0.25 / (2 * alpha + 1);
    CHECK(std::fabs(sum / count - 0.5) <= 5 * std::sqrt(variance / count));
    CHECK(std::fabs(squares / count - variance) <= 0.1 * variance);
  }
}

TEST_CASE("CutMix: a rectangle of the partner, and the share that is left of the pixels") {
  auto const data = soft_labels(Plain{}, CutMix{});
  int cut = 0;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    Read const made = read(data, {7, epoch, 1});
    int left = 0;
    int first[2] = {4, 4};
    int last[2] = {-1, -1};
    for (int i = 0; i < 16; ++i) {
      bool const own = made.x[static_cast<std::size_t>(i)] == 1.0F;
      left += own ? 1 : 0;
      for (int axis = 0; axis < 2 && !own; ++axis) {
        int const at = axis == 0 ? i / 4 : i % 4;
        first[axis] = std::min(first[axis], at);
        last[axis] = std::max(last[axis], at);
      }
    }
    if (left == 16) {  // nothing cut, or the partner is the sample
      continue;
    }
    CHECK(16 - left == (last[0] - first[0] + 1) * (last[1] - first[1] + 1));
    bool const same_class = made.y[1] == 1.0F;
    CHECK((same_class || made.y[1] == static_cast<float>(left) / 16.0F));
    ++cut;
  }
  CHECK(cut > 100);
}

TEST_CASE("soft_labels says what does not fit") {
  auto const refused = [](char const* sentence, auto... mixings) {
    CHECK_THROWS_WITH_AS(static_cast<void>(soft_labels(Plain{}, mixings...)), Contains(sentence),
                         ContractError);
  };
  refused("Mixup: give an alpha from 0.01 to 100", Mixup{.alpha = 0.0F});
  refused("CutMix: give an alpha from 0.01 to 100", CutMix{.probability = 1.5F});
  std::vector<float> numbers(12);
  Data const vectors{tandem::vector_shape(4), numbers, {0, 1, 2}};
  CHECK_THROWS_WITH_AS(static_cast<void>(soft_labels<3>(vectors, CutMix{})),
                       Contains("must be images (C, H, W)"), ContractError);
  Read made;
  CHECK_THROWS_WITH_AS(
      soft_labels(Plain{2}).read(5, made.x, made.y),
      "soft_labels(data): label 2 of sample 5 of the dataset is out of range: it has 2 classes",
      ContractError);
}

}  // namespace augment_test
