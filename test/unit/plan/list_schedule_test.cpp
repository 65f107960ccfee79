// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/place/list_schedule.hpp>
#include <unit/plan/placement_reference.hpp>

namespace list_schedule_test {

using namespace tandem;

using Span = PlacementSpan;
using Transfer = PlacementTransfer;

constexpr PlacementTask unit_links{.devices = 2, .bandwidth = 1};  // a byte a second

CostNode node(double forward, double backward, std::int64_t bytes = 0) {
  return {"", forward, backward, bytes, 0};
}

PlacementTimeline timeline(CostGraph const& graph, std::vector<int> const& device,
                           PlacementTask const& task = unit_links) {
  PlacementTimeline const result = schedule_timeline(graph, task, device);
  CHECK(result.device == device);
  CHECK(result.step == schedule_step(graph, task, device));
  return result;
}

TEST_CASE("a chain on one device and on two") {
  CostGraph const chain{{node(1, 2, 10), node(3, 4, 20), node(5, 6)}, {{0, 1}, {1, 2}}};
  PlacementTimeline one = timeline(chain, {0, 0, 0});
  CHECK(one.forward == std::vector<Span>{{0, 1}, {1, 4}, {4, 9}});
  CHECK(one.backward == std::vector<Span>{{19, 21}, {15, 19}, {9, 15}});
  CHECK(one.transfer.empty());
  CHECK(one.step == chain.time());
  PlacementTimeline two = timeline(chain, {0, 0, 1});
  CHECK(two.forward == std::vector<Span>{{0, 1}, {1, 4}, {24, 29}});
  CHECK(two.backward == std::vector<Span>{{59, 61}, {55, 59}, {29, 35}});
  CHECK(two.transfer ==
        std::vector<Transfer>{{1, 0, 1, false, {4, 24}}, {1, 1, 0, true, {35, 55}}});
  CHECK(two.step == 61);
}

TEST_CASE("a transfer takes latency and bytes / bandwidth") {
  CostGraph const chain{{node(1, 1, 10), node(1, 1)}, {{0, 1}}};
  PlacementTask const task{.devices = 2, .bandwidth = 5, .latency = 3};
  CHECK(schedule_step(chain, task, std::vector<int>{0, 1}) == 4 + 2 * (3 + 10 / 5));
}

TEST_CASE("a diamond: branches side by side, the longer one first") {
  CostGraph const diamond{{node(1, 1), node(2, 2), node(5, 5), node(1, 1)},
                          {{0, 1}, {0, 2}, {1, 3}, {2, 3}}};
  PlacementTimeline const one = timeline(diamond, {0, 0, 0, 0});
  CHECK(one.forward == std::vector<Span>{{0, 1}, {6, 8}, {1, 6}, {8, 9}});
  CHECK(one.backward == std::vector<Span>{{17, 18}, {15, 17}, {10, 15}, {9, 10}});
  PlacementTimeline const two = timeline(diamond, {0, 1, 0, 0});
  CHECK(two.forward == std::vector<Span>{{0, 1}, {1, 3}, {1, 6}, {6, 7}});
  CHECK(two.backward == std::vector<Span>{{13, 14}, {8, 10}, {8, 13}, {7, 8}});
  CHECK(two.step == 14);
}

TEST_CASE("among equally urgent passes that of the lower index is first") {
  CostGraph const fork{{node(0, 0), node(1, 1), node(1, 1)}, {{0, 1}, {0, 2}}};
  PlacementTimeline const one = timeline(fork, {0, 0, 0});
  CHECK(one.forward[1] == Span{0, 1});
  CHECK(one.forward[2] == Span{1, 2});
  CHECK(one.backward[1] == Span{2, 3});
}

TEST_CASE("a tensor with two readers elsewhere is sent once and its gradient comes back once") {
  CostGraph const fork{{node(1, 1, 4), node(2, 3), node(5, 7)}, {{0, 1}, {0, 2}}};
  PlacementTimeline const two = timeline(fork, {0, 1, 1});
  CHECK(two.forward == std::vector<Span>{{0, 1}, {17, 19}, {5, 10}});
  CHECK(two.backward == std::vector<Span>{{26, 27}, {19, 22}, {10, 17}});
  CHECK(two.transfer == std::vector<Transfer>{{0, 0, 1, false, {1, 5}}, {0, 1, 0, true, {22, 26}}});
  // On two other devices: once for each of them, on links of their own.
  PlacementTimeline const three = timeline(fork, {0, 1, 2}, {.devices = 3, .bandwidth = 1});
  CHECK(three.transfer == std::vector<Transfer>{{0, 0, 1, false, {1, 5}},
                                                {0, 0, 2, false, {1, 5}},
                                                {0, 1, 0, true, {10, 14}},
                                                {0, 2, 0, true, {17, 21}}});
  CHECK(three.step == 22);
}

TEST_CASE("a reader here does not wait for the gradient's way, its source does") {
  CostGraph const fork{{node(1, 1, 4), node(2, 3), node(5, 7)}, {{0, 1}, {0, 2}}};
  PlacementTimeline const two = timeline(fork, {0, 0, 1});
  CHECK(two.forward == std::vector<Span>{{0, 1}, {1, 3}, {5, 10}});
  CHECK(two.backward == std::vector<Span>{{21, 22}, {3, 6}, {10, 17}});
}

TEST_CASE("a link carries one tensor at a time, the most urgent first; links do not meet") {
  // Two sources on device 0, each with a reader on device 1.
  CostGraph const pairs{{node(1, 1, 10), node(1, 1, 10), node(1, 1), node(4, 4)}, {{0, 2}, {1, 3}}};
  PlacementTimeline const two = timeline(pairs, {0, 0, 1, 1});
  CHECK(two.forward == std::vector<Span>{{1, 2}, {0, 1}, {21, 22}, {11, 15}});
  CHECK(two.backward == std::vector<Span>{{39, 40}, {29, 30}, {22, 23}, {15, 19}});
  CHECK(two.transfer == std::vector<Transfer>{{1, 0, 1, false, {1, 11}},
                                              {0, 0, 1, false, {11, 21}},
                                              {1, 1, 0, true, {19, 29}},
                                              {0, 1, 0, true, {29, 39}}});
}

TEST_CASE("an empty graph, one node, and passes without duration") {
  CHECK(timeline({}, {}).step == 0);
  CHECK(timeline({{node(2, 3)}, {}}, {1}).step == 5);
  CostGraph const zeros{{node(0, 0), node(0, 0), node(1, 0)}, {{0, 1}, {1, 2}}};
  CHECK(timeline(zeros, {0, 1, 0}).step == 1);
}

TEST_CASE("the same as the slow scheduler") {
  std::mt19937 random{7};
  for (int trial = 0; trial < 300; ++trial) {
    CAPTURE(trial);
    CostGraph const graph = random_graph(random, 1 + trial % 25);
    int const devices = 1 + trial % 4;
    PlacementTask const task{
        .devices = devices, .bandwidth = 1, .latency = static_cast<double>(trial % 3)};
    detail::ListSchedule schedule{graph, task};
    for (int again = 0; again < 4; ++again) {  // also when its memory has been used
      std::vector<int> const device = random_devices(random, graph, devices);
      PlacementTimeline const slow = slow_timeline(graph, task, device);
      PlacementTimeline const fast = schedule.timeline(device);
      REQUIRE(fast.forward == slow.forward);
      REQUIRE(fast.backward == slow.backward);
      REQUIRE(sorted(fast.transfer) == sorted(slow.transfer));
      REQUIRE(fast.step == slow.step);
      REQUIRE(schedule.step(device, fast.step) == fast.step);
      double const less = schedule.step(device, fast.step * 0.99 - 0.01);
      REQUIRE((less == fast.step || less == std::numeric_limits<double>::infinity()));
    }
  }
}

TEST_CASE("a limit ends a run before its end") {
  CostGraph const chain{{node(1, 2, 10), node(3, 4)}, {{0, 1}}};
  detail::ListSchedule schedule{chain, unit_links};
  std::vector<int> const device{0, 1};
  CHECK(schedule.step(device, 30) == 30);
  CHECK(schedule.step(device, 29) == std::numeric_limits<double>::infinity());
}

TEST_CASE("what does not fit in memory takes forever") {
  CostGraph graph{{node(1, 1, 10), node(1, 1, 20)}, {}};
  graph.node[0].parameter_bytes = 5;
  PlacementTask task{.devices = 2, .memory = 45, .bytes_of_parameter = 3};
  std::vector<int> const one{0, 0};
  CHECK(schedule_step(graph, task, one) == 4);
  task.memory = 44;
  CHECK(schedule_step(graph, task, one) == std::numeric_limits<double>::infinity());
  CHECK(schedule_step(graph, task, std::vector<int>{0, 1}) == 2);
  task.bytes_of_parameter = 2.75;
  CHECK(schedule_step(graph, task, one) == 4);
}

TEST_CASE("numbers out of range") {
  CostGraph graph{{node(1, 1), node(1, 1)}, {{0, 1}}};
  std::vector<int> const device{0, 1};
  auto const throws = [&](PlacementTask const& task, std::vector<int> const& of, char const* text) {
    CHECK_THROWS_WITH_AS((void)schedule_step(graph, task, of), doctest::Contains(text),
                         ContractError);
    CHECK_THROWS_WITH_AS((void)schedule_timeline(graph, task, of), doctest::Contains(text),
                         ContractError);
  };
  throws({.devices = 0}, device, ".devices must be at least 1");
  throws({.bandwidth = 0}, device, ".bandwidth must be above 0");
  throws({.latency = -1}, device, ".latency must be finite");
  throws({.bytes_of_parameter = -1}, device, ".bytes_of_parameter must be");
  throws({}, {0}, "one device for each node");
  throws({}, {0, 2}, "from 0 to .devices - 1");
  throws({}, {0, -1}, "from 0 to .devices - 1");
  graph.edge[0] = {1, 0};
  throws({}, device, "to one with a higher index");
  graph.edge[0] = {0, 2};
  throws({}, device, "to one with a higher index");
  graph.edge.clear();
  graph.node[1].forward = -1;
  throws({}, device, "times and sizes of a node");
  graph.node[1].forward = std::numeric_limits<double>::infinity();
  throws({}, device, "must be finite");
}

TEST_CASE("a graph that would take gigabytes is refused") {
  CostGraph graph;
  graph.node.resize(200'000);
  CHECK_THROWS_WITH_AS(static_cast<void>(schedule_step(graph, {.devices = 64}, {})),
                       doctest::Contains("nodes times devices must be 10,000,000 at most"),
                       ContractError);
}

}  // namespace list_schedule_test
