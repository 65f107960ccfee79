// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/tensor_dataset.hpp>

namespace tensor_dataset_test {

using doctest::Contains;
using tandem::ContractError;
using tandem::TensorDataset;
using tandem::vector_shape;

static_assert(tandem::Dataset<TensorDataset<std::int32_t>>);
static_assert(tandem::Dataset<TensorDataset<float>>);
static_assert(!tandem::ClassifiedDataset<TensorDataset<std::int32_t>>);

TEST_CASE("TensorDataset returns its rows") {
  TensorDataset<float> const data{vector_shape(2), {1, 2, 3, 4}, {10, 11, 12, 13, 14, 15}, 3};
  CHECK(data.size() == 2);
  CHECK(data.shape() == vector_shape(2));
  CHECK(data.targets() == 3);
  std::vector<float> x(2);
  std::vector<float> y(3);
  data.read(1, x, y);
  CHECK(x == std::vector<float>{3, 4});
  CHECK(y == std::vector<float>{13, 14, 15});
}

TEST_CASE("TensorDataset holds labels, and may be empty") {
  TensorDataset<std::int32_t> const data{tandem::image_shape(1, 1, 2), {1, 2}, {7}};
  std::vector<float> x(2);
  std::vector<std::int32_t> y(1);
  data.read(0, x, y);
  CHECK(y[0] == 7);
  CHECK(TensorDataset<std::int32_t>{vector_shape(2), {}, {}}.size() == 0);
}

TEST_CASE_TEMPLATE("TensorDataset checks its arrays", T, std::int32_t, float) {
  using Data = TensorDataset<T>;
  CHECK_THROWS_WITH_AS((Data{tandem::Shape{}, {}, {}}), Contains("every extent of the shape"),
                       ContractError);
  CHECK_THROWS_WITH_AS((Data{vector_shape(0), {}, {}}), Contains("every extent of the shape"),
                       ContractError);
  CHECK_THROWS_WITH_AS((Data{vector_shape(2), {1, 2}, {1}, 0}), Contains("at least one target"),
                       ContractError);
  CHECK_THROWS_WITH_AS((Data{vector_shape(2), {1, 2, 3}, {1}}),
                       Contains("x must hold a whole number of samples"), ContractError);
  CHECK_THROWS_WITH_AS((Data{vector_shape(2), {1, 2}, {1, 2}}),
                       Contains("y must hold `targets` numbers for each sample"), ContractError);
  CHECK_THROWS_WITH_AS((Data{vector_shape(2), {1, 2}, {1, 2, 3}, 2}),
                       Contains("y must hold `targets` numbers for each sample"), ContractError);
}

TEST_CASE("TensorDataset::read checks its arguments") {
  TensorDataset<float> const data{vector_shape(2), {1, 2}, {1}};
  std::vector<float> x(2);
  std::vector<float> y(1);
  CHECK_THROWS_WITH_AS(data.read(1, x, y), Contains("index must be in [0, size())"), ContractError);
  CHECK_THROWS_WITH_AS(data.read(-1, x, y), Contains("index must be in [0, size())"),
                       ContractError);
  CHECK_THROWS_WITH_AS(data.read(0, y, y), Contains("x takes shape().elements() numbers"),
                       ContractError);
  CHECK_THROWS_WITH_AS(data.read(0, x, x), Contains("y takes targets()"), ContractError);
}

}  // namespace tensor_dataset_test
