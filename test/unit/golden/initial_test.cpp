// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <tandem/io/safetensors/all.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/train/parameters.hpp>

namespace tandem {
namespace initial_test {

constexpr int seeds = 8000;

std::vector<double> golden_quantiles(std::string const& name) {
  static Safetensors const file =
      Safetensors::read(std::string{TANDEM_TEST_DATA} + "/golden/initial.safetensors");
  TensorView const& tensor = file.at(name);
  REQUIRE(tensor.dtype == Dtype::F64);
  std::vector<double> values(17);
  REQUIRE(tensor.data.size() == values.size() * sizeof(double));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

// Both quantiles are of as many values drawn; that of uniform values in ±b has a deviation of at
// most 2 b sqrt(1/4 / n). Neighbours in a parameter must not be alike either.
void check_law(std::string const& name, Parameter const& parameter, int p) {
  CAPTURE(name);
  auto const count = static_cast<std::size_t>(parameter.shape.elements());
  std::vector<float> values(count * seeds);
  for (std::size_t seed = 0; seed < seeds; ++seed) {
    initialize<float>(parameter, p, seed, std::span{values}.subspan(seed * count, count));
  }
  auto const n = static_cast<double>(values.size());
  double const bound = 1.0 / std::sqrt(static_cast<double>(parameter.init.fan_in));
  double covariance = 0.0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    covariance += static_cast<double>(values[i]) * static_cast<double>(values[i - 1]);
  }
  CHECK(std::abs(covariance / n) <= 5.0 * bound * bound / 3.0 / std::sqrt(n));

  std::sort(values.begin(), values.end());
  std::vector<double> const golden = golden_quantiles(name);
  double const most = 5.0 * bound * std::sqrt(2.0 / n);
  for (std::size_t q = 0; q <= 16; ++q) {
    double const own = static_cast<double>(values[q * (values.size() - 1) / 16]);
    CAPTURE(q);
    CHECK(std::abs(own - golden[q]) <= most);
    CHECK(std::abs(own) <= bound * (1.0 + 1e-7));
    CHECK(std::abs(golden[q]) <= bound * (1.0 + 1e-7));
  }
}

template <class L>
void check_layer_law(std::string const& name, Shape in) {
  constexpr int any = 3;
  Parameters const parameters = L::parameters(in);
  REQUIRE(parameters.count == 2);
  for (int i = 0; i < parameters.count; ++i) {
    check_law(name + "." + parameters.item[i].name, parameters.item[i], any + i);
  }
}

TEST_CASE("initial weights and biases have the law of PyTorch's layers") {
  check_layer_law<Conv2d<7, Kernel<3, 2>>>("conv", image_shape(5, 8, 8));
  check_layer_law<Conv2d<4, Kernel<3>, Groups<2>>>("grouped", image_shape(6, 8, 8));
  check_layer_law<Linear<4>>("linear", vector_shape(11));
}

}  // namespace initial_test
}  // namespace tandem
