// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include <best_step.hpp>

#include <tandem/plan/place/critical_path.hpp>

#include "placement_lp.hpp"

namespace placement_lp_test {

using namespace tandem;
using best_step::best_step;
using test::placement_lp;

constexpr double infinity = std::numeric_limits<double>::infinity();

bool has_cbc() { return std::system("command -v cbc > /dev/null 2>&1") == 0; }

/// The optimum in seconds; infinity if there is no solution, -1 if cbc gave no answer.
double cbc_optimum(std::string const& lp) {
  std::string const path =
      (std::filesystem::temp_directory_path() / ("tandem_lp_" + std::to_string(::getpid())))
          .string();
  std::ofstream{path + ".lp"} << lp;
  std::string const command = "cbc " + path + ".lp ratio 0 allow 0 sec 60 solve solution " + path +
                              ".sol > " + path + ".log 2>&1";
  int const status = std::system(command.c_str());
  std::ifstream solution{path + ".sol"};
  std::string line;
  std::getline(solution, line);
  for (char const* const end : {".lp", ".sol", ".log"}) {
    std::filesystem::remove(path + end);
  }
  CAPTURE(line);
  CHECK(status == 0);
  std::string const optimal = "Optimal - objective value ";
  if (line.substr(0, 10) == "Infeasible" || line.substr(0, 18) == "Integer infeasible") {
    return infinity;
  }
  REQUIRE(line.substr(0, optimal.size()) == optimal);
  return std::stod(line.substr(optimal.size())) / 1000;
}

/// Times of about a millisecond, as is usual.
CostGraph random_graph(std::mt19937& random, int nodes) {
  CostGraph graph;
  auto const density = 1 + random() % 3;
  for (int i = 0; i < nodes; ++i) {
    double const forward = 1e-3 * static_cast<double>(random() % 5);
    graph.node.push_back({.name = "",
                          .forward = forward,
                          .backward = random() % 4 == 0 ? 1e-3 : 2 * forward,
                          .output_bytes = static_cast<std::int64_t>(random() % 4),
                          .parameter_bytes = static_cast<std::int64_t>(random() % 3)});
    for (int from = 0; from < i; ++from) {
      if (random() % 5 < density && (i - from < 4 || random() % 3 == 0)) {
        graph.edge.push_back({from, i});
      }
    }
  }
  return graph;
}

TEST_CASE("the program of one node") {
  CostGraph const graph{
      {{.name = "a", .forward = 0.5, .backward = 1, .output_bytes = 2, .parameter_bytes = 4}}, {}};
  std::string const lp = placement_lp(graph, {.devices = 2, .memory = 14});
  CHECK(lp.substr(lp.find("Minimize")) ==
        "Minimize\n"
        " obj: step\n"
        "Subject To\n"
        " + x_0_1 = 0\n"
        " + x_0_0 = 1\n"
        " + step - 1500 x_0_0 >= 0\n"
        " + x_0_0 <= 1\n"
        " + step - 1500 x_0_1 >= 0\n"
        " + x_0_1 <= 1\n"
        " + step - b_0 >= 1000\n"
        " + b_0 - f_0 >= 500\n"
        "Binaries\n"
        " x_0_0\n"
        " x_0_1\n"
        "End\n");
  CHECK_THROWS_WITH_AS(static_cast<void>(placement_lp(graph, {.bandwidth = 0})),
                       doctest::Contains(".bandwidth must be above 0"), ContractError);
}

TEST_CASE("cbc finds the best of all placements and orders") {
  if (!has_cbc()) {
    MESSAGE("skipped: cbc is not installed");
    return;
  }
  std::mt19937 random{11};
  int shared = 0;
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    CostGraph const graph = random_graph(random, 1 + static_cast<int>(random() % 5));
    double const bandwidths[] = {50, 1e3, 2e3, 4e3, 1e9};  // at 50, sending takes up to 60 ms
    PlacementTask task{.devices = 2, .bandwidth = bandwidths[random() % 5]};
    task.latency = random() % 3 == 0 ? 1e-3 : 0;
    double const best = best_step(graph, task);
    CHECK(cbc_optimum(placement_lp(graph, task)) == doctest::Approx(best).epsilon(1e-6));
    shared += best < graph.time() * (1 - 1e-6) ? 1 : 0;
  }
  CHECK(shared >= 5);
}

TEST_CASE("three devices, and memory that is scarce") {
  if (!has_cbc()) {
    MESSAGE("skipped: cbc is not installed");
    return;
  }
  std::mt19937 random{12};
  int impossible = 0;
  int scarce = 0;
  for (int round = 0; round < 32; ++round) {
    CAPTURE(round);
    bool const limited = round % 2 == 0;
    CostGraph const graph = random_graph(random, 2 + static_cast<int>(random() % 3));
    PlacementTask task{.devices = limited ? 2 : 3, .bandwidth = 2e3};
    double const unlimited = best_step(graph, task);
    if (limited) {
      task.memory = 4 + static_cast<int>(random() % 10);
    }
    double const best = best_step(graph, task);
    double const found = cbc_optimum(placement_lp(graph, task));
    if (best == infinity) {
      CHECK(found == infinity);
      ++impossible;
    } else {
      CHECK(found == doctest::Approx(best).epsilon(1e-6));
      scarce += best > unlimited * (1 + 1e-6) ? 1 : 0;
    }
  }
  CHECK(impossible >= 1);
  CHECK(scarce >= 2);
}

/// Memory has room for one placement only; most of the step is waiting for links.
void check_forced(std::vector<int> const& parameters, std::vector<CostEdge> const& edges,
                  int memory, std::mt19937& random) {
  CostGraph graph{{}, edges};
  for (int const p : parameters) {
    graph.node.push_back({.name = "",
                          .forward = 1e-3 * static_cast<double>(1 + random() % 4),
                          .backward = 1e-3 * static_cast<double>(1 + random() % 12),
                          .output_bytes = 1 + static_cast<std::int64_t>(random() % 8),
                          .parameter_bytes = 1'000'000 * p});
  }
  PlacementTask const task{
      .devices = 2, .bandwidth = 500, .memory = 1'000'000 * memory + 100, .bytes_of_parameter = 1};
  double const best = best_step(graph, task);
  REQUIRE(best < infinity);
  CHECK(cbc_optimum(placement_lp(graph, task)) == doctest::Approx(best).epsilon(1e-6));
}

TEST_CASE("a link carries one tensor at a time") {
  if (!has_cbc()) {
    MESSAGE("skipped: cbc is not installed");
    return;
  }
  std::mt19937 random{14};
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    check_forced({4, 4, 8}, {{0, 2}, {1, 2}}, 8, random);     // 0 and 1 on a device, 2 on other
    check_forced({2, 4, 4, 6}, {{1, 3}, {2, 3}}, 8, random);  // from the second to the first
    check_forced({1, 2, 5, 6}, {{0, 2}, {1, 3}}, 7, random);  // outputs meet gradients
    check_forced({1, 2, 6, 5}, {{0, 3}, {1, 2}}, 7, random);
  }
}

TEST_CASE("an output waits for a gradient, or a gradient for an output") {
  if (!has_cbc()) {
    MESSAGE("skipped: cbc is not installed");
    return;
  }
  auto const node = [](int forward, int backward, int bytes, int parameters) {
    return CostNode{.name = "",
                    .forward = 1e-3 * forward,
                    .backward = 1e-3 * backward,
                    .output_bytes = bytes,
                    .parameter_bytes = 1000 * parameters};
  };
  CostGraph const graph{{node(1, 6, 4, 1), node(5, 3, 3, 2), node(1, 1, 0, 5), node(2, 1, 0, 6)},
                        {{0, 2}, {1, 3}}};  // 0 and 3 must share a device
  PlacementTask const task{.devices = 2, .bandwidth = 1e3, .memory = 7100, .bytes_of_parameter = 1};
  CHECK(best_step(graph, task) == doctest::Approx(0.018));  // 0.017 if they did not meet
  CHECK(cbc_optimum(placement_lp(graph, task)) == doctest::Approx(0.018).epsilon(1e-6));
}

TEST_CASE("up to eight nodes") {
  if (!has_cbc()) {
    MESSAGE("skipped: cbc is not installed");
    return;
  }
  std::mt19937 random{13};
  for (int nodes = 6; nodes <= 8; ++nodes) {
    for (int round = 0; round < 3; ++round) {
      CAPTURE(nodes);
      CAPTURE(round);
      CostGraph const graph = random_graph(random, nodes);
      PlacementTask const task{.devices = 2, .bandwidth = 4e3};
      double const found = cbc_optimum(placement_lp(graph, task));
      CHECK(found == doctest::Approx(best_step(graph, task)).epsilon(1e-6));
      CHECK(found >= step_lower_bound(graph, task) * (1 - 1e-6));
    }
  }
}

}  // namespace placement_lp_test
