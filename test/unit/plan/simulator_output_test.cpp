// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/simulate/report.hpp>
#include <tandem/plan/simulate/svg.hpp>
#include <tandem/plan/simulate/trace.hpp>
#include <unit/plan/simulator_cases.hpp>

#include <tandem/io/json/value.hpp>
#include <tandem/plan/simulate/placement.hpp>
#include <tandem/plan/simulate/simulator.hpp>

namespace tandem::test {
namespace simulator_output_test {

using namespace simulator_cases;

SimulatedStep pipeline(char const* name, int devices, int microbatches, int workers = 1,
                       int chunks = 1, double bytes = 4e5) {
  Machine machine = one_node(4, 2e9, 1e-6);
  machine.between = {.bandwidth = 1e9, .latency = 1e-5};
  RuntimeMap const map = make_map(name, devices, chunks);
  StageLoad const load{.forward = 1e-3,
                       .input_gradient = 1e-3,
                       .weight_gradient = 1e-3,
                       .kept_bytes = 5e6,
                       .gradients = {{1e6, 0}}};
  return simulate_on(machine, lower(make_schedule(name, devices, microbatches, chunks), map), map,
                     costs_of(map, load, bytes), {.workers = workers});
}

SimulatedStep placement() {
  CostGraph const graph{
      {{.name = "in \"a\" <\\&>", .forward = 1, .backward = 1, .output_bytes = 10},
       {.name = "b", .forward = 1, .backward = 1}},
      {{0, 1}}};
  return simulate_placement(one_node(2, 2, 0), graph, network_order(graph, {0, 1}), 2);
}

detail::JsonValue const& member(detail::JsonValue const& object, std::string const& key) {
  for (detail::JsonValue const& one : object.member) {
    if (one.key == key) {
      return one;
    }
  }
  FAIL("no member " << key);
  return object;
}

/// An event a line; the reader knows no lists.
std::vector<detail::JsonValue> events(std::string const& json) {
  std::istringstream lines{json};
  std::vector<detail::JsonValue> all;
  std::string line;
  std::getline(lines, line);
  CHECK(line == "{\"traceEvents\": [");
  while (std::getline(lines, line) && line != "]}") {
    bool const last = lines.peek() == ']';
    CHECK((line.back() == ',') == !last);
    line.resize(line.size() - (last ? 0 : 1));
    all.push_back(detail::read_json(line, "trace"));
  }
  CHECK(line == "]}");
  return all;
}

TEST_CASE("a trace has the spans of passes, messages and reductions, a lane has one at a time") {
  SimulatedStep const step =
      pipeline("one_f_one_b", 3, 6, 2, 1, 4e6);  // device 1 sends two at once
  CHECK(detail::message_lanes(step, 1).size() == 2);
  std::map<std::string, int> phases;
  std::map<std::pair<int, int>, std::string> names;
  std::map<std::pair<int, int>, double> free;
  std::map<int, std::size_t> passes;
  double end = 0;
  for (detail::JsonValue const& event : events(trace_json(step))) {
    std::pair const lane{static_cast<int>(member(event, "pid").number),
                         static_cast<int>(member(event, "tid").number)};
    std::string const phase = member(event, "ph").text;
    ++phases[phase];
    if (phase == "M" && member(event, "name").text == "thread_name") {
      CHECK(names.count(lane) == 0);
      names[lane] = member(member(event, "args"), "name").text;
    }
    if (phase != "X") {
      continue;
    }
    double const begin = member(event, "ts").number;
    double const duration = member(event, "dur").number;
    CHECK(begin >= free[lane] - 1e-6);
    free[lane] = begin + duration;
    end = std::max(end, begin + duration);
    REQUIRE(names.count(lane) == 1);
    int const device = std::stoi(names[lane].substr(7));
    CHECK(device / 3 == lane.first);
    if (member(event, "cat").text == "compute") {
      auto const& of = step.device[static_cast<std::size_t>(device)].action;
      std::size_t& next = passes[device];
      while (is_message(of[next].action.kind)) {
        ++next;
      }
      CHECK(member(event, "name").text == to_string(of[next].action));
      CHECK(begin == doctest::Approx(1e6 * of[next].span.begin));
      CHECK(begin + duration == doctest::Approx(1e6 * of[next].span.end));
      ++next;
    }
  }
  CHECK(end == doctest::Approx(1e6 * step.makespan));
  CHECK(phases["X"] == 2 * (3 * 6 * 2 + 2 * 6 * 2 + 3));
  CHECK(names.at({1, 0}) == "device 3");
  CHECK(phases["C"] > 0);
}

TEST_CASE("a trace of a placement has the names of its nodes") {
  std::vector<std::string> names;
  for (detail::JsonValue const& event : events(trace_json(placement()))) {
    if (member(event, "ph").text == "X") {
      names.push_back(member(event, "name").text);
    }
  }
  CHECK(names == std::vector<std::string>{"F in \"a\" <\\&>", "B in \"a\" <\\&>",
                                          "SEND_F in \"a\" <\\&>", "F b", "B b",
                                          "SEND_B in \"a\" <\\&>"});
}

int count(std::string const& text, std::string const& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// The number behind @p name, as an attribute of the first such element behind @p from.
double attribute(std::string const& text, char const* name, std::size_t from = 0) {
  std::string const start = std::string{" "} + name + "=\"";
  return std::stod(text.substr(text.find(start, from) + start.size()));
}

TEST_CASE("a picture: a bar a pass, a line a message, a curve a device; to scale") {
  SimulatedStep const step = pipeline("gpipe", 16, 64);
  std::string const svg = simulated_svg(step, "gpipe & more");
  CHECK(count(svg, "<title>") == 16 * 64 * 2 + 15 * 64 * 2);
  CHECK(count(svg, "<path") == 16);
  CHECK(count(svg, "gpipe &amp; more") == 1);
  CHECK(count(svg, "device 15") == 1);
  CHECK(count(svg, "320 MB") == 16 + 1);  // 64 microbatches of 5 MB
  CHECK(attribute(svg, "height") == 82 + 16 * 60 + 28);
  std::size_t const forward = svg.rfind("<rect", svg.find("<title>0F1,"));
  std::size_t const backward = svg.rfind("<rect", svg.find("<title>15B63,"));
  double const slot = attribute(svg, "x", forward) - 66;  // 0F1 begins at 1 ms
  CHECK(slot >= 16);                                      // room for two digits
  CHECK(attribute(svg, "width", backward) == doctest::Approx(2 * slot - 1).epsilon(0.02));
  double const end = step.device[15].action[step.device[15].action.size() - 2].span.end;
  CHECK(attribute(svg, "x", backward) - 66 ==
        doctest::Approx((end * 1e3 - 2) * slot).epsilon(0.01));
  CHECK(count(svg, " y=\"106\" ") == 64);  // what device 0 sends, under its bars
  CHECK(count(svg, " y=\"110\" ") == 0);
  CHECK(count(svg, " y=\"170\" ") == 64);  // the gradients that device 1 sends
  std::size_t const path = svg.find("<path");
  std::string const curve = svg.substr(path, svg.find("/>", path) - path);
  CHECK(count(curve, "V118.0") == 1);  // most of 18 above 136
  CHECK(count(curve, "V136.0") == 2);  // when all are gone, and at the end
  CHECK(attribute(svg, "width") <= 8000 + 66 + 24 + 1);
}

TEST_CASE("a picture of reductions, of chunks and of a placement") {
  std::string const sums = simulated_svg(pipeline("gpipe", 2, 2, 2), "");
  CHECK(count(sums, "REDUCE_GRAD0, from") == 4);
  CHECK(count(simulated_svg(pipeline("interleaved", 2, 4, 1, 2), ""), "lighter") == 1);
  std::string const placed = simulated_svg(placement(), "placed");
  CHECK(count(placed, "<title>F b, from") == 1);
  CHECK(count(placed, "<title>F in \"a\" &lt;\\&amp;>, from 0 to 1") == 1);
  CHECK(count(placed, "lighter") == 0);
  CHECK(simulated_svg({}, "empty").ends_with("</svg>\n"));
}

TEST_CASE("a report: a line a device, and the same as an object") {
  Machine const machine = one_node(2, 1e9, 0);
  RuntimeMap const map = make_map("gpipe", 2);
  SimulatedStep const step =
      simulate_on(machine, lower(make_schedule("gpipe", 2, 2), map), map,
                  costs_of(map, {.forward = 1e-3, .backward = 2e-3, .kept_bytes = 5e6}, 0));
  CHECK(simulated_text(step) ==
        "makespan 9 ms, the last pass ends at 9 ms; devices are idle for 33.3 % of it\n"
        "device   busy ms   idle ms of the step   idle ms between passes   sums ms   peak MB\n"
        "     0         6                     3                        3         0        10\n"
        "     1         6                     3                        0         0        10\n");
  std::string json = simulated_json(step);
  CHECK(count(json, "{\"busy\": 0.006, \"idle_in_step\": 0.003, \"idle_between_passes\": ") == 2);
  CHECK(count(json, ", \"peak_bytes\": 10000000}") == 2);
  std::size_t const list = json.find(",\n  \"devices\": [");
  json.replace(list, json.rfind(']') + 1 - list, "");  // the reader knows no lists
  detail::JsonValue const all = detail::read_json(json, "report");
  CHECK(member(all, "makespan").number == doctest::Approx(9e-3));
  CHECK(member(all, "last_pass").number == doctest::Approx(9e-3));
  CHECK(member(all, "idle").number == doctest::Approx(1.0 / 3));
}

}  // namespace simulator_output_test
}  // namespace tandem::test
