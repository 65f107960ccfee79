// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/dataset.hpp>

namespace dataset_test {

using tandem::Randomness;
using tandem::Shape;

struct Plain {
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 5; }
  [[nodiscard]] Shape shape() const { return tandem::vector_shape(2); }
  [[nodiscard]] int targets() const { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    x[0] = x[1] = static_cast<float>(index);
    y[0] = 1;
  }
};

struct Random : Plain {
  [[nodiscard]] int classes() const { return 3; }
  using Plain::read;
  void read(std::int64_t index, std::span<float> x, std::span<Target> y,
            Randomness const& randomness) const {
    read(index, x, y);
    y[0] = static_cast<Target>(randomness.epoch);
  }
};

struct NoTarget : Plain {
  using Target = void;
};
struct DoubleTarget : Plain {
  using Target = double;
  void read(std::int64_t, std::span<float>, std::span<double>) const {}
};
struct NoSize : Plain {
  void size() const {}
};
struct NoShape : Plain {
  void shape() const {}
};
struct NoTargets : Plain {
  void targets() const {}
};
struct NoRead : Plain {
  void read() const {}
};
struct MutableRead : Plain {
  void read(std::int64_t, std::span<float>, std::span<Target>) {}
};

static_assert(tandem::Dataset<Plain> && !tandem::RandomDataset<Plain>);
static_assert(tandem::Dataset<Random> && tandem::RandomDataset<Random>);
static_assert(!tandem::ClassifiedDataset<Plain> && tandem::ClassifiedDataset<Random>);
static_assert(!tandem::Dataset<NoTarget> && !tandem::Dataset<DoubleTarget>);
static_assert(!tandem::Dataset<NoSize> && !tandem::Dataset<NoShape>);
static_assert(!tandem::Dataset<NoTargets> && !tandem::Dataset<NoRead>);
static_assert(!tandem::Dataset<MutableRead> && !tandem::Dataset<int>);

TEST_CASE("read_sample calls the form of read that there is") {
  std::vector<float> x(2);
  std::vector<std::int32_t> y(1);
  tandem::read_sample(Plain{}, 4, x, y, Randomness{.epoch = 7});
  CHECK(x == std::vector<float>{4.0F, 4.0F});
  CHECK(y[0] == 1);
  tandem::read_sample(Random{}, 3, x, y, Randomness{.epoch = 7});
  CHECK(x == std::vector<float>{3.0F, 3.0F});
  CHECK(y[0] == 7);
}

TEST_CASE("classes_of is 0 for a dataset that does not say") {
  CHECK(tandem::classes_of(Plain{}) == 0);
  CHECK(tandem::classes_of(Random{}) == 3);
}

TEST_CASE("Randomness draws from seed, epoch, sample and which, and from nothing else") {
  Randomness const base{.seed = 1, .epoch = 2, .sample = 3};
  auto const first = [](Randomness const& randomness, std::uint32_t which) {
    return randomness.draw(which).word[0];
  };
  auto const expected =
      tandem::philox(1, tandem::RandomUse::augmentation, 3, (std::uint64_t{2} << 32) | 4);
  CHECK(first(base, 4) == expected.word[0]);
  CHECK(first(base, 4) == first(Randomness{1, 2, 3}, 4));
  CHECK(first(base, 4) != first(Randomness{0, 2, 3}, 4));
  CHECK(first(base, 4) != first(Randomness{1, 1, 3}, 4));
  CHECK(first(base, 4) != first(Randomness{1, 2, 2}, 4));
  CHECK(first(base, 4) != first(base, 5));
}

}  // namespace dataset_test
