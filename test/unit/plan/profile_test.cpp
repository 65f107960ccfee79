// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/cost/measured_costs.hpp>
#include <tandem/plan/cost/profile_json.hpp>
#include <tandem/plan/search/profiled_step.hpp>

namespace tandem::test {
namespace profile_test {

/// Three nodes in two parts, the last of which reads both others.
NetworkProfile small() {
  DeviceTimes const alone{.node = {{},
                                   {{1, 0.5}, {2, 1}, {0, 0.25}, {4, 0.25}},
                                   {{0.125, 1.0 / 3}, {0.1, 0}, {1e-300, 0}, {1e-7, 5}}},
                          .scale = {1.5, 0.5, 1.0 / 3},
                          .rest = {0.25, 0.125},
                          .update = 0.5};
  DeviceTimes together = alone;
  together.scale.clear();
  for (PassTimes& node : together.node) {
    node.forward = {2 * node.forward.fixed, 2 * node.forward.per_sample};
  }
  return {.backend = "host-portable",
          .precision = "fp32",
          .threads = 1,
          .samples = {2, 4, 16},
          .node = {{.name = "input", .output_bytes = 12},
                   {.name = "0 Conv2d", .output_bytes = 40, .parameter_bytes = 8, .inputs = {0}},
                   {.name = "1 \"own\"",
                    .part = 1,
                    .output_bytes = 20,
                    .parameter_bytes = 4,
                    .inputs = {0, 1}}},
          .alone = alone,
          .together = together,
          .message = {1e9, 2e-5},
          .reduction = {3e9, 0}};
}

void check_time(AffineTime const& time, double fixed, double per_sample) {
  CHECK(time.fixed == doctest::Approx(fixed).epsilon(1e-9));
  CHECK(time.per_sample == doctest::Approx(per_sample).epsilon(1e-9));
}

TEST_CASE("a line through measured times is neither negative at 0 nor falling") {
  check_time(fit_affine({{8, 3 + 8 * 0.5}, {16, 3 + 16 * 0.5}, {32, 3 + 32 * 0.5}}), 3, 0.5);
  check_time(fit_affine({{8, 4}}), 0, 0.5);
  check_time(fit_affine({{8, 0}, {16, 0}}), 0, 0);
  check_time(fit_affine({{4, 4}, {4, 2}}), 0, 0.6);  // the nearest by relative errors
  // The nearest would begin below 0.
  check_time(fit_affine({{1, 0.125}, {8, 2}}), 0, (64 * 0.125 + 8 * 2 / 4.0) / (64 + 64 / 4.0));
  // The nearest would fall: between 2 and 1, nearer to 1 by relative errors.
  check_time(fit_affine({{1, 2}, {2, 1}}), 1.2, 0);
}

TEST_CASE("relative errors count alike, whatever the size") {
  AffineTime const line = fit_affine({{1, 1}, {10, 10}, {100, 90}, {1000, 1000}});
  double sum = 0;
  double moved = 0;
  for (SampleTime const point : {SampleTime{1, 1}, {10, 10}, {100, 90}, {1000, 1000}}) {
    auto const error = [&](double fixed, double per_sample) {
      double const e = (fixed + per_sample * point.samples) / point.seconds - 1;
      return e * e;
    };
    sum += error(line.fixed, line.per_sample);
    moved += error(line.fixed * 1.01, line.per_sample * 0.999);
  }
  CHECK(sum < moved);
  CHECK(sum < 0.0093);  // of y = x: a ninth squared, 0.0123
}

TEST_CASE("what cannot be fitted is refused") {
  for (std::vector<SampleTime> const& points :
       {std::vector<SampleTime>{}, {{0, 1}}, {{4, 1}, {8, -1}}}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(fit_affine(points)),
                         doctest::Contains("fit_affine(points): give one point or more"),
                         ContractError);
  }
}

TEST_CASE("costs of a microbatch are on the lines") {
  NetworkProfile profile = small();
  profile.alone.scale.clear();
  CostGraph const graph = measured_costs(profile, 8, DeviceLoad::alone);
  REQUIRE(graph.nodes() == 3);
  CHECK(graph.node[0].time() == 0);
  CHECK(graph.node[1].forward == 1 + 8 * 0.5);
  CHECK(graph.node[1].backward == 2 + 8 * 1 + 8 * 0.25);
  CHECK(graph.node[1].output_bytes == 8 * 40);
  CHECK(graph.node[1].parameter_bytes == 8);
  CHECK(graph.node[2].part == 1);
  CHECK(graph.edge == std::vector<CostEdge>{{0, 1}, {0, 2}, {1, 2}});
  CHECK(measured_costs(profile, 8).node[1].forward == 2 * (1 + 8 * 0.5));
  // Three of four weight gradients are added to others.
  CHECK(measured_costs(profile, 8, DeviceLoad::alone, 4).node[1].backward ==
        2 + 8 * 1 + (2 + 3 * (4 + 2)) / 4.0);
  CHECK_THROWS_WITH_AS(static_cast<void>(measured_costs(profile, 0)),
                       doctest::Contains("give 1 sample and 1 microbatch"), ContractError);
}

TEST_CASE("a whole step takes what it took at the sizes that were measured") {
  NetworkProfile const profile = small();  // 2, 4, 16: 1.5, 0.5, 1/3
  std::vector<int> const sizes{1, 2, 3, 4, 10, 16, 64};
  std::vector<double> const scales{1.5, 1.5, 1, 0.5, 5.0 / 12, 1 / 3.0, 1 / 3.0};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    int const samples = sizes[i];
    double const scale = scales[i];
    CAPTURE(samples);
    CHECK(profile.scale(DeviceLoad::alone, samples) == doctest::Approx(scale));
    CHECK(profile.scale(DeviceLoad::together, samples) == 1);
    CostNode const node = measured_costs(profile, samples, DeviceLoad::alone).node[1];
    CHECK(node.forward == doctest::Approx(scale * (1 + samples * 0.5)));
    CHECK(node.backward == doctest::Approx(scale * (2 + samples * 1 + samples * 0.25)));
  }
}

TEST_CASE("a profile is read as it was written") {
  NetworkProfile const profile = small();
  CHECK(parse_profile(profile_json(profile), "p.json") == profile);
}

/// small() in JSON with the first `from` replaced.
std::string with(std::string const& from, std::string const& to) {
  std::string text = profile_json(small());
  std::size_t const at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

void refused(std::string const& text, std::string const& what) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_profile(text, "p.json")),
                       doctest::Contains(what.c_str()), FileError);
}

TEST_CASE("what a string may hold is written so that it is read") {
  NetworkProfile profile = small();
  profile.backend = "a\"\\\b\f\n\r\t\xC3\xA4";
  CHECK(parse_profile(profile_json(profile), "p.json") == profile);
}

TEST_CASE("files that are no profile are refused with line and column") {
  refused(with("\"threads\": 1", "\"threads\": 0"),
          "line 2, column 63: \"threads\" must be an integer from 1 to 1000000");
  refused(with("\"2 4 16\"", "\"2 4 4\""),
          "\"samples\" must be ascending integers from 1 to 1000000 with a blank between them");
  for (char const* const list : {"\"2  4\"", "\" 2\"", "\"2 \"", "\"2,4\"", "\"0 4\"", "\"x\""}) {
    refused(with("\"2 4 16\"", list), "line 2, column 77: \"samples\" must be ascending integers");
  }
  refused(with("\"0 1\"", "\"0 2\""),
          "\"inputs\" must be ascending integers from 0 to 1 with a blank between them");
  refused(with("\"inputs\": \"\"", "\"inputs\": \"0\""),
          "\"inputs\" must be empty, since there is no earlier node");
  refused(with("\"1\": {\"name\"", "\"7\": {\"name\""),
          "line 7, column 5: expected the key \"1\", nodes being numbered from 0");
  for (char const* const list :
       {"1.5 0.5", "1.5 0.5 0", "1.5 0.5 -1", "1.5,0.5,1", "1.5 0.5 nan"}) {
    refused(with("\"1.5 0.5 0.3333333333333333\"", "\"" + std::string{list} + "\""),
            "\"scale\" must be 3 positive numbers from 1e-6 to 1e6 with a blank between them");
  }
  refused(with("\"part\": 0", "\"part\": 2"), "\"part\" must be an integer from 2 to 100000");
  refused(with("\"fixed\": 1,", "\"fixed\": -1,"), "must be a number that is not negative");
  refused(with(", \"update\": 0.5", ""), "the object lacks the key \"update\"");
  refused(with("\"bandwidth\": 1e+09", "\"bandwidth\": 0"),
          "line 3, column 28: \"bandwidth\" must be a positive number");
  NetworkProfile fewer = small();
  fewer.together.node.pop_back();
  refused(profile_json(fewer), "expected the times of 3 nodes, as the network has, not of 2");
  fewer.node.clear();
  refused(profile_json(fewer), "\"nodes\" must have one node or more");
}

/// Two parts that take 4 and 6 seconds a sample alone, half of it forward, and twice that together.
NetworkProfile two_parts() {
  auto const times = [](double factor) {
    return DeviceTimes{.node = {{},
                                {{0, 2 * factor}, {0, 1 * factor}, {0, factor}, {0, factor}},
                                {{0, 3 * factor}, {0, 2 * factor}, {0, factor}, {0, factor}}},
                       .rest = {0, 0.01},
                       .update = factor};
  };
  return {.samples = {1},
          .node = {{.name = "input"},
                   {.name = "0", .parameter_bytes = 3, .inputs = {0}},
                   {.name = "1", .part = 1, .parameter_bytes = 5, .inputs = {1}}},
          .alone = times(1),
          .together = times(2),
          .message = {1e18, 0},
          .reduction = {4, 0.5}};
}

TEST_CASE("a predicted step has the devices' own times") {
  NetworkProfile const profile = two_parts();
  ProfiledStep const one = profiled_step(profile, {}, {2}, 1, 4);
  CHECK(one.passes == doctest::Approx(4 * 10));
  CHECK(one.reduction == 0);
  CHECK(one.update == doctest::Approx(8));
  CHECK(one.rest == doctest::Approx(0.04));
  CHECK(one.seconds() == doctest::Approx(48.04));

  ProfiledStep const data = profiled_step(profile, {}, {2}, 2, 4);
  CHECK(data.passes == doctest::Approx(2 * 10 * 2));
  CHECK(data.reduction == doctest::Approx(0.5 + 8 / 4.0));
  CHECK(data.update == doctest::Approx(16));
  CHECK(data.rest == doctest::Approx(0.02));
  CHECK(profiled_step(profile, {}, {2}, 4, 4).reduction == doctest::Approx(0.5 + 1.5 * 8 / 4.0));

  // One device at a time, so neither is slowed; then both update, the larger part last.
  ProfiledStep const model =
      profiled_step(profile, detail::chain_worker("sequential", 2), {1, 1}, 1, 4);
  CHECK(model.passes == doctest::Approx(4 * 10));
  CHECK(model.reduction == 0);
  CHECK(model.update == doctest::Approx(2 * 5));
  CHECK(model.rest == doctest::Approx(0.04));

  ProfiledStep const cross =
      profiled_step(profile, detail::chain_worker("cross_model", 2, 2), {1, 1}, 1, 4);
  CHECK(cross.passes > 2 * 10);
  CHECK(cross.passes <= 2 * 2 * 12);
  CHECK(cross.update == doctest::Approx(2 * 8));
  CHECK(cross.reduction == doctest::Approx(0.5 + 8 / 4.0));
}

TEST_CASE("a pipeline is slowed only while both devices work") {
  NetworkProfile profile = two_parts();
  for (DeviceTimes* const times : {&profile.alone, &profile.together}) {  // equal parts
    times->node[2] = times->node[1];
  }
  StrategyValue const worker = detail::chain_worker("one_f_one_b", 2, 4);
  double const slowed = profiled_step(profile, worker, {1, 1}, 1, 4).passes;
  profile.together = profile.alone;
  double const alone = profiled_step(profile, worker, {1, 1}, 1, 4).passes;
  CHECK(alone == doctest::Approx(5 * 4));  // (m + 1) (forward + backward)
  // Forward and backward take two seconds each: of those ten slots both work in six, a device waits
  // in the others, and what is shared takes twice as long.
  CHECK(slowed == doctest::Approx((4 + 6 * 2) * 2));
}

TEST_CASE("steps that cannot be are refused") {
  NetworkProfile const profile = two_parts();
  for (std::vector<int> const& sizes : {std::vector<int>{2}, {2, 0}, {1, 2}}) {
    CHECK_THROWS_WITH_AS(
        static_cast<void>(
            profiled_step(profile, detail::chain_worker("sequential", 2), sizes, 1, 4)),
        doctest::Contains("give each stage of a worker its number of top-level parts"),
        ContractError);
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(profiled_step(profile, {}, {2}, 2, 1)),
                       doctest::Contains("give 1 worker or more, and a sample for each"),
                       ContractError);
}

}  // namespace profile_test
}  // namespace tandem::test
