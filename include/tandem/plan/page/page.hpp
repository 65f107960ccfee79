// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// search_page: what a search has found as one page for a browser, which asks for nothing from
/// anywhere.

#include <array>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/page/families.hpp>
#include <tandem/plan/page/frame.hpp>
#include <tandem/plan/page/memory_svg.hpp>
#include <tandem/plan/page/text.hpp>
#include <tandem/plan/page/time_svg.hpp>
#include <tandem/plan/search/report.hpp>

namespace tandem {

/// What a page has beside the result.
struct PageExtras {
  std::string title{};
  double memory = 0;       ///< of a device, bytes
  std::string step_svg{};  ///< of a step of the recommended plan, as simulated_svg(); may be empty
};

/// HTML that is XML, too: the recommended strategy; the time to converge against devices, a line
/// for each family; memory; the step; and the table of all plans, whose columns a click sorts.
/// @pre the result is not empty
TANDEM_ONCE [[nodiscard]] std::string search_page(SearchResult const& result,
                                                  PageExtras const& extras);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// A cell that is sorted by a number.
TANDEM_ONCE std::string number_cell(double value, std::string const& text) {
  return "<td" + page_attribute("data-value", digits(value, 12)) + ">" + page_words(text) + "</td>";
}

TANDEM_ONCE std::string page_row(SearchResult const& result, int devices, Plan const& plan,
                                 std::string const& memory_share) {
  bool const possible = plan.feasible();
  std::string row = "<tr" + page_attribute("data-devices", std::to_string(devices)) +
                    (possible ? "" : " class=\"refused\"") + ">" +
                    number_cell(devices, std::to_string(devices));
  if (possible) {
    std::array<std::string, 6> const cells = plan_cells(result, plan);
    double const c = plan.time.seconds();
    row += number_cell(c, cells[0]) + number_cell(result.one_device / c, cells[1]) +
           number_cell(plan.time.step, cells[2]) +
           number_cell(plan.time.steps_per_epoch, cells[3]) +
           number_cell(plan.time.epochs, cells[4]) + "<td" +
           page_attribute("data-value", digits(plan.step.memory, 12)) +
           page_attribute("style", "--share:" + memory_share) + " class=\"gb\">" +
           page_words(cells[5]) + "</td>";
  } else {
    row += "<td>-</td><td></td><td></td><td></td><td></td><td></td>";
  }
  std::string const name = page_words(strategy_label(plan));
  std::string const why = page_words(possible ? plan_remark(plan) : plan.problem);
  return row + "<td class=\"words\" data-value=\"" + name + "\">" + name +
         "</td><td class=\"words\" data-value=\"" + why + "\">" + why + "</td></tr>\n";
}

/// The beginning of a page's table, of nine columns, the last two words.
TANDEM_ONCE std::string table_head(std::array<char const*, 9> const& heads) {
  std::string text = "<table id=\"plans\">\n<thead><tr>";
  for (char const* const head : heads) {
    text += "<th scope=\"col\" tabindex=\"0\">" + std::string{head} + "</th>";
  }
  return text + "</tr></thead>\n<tbody>\n";
}

TANDEM_ONCE std::string page_table(SearchResult const& result, double memory) {
  std::string text = table_head({"devices", "C", "speedup", "T ms", "S", "E", "GB", "strategy",
                                 "what bounds it, or why it cannot be"});
  for (SearchResult::Devices const& own : result.of) {
    for (Plan const& plan : own.plans) {
      double const share = memory > 0 ? 100 * plan.step.memory / memory : 0;
      text += page_row(result, own.devices, plan, digits(share, 4) + "%");
    }
  }
  return text + "</tbody></table>\n";
}

/// What is shown of a page's table: rows of which devices, and whether rows of class refused.
TANDEM_ONCE std::string table_choices(std::vector<int> const& devices, std::string const& refused) {
  std::string text =
      "<p class=\"choices\"><label>devices <select id=\"devices\"><option "
      "value=\"all\">all</option>";
  for (int const& own : devices) {
    std::string const count = std::to_string(own);
    bool const last = &own == &devices.back();
    text += "<option value=\"" + count + (last ? "\" selected=\"selected\">" : "\">") + count +
            "</option>";
  }
  return text +
         "</select></label> <label><input id=\"refused\" type=\"checkbox\" "
         "checked=\"checked\"/> " +
         refused + "</label> <span id=\"shown\"></span></p>\n";
}

TANDEM_ONCE std::string page_beginning(std::string const& title) {
  return page_head + page_words(title) + page_style + "<h1>" + page_words(title) + "</h1>\n";
}

TANDEM_ONCE std::string page_summary(SearchResult const& result) {
  Plan const* const best = recommended_plan(result);
  if (best == nullptr) {
    return "<p>Nothing fits: take a smaller batch, more devices or more memory.</p>\n";
  }
  std::string const crossover = crossover_text(result);
  std::string const found = duration(best->time.seconds()) + " on " +
                            std::to_string(best->devices()) + " devices, " +
                            digits(result.one_device / best->time.seconds(), 3) +
                            " times as fast as one" + (crossover.empty() ? "." : "; " + crossover);
  return "<p class=\"found\">" + page_words(found) + "</p>\n<pre>" +
         page_words(table_text(result, *best) + "using Strategy = " + strategy_type(*best) + ";") +
         "</pre>\n";
}

TANDEM_ONCE std::string page_section(std::string const& head, std::string const& what,
                                     std::string const& body) {
  return "<section><h2>" + page_words(head) + "</h2><p>" + page_words(what) + "</p>\n" + body +
         "</section>\n";
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string search_page(SearchResult const& result, PageExtras const& extras) {
  std::string const most = std::to_string(result.of.back().devices);
  std::vector<int> devices;
  for (SearchResult::Devices const& own : result.of) {
    devices.push_back(own.devices);
  }
  std::string text = detail::page_beginning(extras.title) + detail::page_summary(result);
  text += detail::page_section("Time to converge",
                               "The fastest strategy of each family; both axes are logarithmic. A "
                               "hollow point: its epochs are a guess, the batch is outside the "
                               "points.",
                               time_svg(result, strategy_families(result)));
  text += detail::page_section("Memory",
                               "What the fullest device holds by each family's fastest strategy "
                               "on " +
                                   most + " devices.",
                               memory_svg(result, extras.memory));
  if (!extras.step_svg.empty()) {
    Plan const* const best = recommended_plan(result);
    bool const two_steps = best != nullptr && best->worker.post_validated;
    text += detail::page_section(
        "A step of the recommended strategy",
        two_steps ? "Of one worker, and the next one behind it." : "Of one worker.",
        "<div class=\"wide\">" + extras.step_svg + "</div>\n");
  }
  text += detail::page_section(
      "All plans", "A click on a column's head sorts by it, a second one the other way round.",
      detail::table_choices(devices, "with those that cannot be") + "<div class=\"wide\">" +
          detail::page_table(result, extras.memory) + "</div>\n<pre>" +
          detail::page_words(sources_text(result.sources)) + "</pre>\n");
  return text + detail::page_end;
}

}  // namespace tandem

#endif
