// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/machines.hpp>

namespace static_costs_test {

using namespace tandem;

// 1 op a second and byte of bandwidth, so that numbers are counts.
Machine counting(double math, double bandwidth) {
  Machine machine = two_cpus();
  machine.peak = {.fp64 = math, .fp32 = math, .tf32 = math, .bf16 = math};
  machine.efficiency = 1;
  machine.memory_bandwidth = bandwidth;
  machine.launch_overhead = 0;
  return machine;
}

// Input 1x4x4, conv 2x4x4 (3x3, padded; 18 weights, 2 biases, 288 macs), ReLU, 32 values, 3 outputs
// (96 weights, 3 biases, 96 macs).
struct Net : Network<Image<1, 4, 4>,
                     Sequential<Conv2d<2, Kernel<3>, Padding<1>>, ReLU, Flatten, Linear<3>>> {};

TEST_CASE("bound by products: operations of each pass") {
  CostGraph const g = static_costs(graph<Net>, counting(1, 1e12), MathPrecision::fp32, 5);
  REQUIRE(g.nodes() == 5);
  CHECK(g.node[0].time() == 0);
  CHECK(g.node[0].output_bytes == 0);  // it is wherever it is read
  CHECK(g.node[1].forward == doctest::Approx(2 * 288 * 5));
  CHECK(g.node[1].backward == doctest::Approx(2 * 288 * 5));  // the image wants no gradient
  CHECK(g.node[4].forward == doctest::Approx(2 * 96 * 5));
  CHECK(g.node[4].backward == doctest::Approx(2 * 2 * 96 * 5));
  CHECK(g.node[2].forward < 1e-6);
}

TEST_CASE("bound by memory: what each pass reads and writes") {
  CostGraph const g = static_costs(graph<Net>, counting(1e12, 1), MathPrecision::fp32, 5);
  CHECK(g.node[1].forward == doctest::Approx(4 * (16 * 5 + 32 * 5 + 20)));
  CHECK(g.node[1].backward == doctest::Approx(4 * (16 * 5 + 2 * 32 * 5 + 20)));
  CHECK(g.node[2].forward == doctest::Approx(4 * 2 * 32 * 5));
  CHECK(g.node[2].backward == doctest::Approx(4 * 3 * 32 * 5));
  CHECK(g.node[3].time() == 0);  // a view
  CHECK(g.node[4].backward == doctest::Approx(2 * 4 * (32 * 5 + 2 * 3 * 5 + 99)));
  CHECK(g.node[1].output_bytes == 4 * 32 * 5);
  CHECK(g.node[1].parameter_bytes == 4 * 20);
  CostGraph const half = static_costs(graph<Net>, counting(1e12, 1), MathPrecision::bf16, 5);
  CHECK(half.node[2].forward == doctest::Approx(g.node[2].forward / 2));
  CHECK(half.node[1].parameter_bytes == 4 * 20);  // what the optimizer keeps
}

TEST_CASE("a launch for each pass; names and edges") {
  Machine machine = counting(1e12, 1e12);
  machine.launch_overhead = 1;
  CostGraph const g = static_costs(graph<Net>, machine, MathPrecision::fp32, 1);
  CHECK(g.node[1].forward == doctest::Approx(1));
  CHECK(g.node[1].backward == doctest::Approx(1));
  CHECK(g.node[2].backward == doctest::Approx(1));
  CHECK(g.node[4].backward == doctest::Approx(2));
  CHECK(g.node[0].name == "input");
  CHECK(g.node[1].name == "0 Conv2d");
  CHECK(g.edge == std::vector<CostEdge>{{0, 1}, {1, 2}, {2, 3}, {3, 4}});
}

TEST_CASE("Inception-V3 on a V100 takes what such a GPU was measured to take, within a third") {
  CostGraph const g =
      static_costs(graph<models::InceptionV3<1000>>, dgx1_v100(), MathPrecision::fp32, 128);
  CHECK(g.nodes() == 314);
  CHECK(g.time() == doctest::Approx(0.689).epsilon(1.0 / 3));  // PipeDream's profile, 289 + 400 ms
}

TEST_CASE("no batch, no machine") {
  CHECK_THROWS_AS(static_cast<void>(static_costs(graph<Net>, two_cpus(), MathPrecision::fp32, 0)),
                  ContractError);
  CHECK_THROWS_AS(static_cast<void>(static_costs(graph<Net>, Machine{}, MathPrecision::fp32, 1)),
                  ContractError);
}

}  // namespace static_costs_test
