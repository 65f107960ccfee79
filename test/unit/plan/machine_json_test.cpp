// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include <tandem/plan/machine/json.hpp>

namespace machine_json_test {

using namespace tandem;

std::string const good = R"({
  "name": "my \"box\"",
  "devices_per_node": 4, "nodes": 2,
  "peak": {"fp64": 9.7e12, "fp32": 19.5E+12, "tf32": 156e12, "bf16": 312000000000000},
  "efficiency": 0.5,
  "memory_bandwidth": 1.5e12, "memory": 40e9, "launch_overhead": 4e-6,
  "inside": {"bandwidth": 240e9, "latency": 0},
  "between": {"latency": 14e-6, "bandwidth": 20e9}
}
)";

TEST_CASE("every field of a machine is read") {
  Machine const expected{.name = "my \"box\"",
                         .devices_per_node = 4,
                         .nodes = 2,
                         .peak = {9.7e12, 19.5e12, 156e12, 312e12},
                         .efficiency = 0.5,
                         .memory_bandwidth = 1.5e12,
                         .memory = 40'000'000'000,
                         .launch_overhead = 4e-6,
                         .inside = {.bandwidth = 240e9, .latency = 0},
                         .between = {.bandwidth = 20e9, .latency = 14e-6}};
  CHECK(parse_machine(good, "box.json") == expected);
  CHECK_NOTHROW(check_machine(expected));
}

// `good` with the first `from` replaced.
std::string with(std::string const& from, std::string const& to) {
  std::string text = good;
  std::size_t const at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("kernels and a fabric may be given, with all their keys") {
  std::string const kernels = R"("kernels": {"share": 0.8, "half_side": 64, "half_depth": 96,
    "attention_share": 0.5, "memory_share": 0.75},
    "fabric": {"leaf_nodes": 16, "oversubscription": 2}, "slow_nodes": {"share": 0.01, "by": 0.1},
    "peak")";
  Machine const machine = parse_machine(with("\"peak\"", kernels), "box.json");
  CHECK(machine.kernels == KernelCurve{.share = 0.8,
                                       .half_side = 64,
                                       .half_depth = 96,
                                       .attention_share = 0.5,
                                       .memory_share = 0.75});
  CHECK(machine.fabric == Fabric{.leaf_nodes = 16, .oversubscription = 2});
  CHECK(machine.slow == SlowNodes{.share = 0.01, .by = 0.1});
  CHECK_THROWS_AS(
      (void)parse_machine(with("\"peak\"", R"("fabric": {"leaf_nodes": 4}, "peak")"), "box.json"),
      FileError);
}

TEST_CASE("a node has one adapter, or as many as are given") {
  CHECK(parse_machine(good, "").adapters == 1);
  CHECK(!parse_machine(good, "").cpus);
  CHECK(parse_machine(with("\"nodes\": 2", "\"cpus\": 1, \"nodes\": 2"), "").cpus);
  Machine const machine =
      parse_machine(with("\"nodes\": 2", "\"adapters\": 4, \"nodes\": 2"), "box.json");
  CHECK(machine.adapters == 4);
  CHECK_NOTHROW(check_machine(machine));
}

void refused(std::string const& text, std::string const& what) {
  CAPTURE(text);
  std::string message;
  try {
    static_cast<void>(parse_machine(text, "box.json"));
  } catch (FileError const& error) {
    CHECK(error.path() == "box.json");
    message = error.what();
  }
  CHECK(message.substr(0, 12 + what.size()) == "'box.json': " + what);
}

TEST_CASE("keys that are unknown, missing or there twice") {
  refused(with("\"nodes\": 2", "\"node\": 2"),
          "line 3, column 26: the key \"node\" is not known; expected name, devices_per_node, "
          "nodes, peak, efficiency, memory_bandwidth, memory, launch_overhead, inside, between, or "
          "adapters");
  refused(with("\"nodes\": 2,\n", "\n"),
          "line 1, column 1: the object lacks the key \"nodes\"; expected name, ");
  refused(with("\"tf32\": 156e12, ", ""),
          "line 4, column 11: the object lacks the key \"tf32\"; expected fp64, fp32, tf32, bf16");
  refused(with("\"latency\": 14e-6, ", ""),
          "line 8, column 14: the object lacks the key \"latency\"; expected bandwidth, latency");
  refused(with("\"nodes\": 2", "\"name\": 2"),
          "line 3, column 26: the key \"name\" is here a second time");
}

TEST_CASE("values of another type or range") {
  refused(with("\"my \\\"box\\\"\"", "7"), "line 2, column 11: \"name\" must be a string");
  refused(with("{\"bandwidth\": 240e9, \"latency\": 0}", "\"fast\""),
          "line 7, column 13: \"inside\" must be an object");
  refused(with("1.5e12", "\"1.5e12\""),
          "line 6, column 23: \"memory_bandwidth\" must be a positive number");
  refused(with("1.5e12", "{}"), "line 6, column 23: \"memory_bandwidth\" must be");
  refused(with("1.5e12", "0"), "line 6, column 23: \"memory_bandwidth\" must be a positive");
  refused(with("19.5E+12", "-1"), "line 4, column 36: \"fp32\" must be a positive number");
  refused(with("4e-6", "-4e-6"),
          "line 6, column 66: \"launch_overhead\" must be a number that is not negative");
  refused(with("0.5", "0"), "line 5, column 17: \"efficiency\" must be a number above 0");
  refused(with("0.5", "1.01"),
          "line 5, column 17: \"efficiency\" must be a number above 0 and not");
  refused(with(": 4,", ": 4.5,"),
          "line 3, column 23: \"devices_per_node\" must be an integer from 1 to 1000000");
  refused(with(": 4,", ": 0,"), "line 3, column 23: \"devices_per_node\" must be an integer");
  refused(with(": 4,", ": 1000001,"), "line 3, column 23: \"devices_per_node\" must be an");
  refused(with("\"nodes\": 2", "\"nodes\": -1"), "line 3, column 35: \"nodes\" must be an integer");
  refused(with("40e9", "1e16"), "line 6, column 41: \"memory\" must be an integer from 1 to 9007");
  refused(with("\"latency\": 0", "\"latency\": -0.1"), "line 7, column 45: \"latency\" must be");
  CHECK(parse_machine(with("\"nodes\": 2", "\"nodes\": 0"), "").nodes == 0);
  for (char const* const wrong : {"0", "5", "1.5", "-1"}) {  // of four devices
    refused(with("\"nodes\": 2", std::string{"\"nodes\": 2, \"adapters\": "} + wrong),
            "line 3, column 50: \"adapters\" must be an integer from 1 to 4");
  }
  CHECK(parse_machine(with("0.5", "1"), "").efficiency == 1);
}

TEST_CASE("text that is not this JSON") {
  refused("", "line 1, column 1: expected '{', the file being one object, but the file ends");
  refused("[1]", "line 1, column 1: expected '{'");
  refused("{", "line 1, column 2: expected a key in double quotes, but the file ends");
  refused("{name: 1}", "line 1, column 2: expected a key in double quotes");
  refused("{\"a\" 1}", "line 1, column 6: expected ':' behind the key");
  refused("{\"a\": 1 \"b\": 2}", "line 1, column 9: expected ',' or '}'");
  refused("{\"a\": 1,}", "line 1, column 9: expected a key in double quotes");
  refused("{\"a\": 1", "line 1, column 8: expected ',' or '}', but the file ends");
  refused("{} x", "line 1, column 4: expected the end of the file behind its object");
  for (char const* const value : {"true", "null", "[1]", "+1", ".5", "nan", "inf", ""}) {
    refused(std::string{"{\n \"a\":"} + value + "}",
            "line 2, column 6: expected a number, a string or an object");
  }
  refused("{\"a\": 1.}", "line 1, column 9: expected a digit of a number");
  refused("{\"a\": -}", "line 1, column 8: expected a digit of a number");
  refused("{\"a\": 1e}", "line 1, column 9: expected a digit of a number");
  refused("{\"a\": 01}", "line 1, column 8: expected ',' or '}'");
  refused("{\"a\": 0x1}", "line 1, column 8: expected ',' or '}'");
  refused("{\"a\": 1e999}", "line 1, column 7: the number is too large or too small");
  refused("{\"a\": \"b", "line 1, column 9: expected '\"' at the end of the string, but the");
  refused("{\"a\": \"b\n\"}", "line 1, column 9: expected '\"' at the end of the string");
  refused("{\"a\": \"\\u0041\"}", "line 1, column 9: expected one of \" \\ / b f n r t behind");
  refused(std::string{"{\"a\0\": 1}", 9}, "line 1, column 4: expected '\"' at the end");
  std::string deep;
  for (int i = 0; i < 17; ++i) {
    deep += "{\"a\":";
  }
  refused(deep, "line 1, column 81: objects nest too deep");
  refused(deep.substr(0, 16 * 5), "line 1, column 81: expected a number, a string or an object");
}

TEST_CASE("numbers of which nothing finite can be computed are refused") {
  refused(with("1.5e12", "0.5"),
          "line 6, column 23: \"memory_bandwidth\" must be a positive number from 1 to 1e+18");
  refused(with("1.5e12", "1e19"), "line 6, column 23: \"memory_bandwidth\" must be a positive");
  refused(with("240e9", "1e-300"), "line 7, column 27: \"bandwidth\" must be a positive number");
  refused(
      with("14e-6", "1e300"),
      "line 8, column 26: \"latency\" must be a number that is not negative, and at most 1e+06");
  refused(with("19.5E+12", "1e300"),
          "line 4, column 36: \"fp32\" must be a positive number from 1");
  refused(with("0.5", "1e-300"), "line 5, column 17: \"efficiency\" must be a number above 0");
}

TEST_CASE("what is printed of a file holds no escape codes") {
  refused("{\"\\n\": 1, \"\\n\": 2}", "line 1, column 11: the key \"\\x0A\" is here a second time");
  refused("{\"a\": \"\xFF\"}", "line 1, column 8: expected a character of UTF-8");
  refused("{\"\x7F\": 1}", "line 1, column 2: the key \"\\x7F\" is not known");
}

TEST_CASE("a file of many keys and lines is read in one pass") {  // 10^10 steps if in one a key
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) {
    text += "\"key" + std::to_string(i) + "\": 1,\n";
  }
  refused(text + "\"key99999\": 2}",
          "line 100001, column 1: the key \"key99999\" is here a second time");
}

TEST_CASE("no prefix of a machine is a machine") {
  for (std::size_t size = 0; size + 2 < good.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(static_cast<void>(parse_machine(good.substr(0, size), "")), FileError);
  }
}

TEST_CASE("files") {
  std::string const path = (std::filesystem::temp_directory_path() /
                            ("tandem_machine_" + std::to_string(::getpid()) + ".json"))
                               .string();
  std::ofstream{path} << good;
  CHECK(read_machine(path) == parse_machine(good, path));
  std::ofstream{path} << with("0.5", "2");
  CHECK_THROWS_WITH_AS(static_cast<void>(read_machine(path)),
                       doctest::Contains(("'" + path + "': line 5, column 17: ").c_str()),
                       FileError);
  std::filesystem::remove(path);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_machine(path)),
                       doctest::Contains("there is no such file"), FileError);
}

}  // namespace machine_json_test
