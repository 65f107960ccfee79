// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <tandem/data/augment.hpp>
#include <tandem/data/first.hpp>
#include <tandem/data/tensor_dataset.hpp>

namespace tandem {
namespace first_test {

TensorDataset<std::int32_t> numbers(int count) {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < count; ++i) {
    x.insert(x.end(), {static_cast<float>(i), static_cast<float>(10 * i)});
    y.push_back(i);
  }
  return {vector_shape(2), x, y};
}

TEST_CASE("first: so many samples, the same ones, and no more than there are") {
  auto const data = numbers(5);
  auto const some = first(data, 3);
  static_assert(Dataset<decltype(some)>);
  CHECK(some.size() == 3);
  CHECK(some.shape() == vector_shape(2));
  CHECK(some.targets() == 1);
  std::vector<float> x(2);
  std::vector<std::int32_t> y(1);
  some.read(2, x, y);
  CHECK(x == std::vector{2.0F, 20.0F});
  CHECK(y.front() == 2);
  CHECK(first(data, 9).size() == 5);
  CHECK(first(data, 0).size() == 0);
}

TEST_CASE("first refers to an lvalue, and keeps an rvalue") {
  auto data = numbers(5);
  static_assert(
      std::is_same_v<decltype(first(data, 3)), First<TensorDataset<std::int32_t> const&>>);
  auto const some = first(augment(first(numbers(5), 4), Normalize{{1.0F}, {2.0F}}), 3);
  CHECK(some.size() == 3);
  std::vector<float> x(2);
  std::vector<std::int32_t> y(1);
  some.read(2, x, y);
  CHECK(x == std::vector{0.5F, 9.5F});
}

/// Sequences of one to three rows.
struct Lengths {
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 3; }
  [[nodiscard]] Shape shape() const { return timed_shape(3, 2); }
  [[nodiscard]] int targets() const { return 1; }
  [[nodiscard]] int length(std::int64_t index) const { return static_cast<int>(index) + 1; }
  void read(std::int64_t, std::span<float>, std::span<Target>) const {}
};

TEST_CASE("first has the lengths of sequences, and the draws of transforms") {
  auto const some = first(Lengths{}, 2);
  static_assert(SequenceDataset<decltype(some)>);
  CHECK(some.length(1) == 2);
  static_assert(decltype(first(augment(numbers(1), Normalize{}), 1))::draws == 1);
  static_assert(decltype(augment(first(augment(numbers(1), Normalize{}), 1), PadTo{}))::draws == 2);
}

}  // namespace first_test
}  // namespace tandem
