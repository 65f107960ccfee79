// SPDX-License-Identifier: Apache-2.0

#include <cmath>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>
#include <unit/models/affordable.hpp>
#include <unit/models/model_step.hpp>
#include <unit/models/top_table.hpp>

namespace tandem {
namespace resnet_imagenet_test {

struct ResNet50 : models::ResNet50<1000> {};

static_assert(graph<ResNet50>.parameter_elements() == 25'557'032);
static_assert(graph<ResNet50>.output().out == vector_shape(1000));

TEST_CASE("ResNet-50: parameters, work and shape of each stage") {
  auto const& g = graph<ResNet50>;
  struct Row {
    int tops;
    std::int64_t parameters;
    double giga_macs;
    Shape out;
  };
  Row const rows[] = {{4, 9'536, 0.118, image_shape(64, 56, 56)},
                      {3, 215'808, 0.668, image_shape(256, 56, 56)},
                      {4, 1'219'584, 1.028, image_shape(512, 28, 28)},
                      {6, 7'098'368, 1.464, image_shape(1024, 14, 14)},
                      {3, 14'964'736, 0.809, image_shape(2048, 7, 7)},
                      {2, 2'049'000, 0.002, vector_shape(1000)}};
  int top = 0;
  for (Row const& row : rows) {
    CAPTURE(top);
    test::TopSums stage;
    for (int i = 0; i < row.tops; ++i) {
      test::TopSums const sums = test::sums_of_top(g, top++);
      stage = {stage.parameters + sums.parameters, stage.macs + sums.macs, sums.out};
    }
    CHECK(stage.parameters == row.parameters);
    CHECK(std::abs(static_cast<double>(stage.macs) / 1e9 - row.giga_macs) <= 0.000501);
    CHECK(stage.out == row.out);
  }
  CHECK(g.tops == top);
  CHECK(static_cast<double>(g.macs()) / 1e9 == doctest::Approx(4.089).epsilon(1e-4));
}

TEST_CASE("ResNet-50: nodes") {
  CHECK(test::count_nodes(graph<ResNet50>, "Conv2d") == 1 + 16 * 3 + 4);
  CHECK(test::count_nodes(graph<ResNet50>, "BatchNorm2d") == 1 + 16 * 3 + 4);
  CHECK(test::count_nodes(graph<ResNet50>, "ReLU") == 1 + 16 * 3);
  CHECK(test::count_nodes(graph<ResNet50>, "Add") == 16);
}

TEST_CASE("ResNet-50: one training step") {
  test::check_one_step<test::Affordable<ResNet50, Image<3, 64, 64>>>(2);
}

}  // namespace resnet_imagenet_test
}  // namespace tandem
