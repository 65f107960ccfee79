// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// fit_kernels: a machine's KernelCurve from products that were timed on it.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/plan/cost/kernel_times.hpp>
#include <tandem/plan/machine/machine.hpp>

namespace tandem {

/// A product of (rows, depth) and (depth, columns) in bf16 or fp16.
struct TimedProduct {
  double rows = 1;
  double columns = 1;
  double depth = 1;
  double seconds = 0;

  friend bool operator==(TimedProduct const&, TimedProduct const&) = default;
};

/// A machine and how well its KernelCurve says what was measured.
struct KernelFit {
  Machine machine{};
  int points = 0;
  double median_error = 0;  ///< |predicted / measured - 1|
  double worst_error = 0;
};

namespace detail {

TANDEM_ONCE double product_error(Machine const& machine, std::vector<TimedProduct> const& points);

}  // namespace detail

/// @p machine with the share, half_side and half_depth that come nearest to @p points, by the
/// squares of the logarithms of predicted over measured; what else the curve has, and the launch,
/// stay. Give products of sides from some dozens to thousands. Without a curve it begins at 0.7,
/// 64 and 64.
/// @throws ContractError  check_machine() refuses the machine, there is no point, or one has
///                        numbers that are not positive
TANDEM_ONCE [[nodiscard]] KernelFit fit_kernels(Machine machine,
                                                std::vector<TimedProduct> const& points);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE double product_ratio(Machine const& machine, TimedProduct const& point) {
  return KernelTimes{machine, MathPrecision::bf16}.product(point.rows, point.columns, point.depth) /
         point.seconds;
}

TANDEM_ONCE double product_error(Machine const& machine, std::vector<TimedProduct> const& points) {
  double sum = 0;
  for (TimedProduct const& point : points) {
    double const log = std::log(product_ratio(machine, point));
    sum += log * log;
  }
  return sum;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE KernelFit fit_kernels(Machine machine, std::vector<TimedProduct> const& points) {
  check_machine(machine);
  expects(!points.empty(), "fit_kernels(machine, points): give one point or more");
  for (TimedProduct const& point : points) {
    for (double const number : {point.rows, point.columns, point.depth, point.seconds}) {
      expects(number > 0 && is_finite(number),
              "fit_kernels(machine, points): give each point sizes and seconds that are positive");
    }
  }
  KernelCurve& curve = machine.kernels;
  if (!curve.known()) {
    curve = {.share = 0.7, .attention_share = 0.4, .memory_share = 0.8};
  }
  curve.half_side = std::max(curve.half_side, 1.0);  // of 0 no step would leave
  curve.half_depth = std::max(curve.half_depth, 1.0);
  double error = detail::product_error(machine, points);
  int left = 2000;  // steps that may still be tried
  for (double step = 1; step > 1e-6 && left > 0; step /= 2) {
    for (bool better = true; better && left > 0;) {
      better = false;
      for (double KernelCurve::*const member :
           {&KernelCurve::share, &KernelCurve::half_side, &KernelCurve::half_depth}) {
        for (double const factor : {std::exp(step), std::exp(-step)}) {
          KernelCurve const before = curve;
          curve.*member *= factor;
          double const now = curve.share <= 1 ? detail::product_error(machine, points) : error;
          better = better || now < error * (1 - 1e-12);
          curve = now < error * (1 - 1e-12) ? curve : before;
          error = std::min(error, now);
          --left;
        }
      }
    }
  }
  std::vector<double> errors;
  for (TimedProduct const& point : points) {
    errors.push_back(std::abs(detail::product_ratio(machine, point) - 1));
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
