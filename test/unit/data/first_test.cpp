// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
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

}  // namespace first_test
}  // namespace tandem
