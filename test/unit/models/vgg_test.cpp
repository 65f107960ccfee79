// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>
#include <unit/models/affordable.hpp>
#include <unit/models/model_step.hpp>
#include <unit/models/top_table.hpp>

namespace tandem {
namespace vgg_test {

struct Vgg16Bn : models::Vgg16Bn<10> {};
struct Vgg16 : models::Vgg16<1000> {};

static_assert(graph<Vgg16Bn>.parameter_elements() == 14'728'266);
static_assert(graph<models::Vgg16Bn<100>>.parameter_elements() == 14'728'266 + 90 * 512 + 90);
static_assert(graph<Vgg16Bn>.output().out == vector_shape(10));
static_assert(graph<Vgg16>.parameter_elements() == 138'357'544);
static_assert(graph<Vgg16>.output().out == vector_shape(1000));

TEST_CASE("VGG-16: parameters, work and shape of each top-level layer") {
  test::TopRow const rows[] = {{1'792, 86.70, image_shape(64, 224, 224)},
                               {36'928, 1849.69, image_shape(64, 224, 224)},
                               {0, 0.0, image_shape(64, 112, 112)},
                               {73'856, 924.84, image_shape(128, 112, 112)},
                               {147'584, 1849.69, image_shape(128, 112, 112)},
                               {0, 0.0, image_shape(128, 56, 56)},
                               {295'168, 924.84, image_shape(256, 56, 56)},
                               {590'080, 1849.69, image_shape(256, 56, 56)},
                               {590'080, 1849.69, image_shape(256, 56, 56)},
                               {0, 0.0, image_shape(256, 28, 28)},
                               {1'180'160, 924.84, image_shape(512, 28, 28)},
                               {2'359'808, 1849.69, image_shape(512, 28, 28)},
                               {2'359'808, 1849.69, image_shape(512, 28, 28)},
                               {0, 0.0, image_shape(512, 14, 14)},
                               {2'359'808, 462.42, image_shape(512, 14, 14)},
                               {2'359'808, 462.42, image_shape(512, 14, 14)},
                               {2'359'808, 462.42, image_shape(512, 14, 14)},
                               {0, 0.0, image_shape(512, 7, 7)},
                               {0, 0.0, vector_shape(25088)},
                               {102'764'544, 102.76, vector_shape(4096)},
                               {0, 0.0, vector_shape(4096)},
                               {0, 0.0, vector_shape(4096)},
                               {16'781'312, 16.78, vector_shape(4096)},
                               {0, 0.0, vector_shape(4096)},
                               {0, 0.0, vector_shape(4096)},
                               {4'097'000, 4.10, vector_shape(1000)}};
  test::check_tops(graph<Vgg16>, rows);
  CHECK(static_cast<double>(graph<Vgg16>.macs()) / 1e9 == doctest::Approx(15.470).epsilon(1e-4));
  CHECK(test::count_nodes(graph<Vgg16>, "Dropout") == 2);
}

TEST_CASE("VGG-16 with batch norm for CIFAR: nodes, work and shapes") {
  auto const& g = graph<Vgg16Bn>;
  CHECK(g.tops == 13 + 5 + 2);
  CHECK(g.nodes == 1 + 3 * 13 + 5 + 2);
  CHECK(test::count_nodes(g, "BatchNorm2d") == 13);
  CHECK(static_cast<double>(g.macs()) / 1e9 == doctest::Approx(0.3132).epsilon(2e-4));
  CHECK(test::sums_of_top(g, 0).out == image_shape(64, 32, 32));
  CHECK(test::sums_of_top(g, 13).out == image_shape(512, 2, 2));
  CHECK(test::sums_of_top(g, 17).out == image_shape(512, 1, 1));
}

TEST_CASE("VGG-16 with batch norm: one training step") { test::check_one_step<Vgg16Bn>(4); }
TEST_CASE("VGG-16: one training step") {
  test::check_one_step<test::Affordable<Vgg16, Image<3, 32, 32>>>(1);
}

}  // namespace vgg_test
}  // namespace tandem
