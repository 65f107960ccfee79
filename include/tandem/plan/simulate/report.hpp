// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a simulated step says of each device, in text for people and in JSON for programs.

#include <cstddef>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/simulate/step.hpp>

namespace tandem {

/// A table with a line a device: when it computes, waits and sums gradients, and the most bytes of
/// activations that it has at once.
TANDEM_ONCE [[nodiscard]] std::string simulated_text(SimulatedStep const& step);

/// An object with `makespan` and `last_pass` in seconds, `idle`, a share of both time and devices,
/// and `devices`, a list of objects with `busy`, `idle_in_step`, `idle_between_passes` in seconds
/// and `peak_bytes` of activations.
TANDEM_ONCE [[nodiscard]] std::string simulated_json(SimulatedStep const& step);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string makespan_line(SimulatedStep const& step, double idle) {
  return "makespan " + digits(step.makespan * 1e3, 5) + " ms, the last pass ends at " +
         digits(step.last_pass * 1e3, 5) + " ms; devices are idle for " + digits(100 * idle, 3) +
         " % of it\n";
}

TANDEM_ONCE std::string device_lines(SimulatedStep const& step) {
  auto const ms = [](double seconds) { return digits(seconds * 1e3, 5); };
  std::string text =
      "device   busy ms   idle ms of the step   idle ms between passes   sums ms   peak MB\n";
  for (std::size_t d = 0; d < step.device.size(); ++d) {
    SimulatedDevice const& device = step.device[d];
    double sums = 0;
    for (SimulatedAction const& reduction : device.reduction) {
      sums += reduction.span.end - reduction.span.begin;
    }
    text += right(std::to_string(d), 6) + right(ms(device.busy), 10) +
            right(ms(device.idle_in_step), 22) + right(ms(device.idle_between_actions), 25) +
            right(ms(sums), 10) + right(digits(device.peak_bytes / 1e6, 4), 10) + "\n";
  }
  return text;
}

TANDEM_ONCE std::string makespan_json(SimulatedStep const& step, double idle) {
  return "  \"makespan\": " + json_number(step.makespan, 9) +
         ",\n  \"last_pass\": " + json_number(step.last_pass, 9) +
         ",\n  \"idle\": " + json_number(idle, 9) + ",\n  \"devices\": [";
}

/// Without the brace that opens it.
TANDEM_ONCE std::string device_json(SimulatedDevice const& device) {
  return "\"busy\": " + json_number(device.busy, 9) +
         ", \"idle_in_step\": " + json_number(device.idle_in_step, 9) +
         ", \"idle_between_passes\": " + json_number(device.idle_between_actions, 9) +
         ", \"peak_bytes\": " + json_number(device.peak_bytes, 15) + "}";
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string simulated_text(SimulatedStep const& step) {
  return detail::makespan_line(step, step.idle()) + detail::device_lines(step);
}

TANDEM_ONCE std::string simulated_json(SimulatedStep const& step) {
  std::string json = "{\n" + detail::makespan_json(step, step.idle());
  char const* separator = "\n";
  for (SimulatedDevice const& device : step.device) {
    json += separator + std::string{"    {"} + detail::device_json(device);
    separator = ",\n";
  }
  return json + "\n  ]\n}\n";
}

}  // namespace tandem

#endif
