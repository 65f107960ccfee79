// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// calibrate: the links of a machine from all-reduces that were timed on it.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machine.hpp>

namespace tandem {

/// An all-reduce of devices 0 to devices - 1.
struct TimedAllReduce {
  int devices = 2;
  double bytes = 0;  ///< of each device
  double seconds = 0;

  friend bool operator==(TimedAllReduce const&, TimedAllReduce const&) = default;
};

/// A machine and how well all_reduce_seconds() says on it what was measured.
struct Calibration {
  Machine machine{};
  int points = 0;
  double median_error = 0;  ///< |predicted / measured - 1|
  double worst_error = 0;
};

/// @p machine with the links that come nearest to @p points, by the squares of the logarithms of
/// predicted over measured: Machine::inside from those of one node, then Machine::between from the
/// others. Give sizes from a few KiB, for the latency, to the size of a network, for the bandwidth;
/// of one size alone only the bandwidth is known, and without a point of a kind its link stays.
/// @throws ContractError  check_machine() refuses the machine, there is no point, or one has fewer
///                        than 2 devices, more than the machine, or numbers that are not positive
TANDEM_ONCE [[nodiscard]] Calibration calibrate(Machine machine,
                                                std::vector<TimedAllReduce> const& points);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Fits one of a machine's links.
class LinkFit {
 public:
  LinkFit(Machine& machine, LinkSpeed Machine::*link, std::vector<TimedAllReduce> points)
      : machine_{machine}, link_{link}, points_{std::move(points)} {
    std::sort(points_.begin(), points_.end(),
              [](TimedAllReduce const& a, TimedAllReduce const& b) { return a.bytes < b.bytes; });
  }

  /// Leaves the link as it is if there are no points, and its latency if all are of one size.
  /// Errors are worked out until no step helps, but no more than 20,000, and with many points
  /// 2,000: where times contradict each other, steps may help next to nothing and go on.
  void run() {
    if (points_.empty()) {
      return;
    }
    LinkSpeed& link = machine_.*link_;
    link.latency = std::max(link.latency, least_latency);
    bool const sizes = points_.front().bytes < points_.back().bytes;
    for (int turn = 0; turn < 8; ++turn) {  // the largest is bandwidth, the smallest latency
      link.bandwidth *= ratio(points_.back());
      double const smaller = sizes ? ratio(points_.front()) : 1;
      link.latency = std::max(link.latency / smaller, least_latency);
    }
    left_ = std::clamp<long>(20'000'000 / static_cast<long>(points_.size()), 2000, 20'000);
    for (double step = 1; step > 1e-7 && left_ > 0; step /= 2) {
      while (improves(step, 0) || improves(-step, 0) ||
             (sizes && (improves(0, step) || improves(0, -step) || improves(step, step) ||
                        improves(-step, -step)))) {
      }
    }
  }

 private:
  // Seconds. A latency of 0 has no logarithm, and this one cannot be told from it.
  static constexpr double least_latency = 1e-9;

  // Predicted over measured.
  [[nodiscard]] double ratio(TimedAllReduce const& point) const {
    return all_reduce_seconds(machine_, {point.devices, 1}, point.bytes) / point.seconds;
  }

  [[nodiscard]] double error() const {
    double sum = 0;
    for (TimedAllReduce const& point : points_) {
      double const log = std::log(ratio(point));
      sum += log * log;
    }
    return sum;
  }

  // Multiplies the link by powers of e, and takes it back unless that is nearer.
  bool improves(double bandwidth, double latency) {
    LinkSpeed& link = machine_.*link_;
    LinkSpeed const before = link;
    if (--left_ < 0) {
      return false;
    }
    double const old = error();
    link.bandwidth *= std::exp(bandwidth);
    link.latency *= std::exp(latency);
    bool const nearer = link.latency >= least_latency && error() < old * (1 - 1e-12);
    link = nearer ? link : before;
    return nearer;
  }

  Machine& machine_;
  LinkSpeed Machine::*link_;
  std::vector<TimedAllReduce> points_;
  long left_ = 0;  // errors that may still be worked out
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE Calibration calibrate(Machine machine, std::vector<TimedAllReduce> const& points) {
  check_machine(machine);
  std::vector<TimedAllReduce> near;
  std::vector<TimedAllReduce> far;
  for (TimedAllReduce const& point : points) {
    expects(point.devices >= 2 && machine.has(point.devices) && point.bytes > 0 &&
                is_finite(point.bytes) && point.seconds > 0 && is_finite(point.seconds),
            "calibrate(machine, points): give each point 2 devices or more that the machine has, "
            "and bytes and seconds that are positive");
    (point.devices <= machine.devices_per_node ? near : far).push_back(point);
  }
  expects(!points.empty(), "calibrate(machine, points): give one point or more");
  detail::LinkFit{machine, &Machine::inside, near}.run();
  detail::LinkFit{machine, &Machine::between, far}.run();
  for (LinkSpeed const& link : {machine.inside, machine.between}) {
    expects(link.bandwidth >= 1 && link.bandwidth <= 1e18 && link.latency <= 1e6,
            "calibrate(machine, points): the links nearest to the points have less than 1 or more "
            "than 1e18 bytes a second, or more than 1e6 seconds of latency; give points of more "
            "sizes, in bytes and seconds");
  }
  std::vector<double> errors;
  for (TimedAllReduce const& point : points) {
    double const predicted = all_reduce_seconds(machine, {point.devices, 1}, point.bytes);
    errors.push_back(std::abs(predicted / point.seconds - 1));
  }
  std::sort(errors.begin(), errors.end());
  std::size_t const half = errors.size() / 2;
  return {.machine = std::move(machine),
          .points = static_cast<int>(errors.size()),
          .median_error = (errors[half] + errors[(errors.size() - 1) / 2]) / 2,
          .worst_error = errors.back()};
}

}  // namespace tandem

#endif
