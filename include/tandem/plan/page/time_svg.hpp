// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// time_svg: the time to converge against the number of devices, a line for each family of
/// strategies, both axes logarithmic; and from where on a hybrid wins.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <tandem/io/report_text.hpp>
#include <tandem/plan/page/families.hpp>
#include <tandem/plan/page/text.hpp>
#include <tandem/plan/search/report.hpp>

namespace tandem {

namespace detail {

/// A time on an axis: a number and a unit.
struct TimeTick {
  double seconds = 1;
  std::string text{};
};

/// Times that people count in, from @p low to @p high.
template <class = void>  // compiled where it is called, not by every include
std::vector<TimeTick> time_ticks(double low, double high) {
  struct Unit {
    double seconds;
    char const* name;
    std::vector<double> counts;  // up to the next unit
  };
  std::vector<Unit> units;
  for (int power = -9; power < 0; ++power) {
    units.push_back({std::pow(10, power), "", {1, 2, 5}});
  }
  units.insert(
      units.end(),
      {{1, " s", {1, 2, 5, 10, 30}}, {60, " min", {1, 2, 5, 10, 30}}, {3600, " h", {1, 2, 5, 12}}});
  for (int power = 0; power < 9; ++power) {
    units.push_back({86'400 * std::pow(10, power), " d", {1, 2, 5}});
  }
  std::vector<TimeTick> ticks;
  for (Unit const& unit : units) {
    for (double const count : unit.counts) {
      double const seconds = count * unit.seconds;
      if (seconds >= low && seconds <= high) {
        double const days = seconds / 86'400;
        ticks.push_back({seconds, unit.name[0] == '\0' ? digits(seconds, 3) + " s"
                                  : unit.seconds < 86'400
                                      ? digits(count, 3) + unit.name
                                      : digits(days, 3) + (days > 1.5 ? " days" : " day")});
      }
    }
  }
  return ticks;
}

/// Where numbers of devices and times stand in the picture.
class TimeAxes {
 public:
  static constexpr double left = 78;
  static constexpr double right = 640;
  static constexpr double top = 30;
  static constexpr double bottom = 350;

  template <class Families>
  TimeAxes(SearchResult const& result, Families const& families)
      : first_{std::log(result.of.front().devices)}, last_{std::log(result.of.back().devices)} {
    double low = std::numeric_limits<double>::infinity();
    double high = 0;
    for (StrategyFamily const& family : families) {
      for (StrategyFamily::Best const& best : family.best) {
        low = std::min(low, best.plan->time.seconds());
        high = std::max(high, best.plan->time.seconds());
      }
    }
    low_ = high > 0 ? low / 1.15 : 1;
    high_ = high > 0 ? high * 1.15 : 10;
  }

  [[nodiscard]] double x(int devices) const {
    double const share = last_ > first_ ? (std::log(devices) - first_) / (last_ - first_) : 0.5;
    return left + 20 + share * (right - left - 40);
  }
  [[nodiscard]] double y(double seconds) const {
    return bottom - std::log(seconds / low_) / std::log(high_ / low_) * (bottom - top);
  }
  [[nodiscard]] std::vector<TimeTick> ticks() const { return time_ticks(low_, high_); }

 private:
  double first_;
  double last_;
  double low_ = 1;
  double high_ = 1;
};

inline std::string axis_line(double x1, double y1, double x2, double y2, char const* name) {
  return "<line class=\"" + std::string{name} + "\" x1=\"" + svg_pixels(x1) + "\" y1=\"" +
         svg_pixels(y1) + "\" x2=\"" + svg_pixels(x2) + "\" y2=\"" + svg_pixels(y2) + "\"/>\n";
}

template <class = void>
std::string time_frame(SearchResult const& result, TimeAxes const& axes) {
  std::string text;
  double above = TimeAxes::bottom + 40;
  for (TimeTick const& tick : axes.ticks()) {
    double const y = axes.y(tick.seconds);
    text += axis_line(TimeAxes::left, y, TimeAxes::right, y, "grid");
    if (above - y >= 13) {  // else it would lie on the one below
      text += page_label(TimeAxes::left - 8, y + 4, " text-anchor=\"end\"", tick.text);
      above = y;
    }
  }
  for (SearchResult::Devices const& own : result.of) {
    double const x = axes.x(own.devices);
    text += axis_line(x, TimeAxes::bottom, x, TimeAxes::bottom + 5, "grid");
    text += page_label(x, TimeAxes::bottom + 19, " text-anchor=\"middle\"",
                       std::to_string(own.devices));
  }
  return text + page_label((TimeAxes::left + TimeAxes::right) / 2, TimeAxes::bottom + 40,
                           " text-anchor=\"middle\"", "devices");
}

template <class = void>
std::string family_line(SearchResult const& result, StrategyFamily const& family, std::size_t at,
                        TimeAxes const& axes) {
  std::string const colour = " f" + std::to_string(at);
  std::string points;
  std::string marks;
  for (StrategyFamily::Best const& best : family.best) {
    double const seconds = best.plan->time.seconds();
    std::string const x = svg_pixels(axes.x(best.devices));
    std::string const y = svg_pixels(axes.y(seconds));
    points += (points.empty() ? "" : " ") + x + "," + y;
    marks += "<circle class=\"point" + colour + (marks_epochs(result, *best.plan) ? " guess" : "") +
             "\" cx=\"" + x + "\" cy=\"" + y + "\" r=\"4\"" +
             page_attribute("data-devices", std::to_string(best.devices)) +
             page_attribute("data-seconds", digits(seconds, 9)) + "><title>" +
             page_words(std::to_string(best.devices) + " devices: " + duration(seconds) + ", " +
                        strategy_label(*best.plan)) +
             "</title></circle>\n";
  }
  double const y = TimeAxes::top + 10 + 22 * static_cast<double>(at);
  return "<g" + page_attribute("data-family", family.name) + ">\n<polyline class=\"line" + colour +
         "\" points=\"" + points + "\"/>\n" + marks + "<rect class=\"key" + colour + "\" x=\"" +
         svg_pixels(TimeAxes::right + 22) + "\" y=\"" + svg_pixels(y - 9) +
         "\" width=\"12\" height=\"12\" rx=\"2\"/>\n" +
         page_label(TimeAxes::right + 42, y + 2, "", family.name) + "</g>\n";
}

}  // namespace detail

/// An SVG element for a page whose style has the classes grid, line, point, guess, key, crossover
/// and f0, f1, … A point is the fastest strategy of its family for so many devices, which
/// `data-devices` and `data-seconds` say, too; hollow where E is a guess.
/// @param families  of @p result
template <class = void>
[[nodiscard]] std::string time_svg(SearchResult const& result,
                                   std::vector<StrategyFamily> const& families) {
  detail::TimeAxes const axes{result, families};
  std::string text =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"time\" viewBox=\"0 0 860 400\" role=\"img\" "
      "aria-label=\"time to converge against devices\">\n" +
      detail::time_frame(result, axes);
  if (int const from = detail::hybrid_wins_from(result); from > 0) {
    double const x = axes.x(from);
    text += "<g class=\"crossover\"" +
            detail::page_attribute("data-devices", std::to_string(from)) + ">\n" +
            detail::axis_line(x, detail::TimeAxes::top - 6, x, detail::TimeAxes::bottom, "cross") +
            detail::page_label(x, detail::TimeAxes::top - 12,
                               x > 0.6 * detail::TimeAxes::right   ? " text-anchor=\"end\""
                               : x < 0.3 * detail::TimeAxes::right ? ""
                                                                   : " text-anchor=\"middle\"",
                               "a hybrid wins from " + std::to_string(from) + " devices on") +
            "</g>\n";
  }
  for (std::size_t i = 0; i < families.size(); ++i) {
    text += detail::family_line(result, families[i], i, axes);
  }
  return text + "</svg>\n";
}

}  // namespace tandem
