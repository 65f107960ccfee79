// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/plan/cost/pipedream_graph.hpp>

#include <profiles_folder.hpp>

namespace pipedream_graph_test {

using namespace tandem;

std::string costs(std::string const& forward = "1.000", std::string const& backward = "2.000",
                  std::string const& output = "8.000", std::string const& parameters = "4.000") {
  return "forward_compute_time=" + forward + ", backward_compute_time=" + backward +
         ", activation_size=" + output + ", parameter_size=" + parameters;
}

std::string line(std::string const& name) { return name + " -- ReLU -- " + costs() + "\n"; }

CostGraph parse(std::string_view text) { return parse_pipedream_graph(text, "g.txt"); }

/// The message without the file's name.
std::string fault(std::string_view text) {
  try {
    static_cast<void>(parse(text));
  } catch (FileError const& error) {
    CHECK(error.path() == "g.txt");
    return std::string{error.what()}.substr(std::string{"'g.txt': "}.size());
  }
  return "none";
}

void check_fault(std::string_view text, std::string const& begin) {
  CAPTURE(text);
  std::string const what = fault(text);
  CHECK(what.substr(0, begin.size()) == begin);
}

TEST_CASE("a node: milliseconds to seconds, bytes, a name") {
  CostGraph const graph =
      parse("node7 -- LSTM(2048, 1024) -- " + costs("3.5", "0", "[8.0; 2.0;1]", "1e3") + "\n");
  REQUIRE(graph.nodes() == 1);
  CHECK(graph.node[0].name == "node7 LSTM(2048, 1024)");
  CHECK(graph.node[0].forward == 3.5 / 1000);
  CHECK(graph.node[0].backward == 0);
  CHECK(graph.node[0].output_bytes == 11);
  CHECK(graph.node[0].parameter_bytes == 1000);
  CHECK(graph.edge.empty());
}

TEST_CASE("an input of the network costs nothing: it is the loading of data") {
  CostGraph const graph = parse("a -- Input0 -- " + costs() + "\nb -- Input -- " + costs() +
                                "\nc -- input -- " + costs() + "\n\ta -- b\n");
  REQUIRE(graph.nodes() == 3);
  CHECK(graph.node[0].name == "a Input0");
  CHECK(graph.node[0].time() == 0);
  CHECK(graph.node[0].output_bytes == 0);
  CHECK(graph.node[0].parameter_bytes == 0);
  CHECK(graph.node[1].time() > 0);  // reads another
  CHECK(graph.node[2].time() > 0);
}

TEST_CASE("what is of no account: line ends, blanks, stages, a byte order mark") {
  std::string const wanted = "node1 a -- b";  // a description may hold dashes
  for (std::string const& text : {
           "node1 -- a -- b -- " + costs(),
           "\xEF\xBB\xBFnode1 -- a -- b -- " + costs() + "\r\n\r\n",
           "\n\nnode1 -- a -- b -- " + costs() + " -- stage_id=3\n  \n",
           "node1 -- a -- b -- " + costs() + "   \n\n",
       }) {
    CAPTURE(text);
    CostGraph const graph = parse(text);
    REQUIRE(graph.nodes() == 1);
    CHECK(graph.node[0].name == wanted);
    CHECK(graph.node[0].time() == doctest::Approx(0.003));
  }
  CHECK(parse("node1 --  -- " + costs()).node[0].name == "node1");
}

TEST_CASE("nodes become topological, and keep the order of the file where they may") {
  CostGraph const graph = parse("\td -- a\n" + line("a") + line("b") + line("c") + line("d") +
                                "\tc -- a\n    c -- b\n\tb -- a\n");
  REQUIRE(graph.nodes() == 4);
  std::vector<std::string> names;
  for (CostNode const& node : graph.node) {
    names.push_back(node.name);
  }
  CHECK(names == std::vector<std::string>{"c ReLU", "b ReLU", "d ReLU", "a ReLU"});
  CHECK(graph.edge == std::vector<CostEdge>{{0, 1}, {0, 3}, {1, 3}, {2, 3}});
}

TEST_CASE("malformed nodes: line, column and what to do") {
  check_fault("", "line 1, column 1: there is no node; write 'node1 -- ReLU -- forward");
  check_fault("\n \n", "line 1, column 1: there is no node");
  check_fault("\ta -- b\n", "line 1, column 1: there is no node");
  check_fault("hello\n", "line 1, column 6: this is no node; write it as 'node1 -- ReLU");
  check_fault(line("a") + "b -- ReLU\n", "line 2, column 10: 'b' lacks its costs; write 'forward");
  check_fault(line("a") + "b -- " + costs(), "line 2, column 6: expected ' -- ' between what");
  check_fault(line("a b"), "line 1, column 1: expected the name of a node, one word");
  check_fault(line("a") + line("c") + line("a"), "line 3, column 1: 'a' is here for a second time");
  check_fault(std::string{"a -- b\0c", 8}, "line 1, column 7: a byte of value 0");
  check_fault("a -- \x1B[2J", "line 1, column 6: a byte of value 27; this is no text");
  check_fault("a\n\xFF", "line 2, column 1: a byte of value 255");
}

TEST_CASE("malformed costs") {
  auto const node = [](std::string const& of) { return line("a") + "b -- x -- " + of + "\n"; };
  // "b -- x -- forward_compute_time=" has 31 characters
  check_fault(node(costs("-1")), "line 2, column 32: '-1' is no cost; write a number from 0");
  check_fault(node(costs("nan")), "line 2, column 32: 'nan' is no cost");
  check_fault(node(costs("inf")), "line 2, column 32: 'inf' is no cost");
  check_fault(node(costs("1e999")), "line 2, column 32: '1e999' is no cost");
  check_fault(node(costs("1e13")), "line 2, column 32: '1e13' is no cost");
  check_fault(node(costs("x")), "line 2, column 32: expected a number, found 'x, backward");
  check_fault(node(costs("")), "line 2, column 32: expected a number, found ', backward");
  check_fault(node(costs("[1; 2]")), "line 2, column 32: expected a number, found '[1; 2]");
  check_fault(node(costs("1 2")), "line 2, column 34: expected ', backward_compute_time=' and");
  check_fault(node(costs("1", "2", "[8; 4")), "line 2, column 81: the list of sizes is not closed");
  check_fault(node(costs("1", "2", "[8; ]")), "line 2, column 80: expected a number, found ']");
  check_fault(node(costs("1", "2", "[]")), "line 2, column 77: expected a number, found ']");
  check_fault(node(costs("1", "2", "[9e11; 9e11]")), "line 2, column 83: '9e11' is no cost");
  check_fault(node(costs("1", "2", "8", "-4")), "line 2, column 94: '-4' is no cost");
  check_fault(node(costs() + " stage 1"), "line 2, column 112: expected the end of the line or");
}

TEST_CASE("a line that breaks off") {
  std::string const whole = "b -- x -- " + costs("1", "2", "[8; 4]", "5");
  for (std::size_t length = 1; length < whole.size(); ++length) {
    std::string const text = line("a") + whole.substr(0, length);
    CAPTURE(text);
    std::string const visible = text.substr(0, text.find_last_not_of(' ') + 1);
    std::string const what = fault(text);
    CHECK(what.substr(0, 15) == "line 2, column ");
    int const column = std::stoi(what.substr(15));
    CHECK(column >= 1);
    CHECK(column <= static_cast<int>(visible.size() - line("a").size()) + 1);
  }
  CHECK(fault(line("a") + whole) == "none");
  check_fault(line("a") + "b -- x -- " + costs("1", "2", "3", ""),
              "line 2, column 94: expected a number, found the end of the line");
}

TEST_CASE("malformed edges") {
  std::string const nodes = line("a") + line("b") + line("c");
  check_fault(nodes + "\ta\n", "line 4, column 3: an edge lacks its second node; write it as");
  check_fault(nodes + "\ta --\n",
              "line 4, column 6: expected the name of a node, one word such as "
              "node1, found the end of the line");
  check_fault(nodes + "\t-- b\n", "line 4, column 2: expected the name of a node");
  check_fault(nodes + "\ta -- b c\n", "line 4, column 7: expected the name of a node");
  check_fault(nodes + "\ta -- b -- c\n", "line 4, column 7: expected the name of a node");
  check_fault(nodes + "\ta -- d\n", "line 4, column 7: there is no node 'd'; write its line or");
  check_fault(nodes + "\td -- a\n", "line 4, column 2: there is no node 'd'");
  check_fault(nodes + "\tb -- b\n", "line 4, column 7: 'b' reads itself");
  check_fault(nodes + "\ta -- b\n\ta -- c\n\ta -- b\n",
              "line 6, column 2: the edge from 'a' to 'b' is here for a second time");
}

TEST_CASE("a cycle: one of its edges, not one behind or before it") {
  std::string const text = line("a") + line("b") + line("c") + line("d") + line("e") + line("f") +
                           "\ta -- b\n\tb -- c\n\tc -- d\n\td -- b\n\td -- e\n\te -- f\n";
  std::string const what = fault(text);
  CAPTURE(what);
  CHECK(what.find("closes a cycle; leave out one of the cycle's edges") != what.npos);
  bool const found = what.substr(0, 16) == "line 8, column 2" ||
                     what.substr(0, 16) == "line 9, column 2" ||
                     what.substr(0, 17) == "line 10, column 2";
  CHECK(found);
  check_fault(line("a") + line("b") + "\tb -- a\n\ta -- b\n", "line ");
}

TEST_CASE("a file") {
  std::string const path =
      (std::filesystem::temp_directory_path() / "tandem_pipedream_graph_test.txt").string();
  std::ofstream{path} << line("a") << line("b") << "\ta -- b\n";
  CHECK(read_pipedream_graph(path).edge == std::vector<CostEdge>{{0, 1}});
  std::filesystem::remove(path);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_pipedream_graph(path)),
                       doctest::Contains("there is no such file"), FileError);
}

TEST_CASE("PipeDream's own profiles") {
  std::string const folder = test::profiles_folder();
  if (folder.empty()) {
    return;
  }
  struct Profile {
    std::string name;
    int nodes;
    std::size_t edges;
    double forward, backward, parameters;  // ms, ms, MB
  };
  for (Profile const& profile : {Profile{"vgg16", 41, 41, 233.9, 438.6, 553.4},
                                 Profile{"resnet50", 177, 193, 182.5, 260.9, 102.2},
                                 Profile{"gnmt", 48, 58, 33.5, 55.9, 775.1}}) {
    CAPTURE(profile.name);
    CostGraph const graph = read_pipedream_graph(folder + profile.name + ".txt");
    CHECK(graph.nodes() == profile.nodes);
    CHECK(graph.edge.size() == profile.edges);
    double forward = 0;
    double parameters = 0;
    for (CostNode const& node : graph.node) {
      forward += 1000 * node.forward;
      parameters += static_cast<double>(node.parameter_bytes) / 1e6;
    }
    CHECK(std::abs(forward - profile.forward) < 0.06);
    CHECK(std::abs(1000 * graph.time() - forward - profile.backward) < 0.06);
    CHECK(std::abs(parameters - profile.parameters) < 0.06);
    CHECK(std::all_of(graph.edge.begin(), graph.edge.end(),
                      [](CostEdge const& edge) { return edge.from < edge.to; }));
  }
}

}  // namespace pipedream_graph_test
