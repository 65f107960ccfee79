// SPDX-License-Identifier: Apache-2.0
// The sizes of the small networks against the numbers of their published code (see models/*.hpp).
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/models/small_cnn.hpp>
#include <unit/models/top_table.hpp>

namespace models_test {

using namespace tandem;

struct GoogLeNet : models::GoogLeNet<10> {};
struct ResNet18 : models::ResNet18<10> {};
struct ResNet20 : models::ResNet20<10> {};
struct SmallCnn : models::SmallCnn<10> {};

static_assert(graph<GoogLeNet>.parameter_elements() == 6'166'250);
static_assert(graph<GoogLeNet>.tops == 14);
static_assert(graph<GoogLeNet>.macs() == 1'521'756'160);
static_assert(graph<GoogLeNet>.output().out == vector_shape(10));
static_assert(graph<ResNet20>.parameter_elements() == 269'722);
static_assert(graph<ResNet18>.parameter_elements() == 11'173'962);
static_assert(graph<SmallCnn>.parameter_elements() == 42'298);
static_assert(graph<models::GoogLeNet<100>>.parameter_elements() == 6'166'250 + 90 * 1024 + 90);

TEST_CASE("GoogLeNet: parameters, work and shape of each top-level layer") {
  test::TopRow const rows[] = {{5'760, 5.31, image_shape(192, 32, 32)},
                               {165'552, 168.30, image_shape(256, 32, 32)},
                               {424'096, 432.01, image_shape(480, 32, 32)},
                               {0, 0.0, image_shape(480, 16, 16)},
                               {386'016, 98.30, image_shape(512, 16, 16)},
                               {462'936, 117.96, image_shape(512, 16, 16)},
                               {523'912, 133.56, image_shape(512, 16, 16)},
                               {611'072, 155.84, image_shape(528, 16, 16)},
                               {952'704, 243.01, image_shape(832, 16, 16)},
                               {0, 0.0, image_shape(832, 8, 8)},
                               {1'127'808, 71.96, image_shape(832, 8, 8)},
                               {1'496'144, 95.49, image_shape(1024, 8, 8)},
                               {0, 0.0, vector_shape(1024)},
                               {10'250, 0.01, vector_shape(10)}};
  test::check_tops(graph<GoogLeNet>, rows);
}

TEST_CASE("GoogLeNet: nodes and statistics") {
  auto const& g = graph<GoogLeNet>;
  int convolutions = 0;
  int joins = 0;
  std::int64_t outputs = 0;
  for (Node const& node : g.node) {
    convolutions += node.name == "Conv2d" ? 1 : 0;
    joins += node.kind == NodeKind::concat ? 1 : 0;
    outputs += node.name == "Conv2d" ? node.out.elements() : 0;
  }
  CHECK(convolutions == 1 + 9 * 7);
  CHECK(joins == 9);
  CHECK(g.nodes == 1 + 3 * 64 + 9 + 9 + 2 + 2);  // input, conv + norm + ReLU, pools, joins, …
  CHECK(static_cast<double>(outputs) / 1e6 == doctest::Approx(2.55).epsilon(0.002));
}

TEST_CASE("GoogLeNet: bytes of all outputs of one sample") {
  auto const& g = graph<GoogLeNet>;
  std::int64_t elements = 0;
  for (int n = 1; n < g.nodes; ++n) {
    elements += g.node[n].out.elements();  // it has no views
  }
  CHECK(g.activation_elements() == elements);
  CHECK(g.activation_bytes() == 4 * elements);
  CHECK(g.activation_bytes(2) == 2 * elements);
}

TEST_CASE("SmallCnn: bytes of all outputs of one sample, by hand") {
  std::int64_t const first = 3 * 16 * 28 * 28 + 16 * 14 * 14;
  std::int64_t const second = 3 * 32 * 14 * 14 + 32 * 7 * 7;
  std::int64_t const third = 3 * 48 * 7 * 7 + 10;  // Flatten is a view
  CHECK(graph<SmallCnn>.activation_bytes() == 4 * (first + second + third));
}

TEST_CASE("residual networks: work, top-level layers, joins") {
  CHECK(static_cast<double>(graph<ResNet20>.macs()) / 1e6 == doctest::Approx(40.6).epsilon(0.002));
  CHECK(static_cast<double>(graph<ResNet18>.macs()) / 1e9 == doctest::Approx(0.555).epsilon(0.002));
  CHECK(graph<ResNet20>.tops == 3 + 9 + 2);
  CHECK(graph<ResNet18>.tops == 3 + 8 + 2);
  int joins = 0;
  for (Node const& node : graph<ResNet20>.node) {
    joins += node.kind == NodeKind::add ? 1 : 0;
  }
  CHECK(joins == 9);
}

TEST_CASE("names of parameters are those of the network as it is written") {
  CHECK(parameter_name(graph<GoogLeNet>, 0) == "0.0.weight");
  CHECK(parameter_name(graph<GoogLeNet>, 1) == "0.0.bias");
  CHECK(parameter_name(graph<GoogLeNet>, graph<GoogLeNet>.parameters - 1) == "13.bias");
  bool found = false;
  for (int p = 0; p < graph<ResNet18>.parameters; ++p) {
    found = found || parameter_name(graph<ResNet18>, p) == "5.0.shortcut.0.weight";
  }
  CHECK(found);
}

}  // namespace models_test
