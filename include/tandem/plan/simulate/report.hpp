// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a simulated step says of each device, in text for people and in JSON for programs.

#include <cstddef>
#include <string>

#include <tandem/io/report_text.hpp>
#include <tandem/plan/simulate/step.hpp>

namespace tandem {

/// A table with a line a device: when it computes, waits and sums gradients, and the most bytes of
/// activations that it has at once.
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] std::string simulated_text(SimulatedStep const& step) {
  auto const ms = [](double seconds) { return detail::digits(seconds * 1e3, 5); };
  std::string text = "makespan " + ms(step.makespan) + " ms, the last pass ends at " +
                     ms(step.last_pass) + " ms; devices are idle for " +
                     detail::digits(100 * step.idle(), 3) + " % of it\n";
  text += "device   busy ms   idle ms of the step   idle ms between passes   sums ms   peak MB\n";
  for (std::size_t d = 0; d < step.device.size(); ++d) {
    SimulatedDevice const& device = step.device[d];
    double sums = 0;
    for (SimulatedAction const& reduction : device.reduction) {
      sums += reduction.span.end - reduction.span.begin;
    }
    text += detail::right(std::to_string(d), 6) + detail::right(ms(device.busy), 10) +
            detail::right(ms(device.idle_in_step), 22) +
            detail::right(ms(device.idle_between_actions), 25) + detail::right(ms(sums), 10) +
            detail::right(detail::digits(device.peak_bytes / 1e6, 4), 10) + "\n";
  }
  return text;
}

/// An object with `makespan` and `last_pass` in seconds, `idle`, a share of both time and devices,
/// and `devices`, a list of objects with `busy`, `idle_in_step`, `idle_between_passes` in seconds
/// and `peak_bytes` of activations.
template <class = void>
[[nodiscard]] std::string simulated_json(SimulatedStep const& step) {
  auto const number = [](double value) { return detail::json_number(value, 9); };
  std::string json = "{\n  \"makespan\": " + number(step.makespan);
  json += ",\n  \"last_pass\": " + number(step.last_pass);
  json += ",\n  \"idle\": " + number(step.idle()) + ",\n  \"devices\": [";
  char const* separator = "\n";
  for (SimulatedDevice const& device : step.device) {
    json += separator;
    json += "    {\"busy\": " + number(device.busy) +
            ", \"idle_in_step\": " + number(device.idle_in_step) +
            ", \"idle_between_passes\": " + number(device.idle_between_actions) +
            ", \"peak_bytes\": " + detail::json_number(device.peak_bytes, 15) + "}";
    separator = ",\n";
  }
  return json + "\n  ]\n}\n";
}

}  // namespace tandem
