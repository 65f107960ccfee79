// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// mesh_page: what searches of meshes have found, for numbers of devices, as one page for a
/// browser, which asks for nothing from anywhere.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/page/frame.hpp>
#include <tandem/plan/page/memory_svg.hpp>
#include <tandem/plan/page/page.hpp>
#include <tandem/plan/page/text.hpp>
#include <tandem/plan/page/time_svg.hpp>
#include <tandem/plan/scale/mesh_reasons.hpp>
#include <tandem/plan/scale/mesh_report.hpp>
#include <tandem/plan/scale/mesh_search.hpp>
#include <tandem/plan/scale/mesh_timeline.hpp>
#include <tandem/plan/scale/mesh_type.hpp>
#include <tandem/plan/simulate/svg.hpp>

namespace tandem {

/// What search_meshes() has found for some numbers of devices, ascending.
struct MeshResult {
  struct Devices {
    int devices = 1;
    MeshSearch found{};
    std::vector<MeshReason> why{};
  };
  std::vector<Devices> of{};
};

namespace detail {

/// From so many devices on the fastest cuts or shares the model; 0: not on the most.
TANDEM_ONCE int meshes_win_from(MeshResult const& result);

}  // namespace detail

/// HTML that is XML, too, like search_page(): the fastest layout and why; the seconds of a step
/// against devices, a line for each family, and from where on the model is cut; where the time
/// goes; memory; a step as the simulator has it, where it is small enough to be seen; and the table
/// of all plans, whose columns a click sorts.
/// @param title   what is planned
/// @param memory  of a device, bytes
/// @pre the result is not empty
TANDEM_ONCE [[nodiscard]] std::string mesh_page(MeshTask const& task, MeshResult const& result,
                                                std::string const& title, double memory);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// The parts of a step, by name.
TANDEM_ONCE std::array<std::pair<char const*, double>, 7> step_parts(MeshStep const& step) {
  return {{{"computing", step.computing},
           {"products", step.products},
           {"messages", step.messages},
           {"filling", step.filling},
           {"sums", step.sums},
           {"update", step.update},
           {"waiting", step.waiting}}};
}

TANDEM_ONCE int meshes_win_from(MeshResult const& result) {
  int from = 0;
  for (std::size_t i = result.of.size(); i-- > 0;) {
    std::vector<MeshPlan> const& plans = result.of[i].found.plans;
    if (plans.empty() || mesh_family(plans.front().layout) <= 1) {
      break;
    }
    from = result.of[i].devices;
  }
  return from;
}

TANDEM_ONCE std::string crossover_of(int from) {
  return "a model that is cut or shared wins from " + std::to_string(from) +
         (from == 1 ? " device on" : " devices on");
}

TANDEM_ONCE std::vector<TimeLine> mesh_lines(MeshTask const& task, MeshResult const& result) {
  std::vector<TimeLine> lines;
  for (int family = 0; family < mesh_families; ++family) {
    TimeLine line{.name = mesh_family_name(family)};
    for (MeshResult::Devices const& own : result.of) {
      if (auto const& best = own.found.of_family[static_cast<std::size_t>(family)]) {
        line.points.push_back(
            {.devices = own.devices,
             .seconds = best->step.seconds(),
             .label = mesh_type(best->layout, microbatches_of(task, best->layout))});
      }
    }
    if (!line.points.empty()) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

TANDEM_ONCE std::vector<MemoryBar> mesh_bars(MeshTask const& task, MeshSearch const& found) {
  std::vector<MemoryBar> bars;
  for (int family = 0; family < mesh_families; ++family) {
    if (auto const& best = found.of_family[static_cast<std::size_t>(family)]) {
      bars.push_back({.name = mesh_family_name(family),
                      .bytes = best->memory.total(),
                      .label = mesh_type(best->layout, microbatches_of(task, best->layout))});
    }
  }
  return bars;
}

/// Of each number of devices the fastest's step, a bar whose parts say where its time goes.
TANDEM_ONCE std::string mesh_steps_svg(MeshResult const& result) {
  constexpr double left = 90;
  constexpr double width = 640;
  constexpr double row = 26;
  std::string text;
  double y = 40;
  for (MeshResult::Devices const& own : result.of) {
    if (own.found.plans.empty()) {
      continue;
    }
    MeshStep const& step = own.found.plans.front().step;
    text += page_label(left - 10, y + 14, " text-anchor=\"end\"", std::to_string(own.devices));
    double x = left;
    std::size_t at = 0;
    for (auto const& [name, seconds] : step_parts(step)) {
      double const share = seconds / step.seconds();
      text += "<rect class=\"key f" + std::to_string(at++) + "\" x=\"" + svg_pixels(x) + "\" y=\"" +
              svg_pixels(y) + "\" width=\"" + svg_pixels(share * width) + "\" height=\"18\"" +
              page_attribute("data-seconds", digits(seconds, 9)) + "><title>" + name + ": " +
              digits(100 * share, 3) + " %</title></rect>\n";
      x += share * width;
    }
    text += page_label(left + width + 8, y + 14, "", digits(step.seconds(), 4) + " s");
    y += row;
  }
  double x = left;
  std::size_t at = 0;
  for (auto const& [name, seconds] : step_parts(MeshStep{})) {
    text += "<rect class=\"key f" + std::to_string(at++) + "\" x=\"" + svg_pixels(x) +
            "\" y=\"8\" width=\"12\" height=\"12\" rx=\"2\"/>\n" + page_label(x + 17, 18, "", name);
    x += 92;
  }
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"steps\" viewBox=\"0 0 860 " +
         svg_pixels(y + 4) + "\" role=\"img\" aria-label=\"where the time of a step goes\">\n" +
         text + "</svg>\n";
}

TANDEM_ONCE std::string mesh_row(MeshTask const& task, int devices, MeshPlan const& plan,
                                 double first, double memory) {
  MeshStep const& step = plan.step;
  double const all = step.seconds();
  std::string rest;
  for (auto const& [name, seconds] : step_parts(step)) {
    if (std::string_view{name} != "computing" && seconds > 0.005 * all) {
      rest += (rest.empty() ? "" : ", ") + std::string{name} + " " +
              digits(100 * seconds / all, 2) + " %";
    }
  }
  std::string const only = plan_only(plan.layout);
  std::string const why = page_words(rest + (only.empty() ? "" : "; a plan only: no " + only));
  std::string const name = page_words(mesh_type(plan.layout, microbatches_of(task, plan.layout)));
  double const bytes = plan.memory.total();
  return "<tr" + page_attribute("data-devices", std::to_string(devices)) +
         (only.empty() ? "" : " class=\"refused\"") + ">" +
         number_cell(devices, std::to_string(devices)) + number_cell(all, digits(all, 4)) +
         number_cell(first / all, digits(first / all, 3)) +
         number_cell(model_share(task, plan), digits(100 * model_share(task, plan), 3)) +
         number_cell(plan.layout.microbatch, std::to_string(plan.layout.microbatch)) +
         number_cell(step.computing / all, digits(100 * step.computing / all, 3)) + "<td" +
         page_attribute("data-value", digits(bytes, 12)) +
         page_attribute("style", "--share:" + digits(100 * bytes / memory, 4) + "%") +
         " class=\"gb\">" + digits(bytes / 1e9, 3) + "</td><td class=\"words\" data-value=\"" +
         name + "\">" + name + "</td><td class=\"words\" data-value=\"" + why + "\">" + why +
         "</td></tr>\n";
}

TANDEM_ONCE std::string mesh_table(MeshTask const& task, MeshResult const& result, double memory) {
  double first = 0;  // seconds of the fastest on the fewest devices
  for (std::size_t i = result.of.size(); i-- > 0;) {
    std::vector<MeshPlan> const& plans = result.of[i].found.plans;
    first = plans.empty() ? first : plans.front().step.seconds();
  }
  std::string text = table_head({"devices", "step s", "speedup", "peak %", "microbatch",
                                 "computing %", "GB", "strategy", "where the rest goes"});
  for (MeshResult::Devices const& own : result.of) {
    for (MeshPlan const& plan : own.found.plans) {
      text += mesh_row(task, own.devices, plan, first, memory);
    }
  }
  return text + "</tbody></table>\n";
}

TANDEM_ONCE std::string mesh_summary(MeshTask const& task, MeshResult const& result) {
  MeshResult::Devices const& last = result.of.back();
  if (last.found.plans.empty()) {
    return "<p>Nothing fits: take more devices, more memory, or another batch.</p>\n";
  }
  int const from = meshes_win_from(result);
  double const seconds = last.found.plans.front().step.seconds();
  std::string const found = digits(seconds, 4) + " s a step on " + std::to_string(last.devices) +
                            (last.devices == 1 ? " device" : " devices") +
                            (from == 0 ? "." : "; " + crossover_of(from) + ".");
  return "<p class=\"found\">" + page_words(found) + "</p>\n<pre>" +
         page_words(chosen_text(task, last.found, last.why)) + "</pre>\n";
}

TANDEM_ONCE std::string mesh_step_section(MeshTask const& task, MeshPlan const& best) {
  std::optional<MeshTimeline> const timeline = mesh_timeline(task, best.layout);
  if (!timeline) {
    return "";
  }
  std::string const what = "One pipeline's " + std::to_string(timeline->microbatches) + " of " +
                           std::to_string(microbatches_of(task, best.layout)) +
                           " microbatches; a row is a stage's devices.";
  return page_section(
      "A step of the fastest", what,
      "<div class=\"wide\">" +
          simulated_svg(timeline->step,
                        mesh_type(best.layout, microbatches_of(task, best.layout))) +
          "</div>\n");
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string mesh_page(MeshTask const& task, MeshResult const& result,
                                  std::string const& title, double memory) {
  std::vector<int> devices;
  for (MeshResult::Devices const& own : result.of) {
    devices.push_back(own.devices);
  }
  int const from = detail::meshes_win_from(result);
  MeshSearch const& last = result.of.back().found;
  std::string text = detail::page_beginning(title) + detail::mesh_summary(task, result);
  text += detail::page_section("Time of a step",
                               "The fastest of each family; both axes are logarithmic.",
                               detail::lines_svg(devices, detail::mesh_lines(task, result), from,
                                                 from > 0 ? detail::crossover_of(from) : "",
                                                 "seconds of a step against devices"));
  text += detail::page_section("Where it goes", "Of the fastest, by devices.",
                               detail::mesh_steps_svg(result));
  text +=
      detail::page_section("Memory",
                           "What the fullest device holds by each family's fastest strategy on " +
                               std::to_string(devices.back()) + " devices.",
                           detail::bars_svg(detail::mesh_bars(task, last), memory));
  if (!last.plans.empty()) {
    text += detail::mesh_step_section(task, last.plans.front());
  }
  text += detail::page_section(
      "The fastest plans",
      "A click on a column's head sorts by it, a second one the other way round.",
      detail::table_choices(devices, "with those that are plans only") + "<div class=\"wide\">" +
          detail::mesh_table(task, result, memory) + "</div>\n");
  return text + detail::page_end;
}

}  // namespace tandem

#endif
