// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>
#include <unit/models/affordable.hpp>
#include <unit/models/model_step.hpp>
#include <unit/models/top_table.hpp>

namespace tandem {
namespace inception_v3_test {

struct InceptionV3 : models::InceptionV3<1000> {};

static_assert(graph<InceptionV3>.parameter_elements() == 23'834'568);
static_assert(graph<InceptionV3>.output().out == vector_shape(1000));

TEST_CASE("Inception-V3: parameters, work and shape of each top-level layer") {
  test::TopRow const rows[] = {{928, 19.18, image_shape(32, 149, 149)},
                               {9'280, 199.15, image_shape(32, 147, 147)},
                               {18'560, 398.30, image_shape(64, 147, 147)},
                               {0, 0.0, image_shape(64, 73, 73)},
                               {5'280, 27.28, image_shape(80, 73, 73)},
                               {138'624, 696.87, image_shape(192, 71, 71)},
                               {0, 0.0, image_shape(192, 35, 35)},
                               {255'904, 312.35, image_shape(256, 35, 35)},
                               {277'472, 338.69, image_shape(288, 35, 35)},
                               {285'152, 348.10, image_shape(288, 35, 35)},
                               {1'153'280, 401.94, image_shape(768, 17, 17)},
                               {1'297'408, 374.06, image_shape(768, 17, 17)},
                               {1'691'008, 487.70, image_shape(768, 17, 17)},
                               {1'691'008, 487.70, image_shape(768, 17, 17)},
                               {2'141'952, 617.91, image_shape(768, 17, 17)},
                               {1'698'304, 291.00, image_shape(1280, 8, 8)},
                               {5'044'608, 322.44, image_shape(2048, 8, 8)},
                               {6'076'800, 388.50, image_shape(2048, 8, 8)},
                               {0, 0.0, vector_shape(2048)},
                               {0, 0.0, vector_shape(2048)},
                               {2'049'000, 2.05, vector_shape(1000)}};
  test::check_tops(graph<InceptionV3>, rows);
  CHECK(static_cast<double>(graph<InceptionV3>.macs()) / 1e6 ==
        doctest::Approx(5713.2).epsilon(1e-5));
}

TEST_CASE("Inception-V3: nodes") {
  auto const& g = graph<InceptionV3>;
  CHECK(test::count_nodes(g, "Conv2d") == 94);
  CHECK(test::count_nodes(g, "BatchNorm2d") == 94);
  CHECK(test::count_nodes(g, "Concat") == 11 + 4);
  CHECK(test::count_nodes(g, "MaxPool2d") == 2 + 2);
  CHECK(test::count_nodes(g, "AvgPool2d") == 3 + 4 + 2);
  CHECK(g.nodes == 1 + 3 * 94 + 15 + 4 + 9 + 3);
}

TEST_CASE("Inception-V3: one training step") {
  test::check_one_step<test::Affordable<InceptionV3, Image<3, 107, 107>>>(2);
}

}  // namespace inception_v3_test
}  // namespace tandem
