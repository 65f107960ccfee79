// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// trace_json: a simulated step for chrome://tracing and Perfetto, in the form that
/// train/ranks/trace.hpp gives a measured one.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/simulate/step.hpp>

namespace tandem {

namespace detail {

/// Messages of a device so that none of a lane overlaps another.
TANDEM_ONCE std::vector<std::vector<SimulatedMessage>> message_lanes(SimulatedStep const& step,
                                                                     int from);

}  // namespace detail

/// The Trace Event Format: a process a worker; for each device a lane of passes, one of the
/// reductions of its gradients, and as many lanes of the messages that it sends as there are at
/// once; and a counter of its activations. An event a line; times in microseconds.
/// Source: Google, "Trace Event Format", complete, counter and metadata events.
TANDEM_ONCE [[nodiscard]] std::string trace_json(SimulatedStep const& step);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

class TraceText {
 public:
  /// What stands in all events of one lane.
  void begin_lane(int process, int thread, std::string const& name) {
    ids_ = ", \"pid\": " + std::to_string(process) + ", \"tid\": " + std::to_string(thread);
    add("\"thread_name\"", "M", ", \"args\": {\"name\": " + json_text(name) + "}");
    add("\"thread_sort_index\"", "M",
        ", \"args\": {\"sort_index\": " + std::to_string(thread) + "}");
  }

  void span(std::string const& name, char const* category, PlacementSpan const& span,
            std::string const& arguments = {}) {
    add(json_text(name), "X",
        std::string{", \"cat\": \""} + category +
            "\", \"ts\": " + json_number(1e6 * span.begin, 12) +
            ", \"dur\": " + json_number(1e6 * (span.end - span.begin), 12) +
            (arguments.empty() ? "" : ", \"args\": {" + arguments + "}"));
  }

  void bytes(std::string const& name, MemoryPoint const& point) {
    add(json_text(name), "C",
        ", \"ts\": " + json_number(1e6 * point.time, 12) +
            ", \"args\": {\"bytes\": " + json_number(point.bytes, 15) + "}");
  }

  /// The JSON object form.
  [[nodiscard]] std::string whole() const { return "{\"traceEvents\": [" + text_ + "\n]}\n"; }

 private:
  void add(std::string const& name, char const* phase, std::string const& rest) {
    text_ += text_.empty() ? "\n" : ",\n";
    text_ += "{\"name\": " + name + ", \"ph\": \"" + phase + "\"" + ids_ + rest + "}";
  }

  std::string text_{};
  std::string ids_{};
};

/// "1F3", or "F conv1" of a placement.
TANDEM_ONCE std::string simulated_name(SimulatedStep const& step, Action const& action) {
  bool const named = static_cast<std::size_t>(action.stage) < step.stage_name.size();
  return named ? std::string{name_of(action.kind).text} + " " +
                     step.stage_name[static_cast<std::size_t>(action.stage)]
               : to_string(action);
}

TANDEM_ONCE std::vector<std::vector<SimulatedMessage>> message_lanes(SimulatedStep const& step,
                                                                     int from) {
  std::vector<std::vector<SimulatedMessage>> lanes;
  for (SimulatedMessage const& message : step.message) {  // by begin
    if (message.from != from) {
      continue;
    }
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](auto const& one) {
      return one.back().span.end <= message.span.begin;
    });
    if (lane == lanes.end()) {
      lane = lanes.emplace(lanes.end());
    }
    lane->push_back(message);
  }
  return lanes;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string trace_json(SimulatedStep const& step) {
  detail::TraceText text;
  for (int d = 0, lanes = 0; d < static_cast<int>(step.device.size()); ++d) {
    SimulatedDevice const& device = step.device[static_cast<std::size_t>(d)];
    std::string const name = "device " + std::to_string(d);
    int const worker = step.mesh.group_of(d, Axis::model);
    lanes = step.mesh.leads(d, Axis::model) ? 0 : lanes;
    text.begin_lane(worker, lanes++, name);
    for (auto const& [action, span] : device.action) {
      if (!is_message(action.kind)) {
        text.span(detail::simulated_name(step, action), "compute", span);
      }
    }
    for (MemoryPoint const& point : device.memory) {
      text.bytes("activations of " + name, point);
    }
    if (!device.reduction.empty()) {
      text.begin_lane(worker, lanes++, name + " sums");
      for (auto const& [action, span] : device.reduction) {
        text.span(detail::simulated_name(step, action), "communication", span);
      }
    }
    for (auto const& lane : detail::message_lanes(step, d)) {
      text.begin_lane(worker, lanes++, name + " sends");
      for (SimulatedMessage const& message : lane) {
        text.span(detail::simulated_name(step, message.action), "communication", message.span,
                  "\"to\": " + std::to_string(message.to) +
                      ", \"bytes\": " + detail::json_number(message.bytes, 15));
      }
    }
  }
  return text.whole();
}

}  // namespace tandem

#endif
