// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a placement is good for, in text for people and in JSON for programs.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/place/critical_path.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/placement.hpp>

namespace tandem {

/// For how long each device computes and each link carries something in a step, in seconds.
struct PlacementUse {
  std::vector<double> device{};
  std::vector<double> link{};  ///< of devices a → b at a · devices + b

  [[nodiscard]] double of_link(int from, int to) const {
    return link[static_cast<std::size_t>(from) * device.size() + static_cast<std::size_t>(to)];
  }
};

/// An object with `speedup` over one device; `step`, `one_device` and `lower_bound`, below which no
/// step of any placement is, in seconds; `most_speedup`, which that bound leaves; `bottleneck`; and
/// `placement`, the device of each node by its name up to the first space; `type`, if one is given.
TANDEM_ONCE [[nodiscard]] std::string placement_json(CostGraph const& graph,
                                                     PlacementTask const& task,
                                                     GraphPlacement const& placement,
                                                     std::string const& type = {});

/// A placement for people: a few lines, then a line a device with its nodes.
TANDEM_ONCE [[nodiscard]] std::string placement_text(CostGraph const& graph,
                                                     PlacementTask const& task,
                                                     GraphPlacement const& placement);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// "node12" of "node12 Conv2d(…)".
inline std::string_view node_id(CostNode const& node) {
  return std::string_view{node.name}.substr(0, node.name.find(' '));
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE [[nodiscard]] PlacementUse placement_use(PlacementTimeline const& timeline,
                                                     int devices) {
  auto const count = static_cast<std::size_t>(devices);
  PlacementUse use{std::vector<double>(count), std::vector<double>(count * count)};
  for (std::size_t n = 0; n < timeline.device.size(); ++n) {
    for (PlacementSpan const& span : {timeline.forward[n], timeline.backward[n]}) {
      use.device[static_cast<std::size_t>(timeline.device[n])] += span.end - span.begin;
    }
  }
  for (PlacementTransfer const& t : timeline.transfer) {
    use.link[static_cast<std::size_t>(t.from) * count + static_cast<std::size_t>(t.to)] +=
        t.span.end - t.span.begin;
  }
  return use;
}

/// What a shorter step needs first: "longest path" where the step is that of the longest path of
/// operations, so that no more devices and no faster links help; else the device or the link that
/// is busy longest, as "device 0" or "link 0 to 1".
TANDEM_ONCE [[nodiscard]] std::string placement_bottleneck(CostGraph const& graph,
                                                           PlacementTimeline const& timeline,
                                                           int devices) {
  if (critical_path(graph) >= timeline.step * (1 - 1e-9)) {
    return "longest path";
  }
  PlacementUse const use = placement_use(timeline, devices);
  std::string name;
  double most = -1;
  auto const see = [&](double busy, auto const& text) {
    if (busy > most) {
      most = busy;
      name = text();
    }
  };
  for (int d = 0; d < devices; ++d) {
    see(use.device[static_cast<std::size_t>(d)], [&] { return "device " + std::to_string(d); });
  }
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      see(use.of_link(from, to),
          [&] { return "link " + std::to_string(from) + " to " + std::to_string(to); });
    }
  }
  return name;
}

TANDEM_ONCE std::string placement_json(CostGraph const& graph, PlacementTask const& task,
                                       GraphPlacement const& placement, std::string const& type) {
  PlacementTimeline const timeline = schedule_timeline(graph, task, placement.device);
  std::string json = "{\n  \"speedup\": " + detail::json_number(placement.speedup(graph), 6);
  json += ",\n  \"step\": " + detail::json_number(placement.step, 9);
  json += ",\n  \"one_device\": " + detail::json_number(graph.time(), 9);
  json += ",\n  \"lower_bound\": " + detail::json_number(placement.lower_bound, 9);
  json +=
      ",\n  \"most_speedup\": " +
      detail::json_number(placement.lower_bound > 0 ? graph.time() / placement.lower_bound : 1, 6);
  json += ",\n  \"bottleneck\": " +
          detail::json_text(placement_bottleneck(graph, timeline, task.devices));
  json += ",\n  \"placement\": {";
  for (int n = 0; n < graph.nodes(); ++n) {
    auto const i = static_cast<std::size_t>(n);
    json += n > 0 ? ",\n    " : "\n    ";
    json += detail::json_text(detail::node_id(graph.node[i])) + ": " +
            std::to_string(placement.device[i]);
  }
  json += "\n  }";
  return json + (type.empty() ? "" : ",\n  \"type\": " + detail::json_text(type)) + "\n}\n";
}

TANDEM_ONCE std::string placement_text(CostGraph const& graph, PlacementTask const& task,
                                       GraphPlacement const& placement) {
  PlacementTimeline const timeline = schedule_timeline(graph, task, placement.device);
  PlacementUse const use = placement_use(timeline, task.devices);
  auto const ms = [](double seconds) { return detail::digits(seconds * 1e3, 5) + " ms"; };
  std::string text = "speedup " + detail::digits(placement.speedup(graph), 4) + ": " +
                     ms(placement.step) + " a step, " + ms(graph.time()) + " on one device\n";
  text += "at most " +
          detail::digits(placement.lower_bound > 0 ? graph.time() / placement.lower_bound : 1, 4) +
          ": no placement takes less than " + ms(placement.lower_bound) + "\n";
  text += "bottleneck: " + placement_bottleneck(graph, timeline, task.devices) + "\n";
  for (int d = 0; d < task.devices; ++d) {
    double const busy = use.device[static_cast<std::size_t>(d)];
    text += "device " + std::to_string(d) + ", busy " +
            detail::digits(placement.step > 0 ? 100 * busy / placement.step : 0, 3) + " %:";
    for (int n = 0; n < graph.nodes(); ++n) {
      auto const i = static_cast<std::size_t>(n);
      if (placement.device[i] == d) {
        text += " ";
        text += detail::node_id(graph.node[i]);
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace tandem

#endif
