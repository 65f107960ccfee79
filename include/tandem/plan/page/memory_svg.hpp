// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// memory_svg: what the fullest device holds by the first plan of each family, beside what a device
/// has.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/page/families.hpp>
#include <tandem/plan/page/text.hpp>
#include <tandem/plan/search/report.hpp>

namespace tandem {

namespace detail {

/// A bar of the picture.
struct MemoryBar {
  std::string name{};
  double bytes = 0;
  std::string label{};  ///< what is seen where the mouse is
};

}  // namespace detail

/// An SVG element for a page whose style has the classes bar, full, limit and track: the plans for
/// the most devices.
/// @param memory  of a device, bytes
TANDEM_ONCE [[nodiscard]] std::string memory_svg(SearchResult const& result, double memory);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Of each family the first of the plans whose memory is known, as a search sorts them; one that
/// does not fit where none does.
TANDEM_ONCE std::vector<Plan const*> memory_plans(std::vector<Plan> const& plans, double memory) {
  std::vector<Plan const*> shown;
  for (std::string_view const name : family_names) {
    Plan const* first = nullptr;
    for (Plan const& plan : plans) {
      bool const known = plan.feasible() || plan.step.memory > memory;
      bool const better = first == nullptr || (!first->feasible() && !plan.feasible() &&
                                               plan.step.memory < first->step.memory);
      first = known && better && family_name(plan) == name ? &plan : first;
    }
    if (first != nullptr) {
      shown.push_back(first);
    }
  }
  return shown;
}

TANDEM_ONCE std::string bars_svg(std::vector<MemoryBar> const& bars, double memory) {
  constexpr double left = 170;
  constexpr double width = 560;
  constexpr double row = 26;
  double most = memory;
  for (MemoryBar const& bar : bars) {
    most = std::max(most, bar.bytes);
  }
  double const scale = width / most;
  double const height = 34 + row * static_cast<double>(bars.size());
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"memory\" viewBox=\"0 0 860 " +
                     svg_pixels(height) +
                     "\" role=\"img\" aria-label=\"memory of the fullest device\">\n";
  double y = 26;
  for (MemoryBar const& bar : bars) {
    text +=
        page_label(left - 10, y + 14, " text-anchor=\"end\"", bar.name) + "<rect class=\"" +
        (bar.bytes > memory ? "bar full" : "bar") + "\" x=\"" + svg_pixels(left) + "\" y=\"" +
        svg_pixels(y) + "\" width=\"" + svg_pixels(std::max(1.0, scale * bar.bytes)) +
        "\" height=\"18\"" + page_attribute("data-bytes", digits(bar.bytes, 12)) + "><title>" +
        page_words(bar.label) + "</title></rect>\n" +
        page_label(left + scale * bar.bytes + 6, y + 14, "", digits(bar.bytes / 1e9, 3) + " GB");
    y += row;
  }
  double const x = left + scale * memory;
  return text + "<line class=\"limit\" x1=\"" + svg_pixels(x) + "\" y1=\"18\" x2=\"" +
         svg_pixels(x) + "\" y2=\"" + svg_pixels(height - 4) + "\"/>\n" +
         page_label(x, 13, x > 500 ? " text-anchor=\"end\"" : "",
                    "a device has " + digits(memory / 1e9, 3) + " GB") +
         "</svg>\n";
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string memory_svg(SearchResult const& result, double memory) {
  std::vector<detail::MemoryBar> bars;
  for (Plan const* const plan : detail::memory_plans(result.of.back().plans, memory)) {
    bars.push_back({.name = std::string{detail::family_name(*plan)},
                    .bytes = plan->step.memory,
                    .label = strategy_label(*plan)});
  }
  return detail::bars_svg(bars, memory);
}

}  // namespace tandem

#endif
