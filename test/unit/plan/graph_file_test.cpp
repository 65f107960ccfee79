// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/plan/cost/graph_file.hpp>

namespace graph_file_test {

using namespace tandem;

GraphFile parse(std::string_view text) { return parse_graph_file(text, "g"); }

void refused(std::string_view text, std::string const& begin) {
  CAPTURE(text);
  std::string what = "none";
  try {
    static_cast<void>(parse(text));
  } catch (FileError const& error) {
    what = std::string{error.what()}.substr(std::string{"'g': "}.size());
  }
  CHECK(what.substr(0, begin.size()) == begin);
}

std::string changed(std::string text, std::string const& what, std::string const& into) {
  REQUIRE(text.find(what) != text.npos);
  return text.replace(text.find(what), what.size(), into);
}

// Two branches, by us, in the format of Piper's README and program; notes of other keys between.
std::string const piper =
    R"({"maxDevices": 4, "maxMemoryPerDevice": 1e9, "bandwidth": 25e9, "mbsInBatch": 8,
"nodes": [
 {"id": 7, "name": "join", "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 0.3, "parameterSize": 400.0,
   "memoryUsageA": 1.0, "memoryUsageB": 2.0, "syncTimeFw": {"2": 0.0, "3": 0.0}, "syncTimeBw": {}}]}},
 {"id": 1, "TMPCs": {"1": [{"id": "again", "timePerSample": 0.9, "parameterSize": 8.0},
                           {"id": "vanilla", "timePerSample": 0.6, "parameterSize": 9.0}],
                     "2": [{"id": "vanilla", "timePerSample": 0.1, "parameterSize": 4.0}]}},
 {"id": 2, "name": "left", "TMPCs": {"1": [{"timePerSample": 3, "parameterSize": 0}]}},
 {"id": 3, "name": "right", "TMPCs": {"1": [{"timePerSample": 3, "parameterSize": 0}]}}],
"edges": [
 {"sourceId": 1, "destId": 2, "communicationCost": 100},
 {"sourceId": 1, "destId": 3, "communicationCost": 150.4},
 {"sourceId": 2, "destId": 7, "communicationCost": 10},
 {"sourceId": 3, "destId": 7, "communicationCost": 20}]
})";

TEST_CASE("Piper: the fastest way on one device, a third of it forward") {
  GraphFile const file = parse(piper);
  CHECK(file.format == GraphFormat::piper);
  CHECK(file.knows_weights());
  CostGraph const& graph = file.graph;
  REQUIRE(graph.nodes() == 4);
  CHECK(graph.node[0].name == "node 1");
  CHECK(graph.node[0].forward == doctest::Approx(0.2));
  CHECK(graph.node[0].backward == doctest::Approx(0.4));
  CHECK(graph.node[0].parameter_bytes == 9);
  CHECK(graph.node[0].output_bytes == 150);
  CHECK(graph.node[1].name == "left 2");
  CHECK(graph.node[3].name == "join 7");
  CHECK(graph.node[3].output_bytes == 0);
  CHECK(graph.node[3].part == 3);
  CHECK(graph.edge == std::vector<CostEdge>{{0, 1}, {0, 2}, {1, 3}, {2, 3}});
}

TEST_CASE("Piper: what is wrong, where, and what to do") {
  refused("{}", "line 1, column 1: the file lacks \"nodes\"; add it");
  refused("{\"nodes\": []}",
          "line 1, column 11: \"nodes\" must be a list, [...], with one or more");
  refused("{\"nodes\": [3]}", "line 1, column 12: a node must be an object");
  refused(changed(piper, "{\"id\": 7, ", "{"), "line 3, column 2: a node lacks \"id\"; add it");
  refused(changed(piper, "\"id\": 7", "\"id\": 7.5"), "line 3, column 9: \"id\" must be a whole");
  refused(changed(piper, "\"id\": 3,", "\"id\": 2,"),
          "line 9, column 9: node 2 is here for a second");
  refused(
      changed(piper, "{\"1\": [{\"timePerSample\": 3", "{\"2\": [{\"timePerSample\": 3"),
      "line 8, column 37: node 2 has no times on 1 device; add \"1\": [{...}] to its \"TMPCs\"");
  refused(changed(piper, "0.3,", "-0.3,"),
          "line 3, column 79: \"timePerSample\" is no cost; write a number from 0 to 1e12");
  refused(changed(piper, "\"timePerSample\": 0.3, ", ""),
          "line 3, column 44: a way to run a node lacks");
  refused(changed(piper, "\"destId\": 3", "\"destId\": 4"),
          "line 12, column 28: there is no node 4; write it or leave out this edge");
  refused(changed(piper, "\"destId\": 3", "\"destId\": 2"),
          "line 12, column 2: this edge is here for a second time; leave it out");
  refused(changed(piper, "\"destId\": 3", "\"destId\": 1"),
          "line 12, column 2: a node reads itself");
  refused(changed(piper, "\"sourceId\": 3, \"destId\": 7", "\"sourceId\": 7, \"destId\": 1"),
          "line 1");
  refused(changed(piper, "20}]", "20}"), "line 15, column 1: expected ',' or ']'");
  try {
    static_cast<void>(
        parse(changed(piper, "\"sourceId\": 3, \"destId\": 7", "\"sourceId\": 7, \"destId\": 1")));
  } catch (FileError const& error) {
    CHECK(std::string{error.what()}.find("this edge closes a cycle; leave out one") !=
          std::string::npos);
  }
}

// By us, in the format of the instances' README: a and b, then c, which reads both, and their
// backward operators; d, without a colour of its own, belongs to c, which waits for it, too.
std::string const instance = R"({"maxSizePerFPGA": 1e9, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [
{"id": 1, "name": "a", "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 1, "isBackwardNode": 0, "colorClass": 5, "size": 100},
{"id": 2, "name": "b", "supportedOnFpga": true, "cpuLatency": 9, "fpgaLatency": 2, "isBackwardNode": false, "colorClass": 6, "size": 10},
{"id": 3, "name": "c", "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 4, "isBackwardNode": 0, "colorClass": 7, "size": 1},
{"id": 4, "name": "d", "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 8, "isBackwardNode": 0, "size": 1},
{"id": 5, "name": "c2", "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 16, "isBackwardNode": 0, "colorClass": 7, "size": 1},
{"id": 11, "name": "ag", "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 32, "isBackwardNode": 1, "colorClass": 5, "size": 200},
{"id": 12, "name": "bg", "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 64, "isBackwardNode": 1, "colorClass": 6},
{"id": 13, "name": "cg", "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 128, "isBackwardNode": 1, "colorClass": 7, "size": 0}],
"edges": [
{"sourceId": 1, "destId": 3, "cost": 0.5, "size": 60},
{"sourceId": 1, "destId": 2, "cost": 0.5, "size": 60},
{"sourceId": 2, "destId": 3, "cost": 0.5},
{"sourceId": 3, "destId": 4, "cost": 0.1, "size": 7},
{"sourceId": 4, "destId": 5, "cost": 0.1, "size": 7},
{"sourceId": 5, "destId": 13, "cost": 0.1, "size": 7},
{"sourceId": 1, "destId": 13, "cost": 0.1, "size": 6},
{"sourceId": 13, "destId": 12, "cost": 0.1, "size": 1000},
{"sourceId": 12, "destId": 11, "cost": 0.1, "size": 1000}]})";

TEST_CASE("instances: a colour is a node, and what waits for each other is one") {
  GraphFile const file = parse(instance);
  CHECK(file.format == GraphFormat::placement);
  CHECK_FALSE(file.knows_weights());
  CostGraph const& graph = file.graph;
  REQUIRE(graph.nodes() == 3);
  CHECK(graph.node[0].name == "a");
  CHECK(graph.node[0].forward == doctest::Approx(1e-3));
  CHECK(graph.node[0].backward == doctest::Approx(32e-3));
  CHECK(graph.node[0].output_bytes == 60);
  CHECK(graph.node[0].parameter_bytes == 240);  // with what it sends 300
  CHECK(graph.node[1].name == "b");
  CHECK(graph.node[1].output_bytes == 500'000);  // half a millisecond at 1 GB/s
  CHECK(graph.node[1].parameter_bytes == 0);
  CHECK(graph.node[2].name == "c");
  CHECK(graph.node[2].forward == doctest::Approx(28e-3));
  CHECK(graph.node[2].backward == doctest::Approx(128e-3));
  CHECK(graph.node[2].output_bytes == 0);  // nobody else reads it
  CHECK(graph.node[2].parameter_bytes == 3);
  CHECK(graph.edge == std::vector<CostEdge>{{0, 1}, {0, 2}, {1, 2}});
}

TEST_CASE("a colour of backward operators only stands where they do") {
  std::string const text = changed(changed(instance, "\"isBackwardNode\": 1, \"colorClass\": 6",
                                           "\"isBackwardNode\": 1, \"colorClass\": 8"),
                                   "\"name\": \"bg\", ", "");
  CostGraph const graph = parse(text).graph;
  REQUIRE(graph.nodes() == 4);
  CHECK(graph.node[2].name == "node 12");
  CHECK(graph.node[2].forward == 0);
  CHECK(graph.node[2].backward == doctest::Approx(64e-3));
  CHECK(graph.edge == std::vector<CostEdge>{{0, 1}, {0, 2}, {0, 3}, {1, 3}, {2, 3}});
}

TEST_CASE("instances: what is wrong, where, and what to do") {
  refused(changed(instance, "\"isBackwardNode\": 0", "\"isBackwardNode\": 2"),
          "line 2, column 99: \"isBackwardNode\" must be true or false");
  refused(changed(instance, "\"supportedOnFpga\": true", "\"supportedOnFpga\": 0"),
          "line 3, column 43: node 2 runs on a CPU only; give an instance whose nodes all run on");
  refused(changed(instance, "\"fpgaLatency\": 4, ", ""),
          "line 4, column 1: a node lacks \"fpgaLat");
  refused(changed(instance, "\"sourceId\": 12, \"destId\": 11", "\"sourceId\": 12, \"destId\": 4"),
          "line 19, column 1: this edge leads from a backward to a forward node; turn it round");
  refused(R"({"maxFPGAs": 2, "nodes": [
{"id": 1, "supportedOnFpga": 1, "fpgaLatency": 1, "isBackwardNode": 0}], "edges": []})",
          "line 1, column 26: there is no backward node; give an instance of training");
}

TEST_CASE("lines are PipeDream's") {
  GraphFile const file = parse(
      "\n a -- b\nnode1 -- ReLU -- forward_compute_time=1, backward_compute_time=2, "
      "activation_size=3, parameter_size=4\n"
      "a -- ReLU -- forward_compute_time=1, backward_compute_time=2, activation_size=3, "
      "parameter_size=4\n"
      "b -- ReLU -- forward_compute_time=1, backward_compute_time=2, activation_size=3, "
      "parameter_size=4\n");
  CHECK(file.format == GraphFormat::pipedream);
  CHECK(file.graph.nodes() == 3);
  CHECK(file.knows_weights());
}

TEST_CASE("mutual nodes: two cycles that share nothing, one inside another, none") {
  detail::Numbered<int> const as = detail::mutual_nodes(
      7, {{0, 1}, {1, 2}, {2, 1}, {2, 3}, {3, 4}, {4, 3}, {5, 6}, {4, 5}, {3, 0}});
  CHECK(as == detail::Numbered<int>{std::vector<int>{0, 0, 0, 0, 0, 5, 6}});
  CHECK(detail::mutual_nodes(3, {{0, 1}, {1, 2}, {0, 2}}) ==
        detail::Numbered<int>{std::vector<int>{0, 1, 2}});
  CHECK(detail::mutual_nodes(4, {{3, 2}, {2, 3}, {1, 0}, {0, 1}, {0, 3}}) ==
        detail::Numbered<int>{std::vector<int>{0, 0, 2, 2}});
}

}  // namespace graph_file_test
