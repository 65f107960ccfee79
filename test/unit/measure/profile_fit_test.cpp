// SPDX-License-Identifier: Apache-2.0
// What is made of measured steps: known times in, known lines out.

#include <vector>

#include <doctest/doctest.h>

#include <tandem/measure/profile/profile.hpp>

namespace tandem::test {
namespace profile_fit_test {

/// A device's step: two forward passes and input gradients, a weight gradient and an added one.
StepTimes step_of(double passes, double update, double rest) {
  StepTimes times;
  times.clock.node = {{}, {2 * passes / 8, passes / 4, passes / 4, passes / 4}};
  times.clock.update = update;
  times.seconds = passes + update + rest;
  return times;
}

struct Fixed {
  std::vector<StepTimes> times;
  int steps = 0;

  std::vector<StepTimes> const& step() {
    ++steps;
    return times;
  }
};

ProfiledSteps steps(int samples, std::vector<StepTimes> const& times) {
  ProfiledSteps steps{.samples = samples};
  Fixed devices{times};
  steps.add(devices);
  CHECK(devices.steps == 2);  // the first one does not count
  CHECK(steps.step.size() == 1);
  return steps;
}

TEST_CASE("devices wait for the slowest one before the update and at the end") {
  StepParts const parts{std::vector{step_of(8, 3, 1), step_of(6, 4, 2)}};
  CHECK(parts.passes == 8);
  CHECK(parts.update == 4);
  CHECK(parts.rest == 0);  // 12 - 8 - 4
  CHECK(StepParts{std::vector{step_of(8, 3, 1)}}.rest == 1);
}

TEST_CASE("times of a step are on the lines, and scaled to what the step has taken") {
  // Passes: 16 + 8 samples, but for the last size.
  std::vector<ProfiledSteps> const sizes{steps(2, {step_of(32, 5, 3)}),
                                         steps(4, {step_of(48, 5, 5)}),
                                         steps(8, {step_of(80, 5, 9), step_of(100, 5, 0)})};
  DeviceTimes const times = detail::fit_times(sizes, 2, 10);
  REQUIRE(times.node.size() == 2);
  REQUIRE(times.scale.size() == 3);
  CHECK(times.node[0] == PassTimes{});
  CHECK(times.update == doctest::Approx(0.5));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    PassTimes const& node = times.node[1];
    int const samples = sizes[i].samples;
    double const fitted = 2 * node.forward.of(samples) + 2 * node.input_gradient.of(samples) +
                          node.weight_gradient.of(samples) + node.added_gradient.of(samples);
    CHECK(times.scale[i] * fitted == doctest::Approx(sizes[i].step[0].passes));
    CHECK(node.input_gradient.of(samples) == doctest::Approx(node.weight_gradient.of(samples) / 2));
  }
  CHECK(sizes[2].step[0].passes == 100);
}

TEST_CASE("a sum of gradients is what two devices have more of than one") {
  std::vector<ProfiledSteps> const alone{
      steps(2, {step_of(32, 5, 3)}), steps(4, {step_of(48, 5, 4)}), steps(8, {step_of(80, 5, 9)})};
  auto const two = [](int samples, double passes, double rest) {
    return steps(samples, {step_of(passes, 5, rest), step_of(passes - 2, 4, rest + 3)});
  };
  std::vector<ProfiledSteps> const together{two(2, 40, 10), two(4, 60, 10.5), two(8, 90, 14)};
  CHECK(detail::fit_reduction(alone, together) == doctest::Approx(6.5 - 0));
}

}  // namespace profile_fit_test
}  // namespace tandem::test
