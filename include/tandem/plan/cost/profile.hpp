// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NetworkProfile: what the passes of a network's nodes have taken on a device, as a function of
/// the microbatch.
///
/// measure/profile/profile.hpp measures one, profile_json.hpp writes and reads it,
/// measured_costs.hpp makes costs of it.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/machine/machine.hpp>

namespace tandem {

/// Seconds: fixed + per_sample * samples, neither negative.
struct AffineTime {
  double fixed = 0;
  double per_sample = 0;

  [[nodiscard]] constexpr double of(double samples) const { return fixed + per_sample * samples; }

  friend constexpr bool operator==(AffineTime const&, AffineTime const&) = default;
};

/// A measurement.
struct SampleTime {
  double samples = 0;
  double seconds = 0;
};

/// The line that is nearest to @p points, by the squares of its relative errors; through the origin
/// if there is one point only, or if the nearest one begins below 0.
/// @throws ContractError  there is no point, or one whose samples are not positive or seconds
///                        negative
TANDEM_ONCE [[nodiscard]] AffineTime fit_affine(std::vector<SampleTime> const& points);

/// Of one node, for a microbatch.
struct PassTimes {
  AffineTime forward{};
  AffineTime input_gradient{};  ///< with the sum of the gradients that its readers give it
  AffineTime weight_gradient{};
  AffineTime added_gradient{};  ///< the same where it is added to that of earlier microbatches

  friend bool operator==(PassTimes const&, PassTimes const&) = default;
};

/// A device's times.
struct DeviceTimes {
  std::vector<PassTimes> node{};
  std::vector<double> scale{};  ///< at each of NetworkProfile::samples: what all passes of a step
                                ///< have taken, over what the lines of the nodes say
  AffineTime rest{};  ///< of a step: its batch is loaded, the loss worked out, threads are told
  double update = 0;  ///< seconds for a byte of parameters, with making them ready to be read

  friend bool operator==(DeviceTimes const&, DeviceTimes const&) = default;
};

/// What does not depend on the device.
struct ProfiledNode {
  std::string name{};
  int part = 0;                      ///< top-level part of the network; not descending
  std::int64_t output_bytes = 0;     ///< of a sample
  std::int64_t parameter_bytes = 0;  ///< as the optimizer keeps them
  std::vector<int> inputs{};         ///< nodes, of lower index than this one

  friend bool operator==(ProfiledNode const&, ProfiledNode const&) = default;
};

/// Where a device works: by itself, or while another one does, with which it shares the memory and
/// the clock of the processor.
enum class DeviceLoad { alone, together };

/// The times of a network on one kind of device.
struct NetworkProfile {
  std::string backend{};       ///< "host-onednn"
  std::string precision{};     ///< "fp32"
  int threads = 1;             ///< of a device
  std::vector<int> samples{};  ///< the microbatches that were measured, ascending
  std::vector<ProfiledNode> node{};
  DeviceTimes alone{};
  DeviceTimes together{};
  LinkSpeed message{};    ///< from one device to another
  LinkSpeed reduction{};  ///< of gradients that two devices sum, both getting the sum

  [[nodiscard]] DeviceTimes const& times(DeviceLoad load) const {
    return load == DeviceLoad::alone ? alone : together;
  }

  /// What the times of nodes are multiplied by for microbatches of @p size samples: linear between
  /// the measured sizes, constant beyond them; 1 if no scales are known.
  TANDEM_ONCE [[nodiscard]] double scale(DeviceLoad load, int size) const;

  friend bool operator==(NetworkProfile const&, NetworkProfile const&) = default;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE AffineTime fit_affine(std::vector<SampleTime> const& points) {
  double most = 0;
  bool sound = !points.empty();
  for (SampleTime const& point : points) {
    sound = sound && point.samples > 0 && point.seconds >= 0;
    most = std::max(most, point.seconds);
  }
  expects(sound,
          "fit_affine(points): give one point or more, of positive samples and of seconds that are "
          "not negative");
  if (most <= 0) {
    return {};
  }
  double w = 0;  // sums of weights, and of weights times x, y, x x, x y
  double wx = 0;
  double wy = 0;
  double wxx = 0;
  double wxy = 0;
  for (auto const& [x, y] : points) {
    double const of_error = std::max(y, 1e-3 * most);  // where a clock saw next to nothing
    double const weight = 1 / (of_error * of_error);
    w += weight;
    wx += weight * x;
    wy += weight * y;
    wxx += weight * x * x;
    wxy += weight * x * y;
  }
  double const spread = w * wxx - wx * wx;
  double const slope = spread > 1e-9 * w * wxx ? (w * wxy - wx * wy) / spread : wxy / wxx;
  double const fixed = (wy - slope * wx) / w;
  if (slope <= 0) {
    return {.fixed = wy / w};
  }
  return fixed <= 0 ? AffineTime{.per_sample = wxy / wxx} : AffineTime{fixed, slope};
}

TANDEM_ONCE double NetworkProfile::scale(DeviceLoad load, int size) const {
  std::vector<double> const& known = times(load).scale;
  auto const above = static_cast<std::size_t>(
      std::lower_bound(samples.begin(), samples.end(), size) - samples.begin());
  if (known.empty()) {
    return 1;
  }
  if (above == 0 || above == samples.size()) {
    return above == 0 ? known.front() : known.back();
  }
  double const share = static_cast<double>(size - samples[above - 1]) /
                       static_cast<double>(samples[above] - samples[above - 1]);
  return known[above - 1] + share * (known[above] - known[above - 1]);
}

}  // namespace tandem

#endif
