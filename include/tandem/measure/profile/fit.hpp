// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ProfiledSteps: measured steps of microbatches of one size; and fit_times, which makes a device's
/// times of steps of several sizes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/measure/profile/backend.hpp>
#include <tandem/measure/profile/device.hpp>
#include <tandem/measure/profile/links.hpp>
#include <tandem/plan/cost/profile.hpp>

namespace tandem {

/// What steps of two microbatches of @p samples samples a device have taken.
struct ProfiledSteps {
  int samples = 1;
  std::vector<StepTimes> device{};  ///< each device's, of all steps
  std::vector<StepParts> step{};

  /// A step of a ProfiledTrainer, behind one that does not count and leaves in the caches what
  /// steps leave there.
  template <class Devices>
  void add(Devices& devices) {
    devices.step();
    auto const times = devices.step();
    device.insert(device.end(), times.begin(), times.end());
    step.emplace_back(times);
  }
};

namespace detail {

template <class Steps, class F>
double median_of(Steps const& steps, F const& value) {
  std::vector<double> values;
  for (auto const& step : steps) {
    values.push_back(value(step));
  }
  return median(std::move(values));
}

/// The times of devices that train @p nodes nodes with @p bytes of parameters.
/// @pre each size has a step or more
TANDEM_ONCE DeviceTimes fit_times(std::span<ProfiledSteps const> sizes, int nodes,
                                  std::int64_t bytes);

/// What the sum of gradients adds to the end of a step: how much more of it is neither passes nor
/// update where two devices train data parallel than on one.
TANDEM_ONCE double fit_reduction(std::span<ProfiledSteps const> alone,
                                 std::span<ProfiledSteps const> together);

}  // namespace detail
}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// The line of a node's medians; a step has @p count passes of the kind.
TANDEM_ONCE AffineTime fit_pass(std::span<ProfiledSteps const> sizes, std::size_t node,
                                double NodeSeconds::*pass, int count) {
  std::vector<SampleTime> points;
  for (ProfiledSteps const& size : sizes) {
    double const seconds = median_of(size.device, [&](StepTimes const& times) {
      return node < times.clock.node.size() ? times.clock.node[node].*pass : 0.0;
    });
    points.push_back({static_cast<double>(size.samples), seconds / count});
  }
  return fit_affine(points);
}

/// What a step's passes have taken, over what the lines of their nodes say. The device counts that
/// took longest, since the others wait for it.
TANDEM_ONCE double fit_scale(ProfiledSteps const& size, std::vector<PassTimes> const& nodes) {
  double fitted = 0;
  for (PassTimes const& node : nodes) {
    fitted += 2 * node.forward.of(size.samples) + 2 * node.input_gradient.of(size.samples) +
              node.weight_gradient.of(size.samples) + node.added_gradient.of(size.samples);
  }
  double const measured = median_of(size.step, [](StepParts const& step) { return step.passes; });
  return fitted > 0 ? measured / fitted : 1;
}

TANDEM_ONCE DeviceTimes fit_times(std::span<ProfiledSteps const> sizes, int nodes,
                                  std::int64_t bytes) {
  DeviceTimes times;
  for (std::size_t n = 0; n < static_cast<std::size_t>(nodes); ++n) {
    times.node.push_back({.forward = fit_pass(sizes, n, &NodeSeconds::forward, 2),
                          .input_gradient = fit_pass(sizes, n, &NodeSeconds::input_gradient, 2),
                          .weight_gradient = fit_pass(sizes, n, &NodeSeconds::weight_gradient, 1),
                          .added_gradient = fit_pass(sizes, n, &NodeSeconds::added_gradient, 1)});
  }
  std::vector<SampleTime> rests;
  std::vector<double> updates;
  for (ProfiledSteps const& size : sizes) {
    times.scale.push_back(fit_scale(size, times.node));
    rests.push_back(
        {2.0 * size.samples, median_of(size.step, [](StepParts const& s) { return s.rest; })});
    updates.push_back(median_of(size.step, [](StepParts const& s) { return s.update; }));
  }
  times.rest = fit_affine(rests);
  times.update = bytes > 0 ? median(std::move(updates)) / static_cast<double>(bytes) : 0.0;
  return times;
}

TANDEM_ONCE double fit_reduction(std::span<ProfiledSteps const> alone,
                                 std::span<ProfiledSteps const> together) {
  auto const rest = [](ProfiledSteps const& size) {
    return median_of(size.step, [](StepParts const& step) { return step.rest; });
  };
  std::vector<double> seconds;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    seconds.push_back(rest(together[i]) - rest(alone[i]));
  }
  return median(std::move(seconds));
}

}  // namespace tandem::detail

#endif
