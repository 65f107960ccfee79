// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// memory_svg: what the fullest device holds by the first plan of each family, beside what a device
/// has.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/io/report_text.hpp>
#include <tandem/plan/page/families.hpp>
#include <tandem/plan/page/text.hpp>
#include <tandem/plan/search/report.hpp>

namespace tandem {

namespace detail {

/// Of each family the first of the plans whose memory is known, as a search sorts them; one that
/// does not fit where none does.
template <class = void>  // compiled where it is called, not by every include
std::vector<Plan const*> memory_plans(std::vector<Plan> const& plans, double memory) {
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

}  // namespace detail

/// An SVG element for a page whose style has the classes bar, full, limit and track: the plans for
/// the most devices.
/// @param memory  of a device, bytes
template <class = void>
[[nodiscard]] std::string memory_svg(SearchResult const& result, double memory) {
  std::vector<Plan const*> const plans = detail::memory_plans(result.of.back().plans, memory);
  constexpr double left = 170;
  constexpr double width = 560;
  constexpr double row = 26;
  double most = memory;
  for (Plan const* const plan : plans) {
    most = std::max(most, plan->step.memory);
  }
  double const scale = width / most;
  double const height = 34 + row * static_cast<double>(plans.size());
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"memory\" viewBox=\"0 0 860 " +
                     detail::svg_pixels(height) +
                     "\" role=\"img\" aria-label=\"memory of the fullest device\">\n";
  double y = 26;
  for (Plan const* const plan : plans) {
    double const bytes = plan->step.memory;
    text +=
        detail::page_label(left - 10, y + 14, " text-anchor=\"end\"", detail::family_name(*plan)) +
        "<rect class=\"" + (bytes > memory ? "bar full" : "bar") + "\" x=\"" +
        detail::svg_pixels(left) + "\" y=\"" + detail::svg_pixels(y) + "\" width=\"" +
        detail::svg_pixels(std::max(1.0, scale * bytes)) + "\" height=\"18\"" +
        detail::page_attribute("data-bytes", detail::digits(bytes, 12)) + "><title>" +
        detail::page_words(strategy_label(*plan)) + "</title></rect>\n" +
        detail::page_label(left + scale * bytes + 6, y + 14, "",
                           detail::digits(bytes / 1e9, 3) + " GB");
    y += row;
  }
  double const x = left + scale * memory;
  return text + "<line class=\"limit\" x1=\"" + detail::svg_pixels(x) + "\" y1=\"18\" x2=\"" +
         detail::svg_pixels(x) + "\" y2=\"" + detail::svg_pixels(height - 4) + "\"/>\n" +
         detail::page_label(x, 13, x > 500 ? " text-anchor=\"end\"" : "",
                            "a device has " + detail::digits(memory / 1e9, 3) + " GB") +
         "</svg>\n";
}

}  // namespace tandem
