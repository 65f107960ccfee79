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

#include <tandem/core/config.hpp>
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
TANDEM_ONCE std::vector<TimeTick> time_ticks(double low, double high);

/// A line of the picture: seconds against devices.
struct TimePoint {
  int devices = 1;
  double seconds = 1;
  std::string label{};  ///< what is seen where the mouse is
  bool guess = false;   ///< hollow
};
struct TimeLine {
  std::string name{};
  std::vector<TimePoint> points{};
};

inline std::string axis_line(double x1, double y1, double x2, double y2, char const* name) {
  return "<line class=\"" + std::string{name} + "\" x1=\"" + svg_pixels(x1) + "\" y1=\"" +
         svg_pixels(y1) + "\" x2=\"" + svg_pixels(x2) + "\" y2=\"" + svg_pixels(y2) + "\"/>\n";
}

}  // namespace detail

/// An SVG element for a page whose style has the classes grid, line, point, guess, key, crossover
/// and f0, f1, … A point is the fastest strategy of its family for so many devices, which
/// `data-devices` and `data-seconds` say, too; hollow where E is a guess.
/// @param families  of @p result
TANDEM_ONCE [[nodiscard]] std::string time_svg(SearchResult const& result,
                                               std::vector<StrategyFamily> const& families);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Where numbers of devices and times stand in the picture.
class TimeAxes {
 public:
  static constexpr double left = 78;
  static constexpr double right = 640;
  static constexpr double top = 30;
  static constexpr double bottom = 350;

  TimeAxes(std::vector<int> const& devices, std::vector<TimeLine> const& lines)
      : first_{std::log(devices.front())}, last_{std::log(devices.back())} {
    double low = std::numeric_limits<double>::infinity();
    double high = 0;
    for (TimeLine const& line : lines) {
      for (TimePoint const& point : line.points) {
        low = std::min(low, point.seconds);
        high = std::max(high, point.seconds);
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

TANDEM_ONCE std::vector<TimeTick> time_ticks(double low, double high) {
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

TANDEM_ONCE std::string time_frame(std::vector<int> const& devices, TimeAxes const& axes) {
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
  for (int const count : devices) {
    double const x = axes.x(count);
    text += axis_line(x, TimeAxes::bottom, x, TimeAxes::bottom + 5, "grid");
    text += page_label(x, TimeAxes::bottom + 19, " text-anchor=\"middle\"", std::to_string(count));
  }
  return text + page_label((TimeAxes::left + TimeAxes::right) / 2, TimeAxes::bottom + 40,
                           " text-anchor=\"middle\"", "devices");
}

/// @param at  which line it is
TANDEM_ONCE std::string family_line(TimeLine const& line, std::size_t at, TimeAxes const& axes) {
  std::string const colour = " f" + std::to_string(at);
  std::string points;
  std::string marks;
  for (TimePoint const& point : line.points) {
    std::string const x = svg_pixels(axes.x(point.devices));
    std::string const y = svg_pixels(axes.y(point.seconds));
    points += (points.empty() ? "" : " ") + x + "," + y;
    marks += "<circle class=\"point" + colour + (point.guess ? " guess" : "") + "\" cx=\"" + x +
             "\" cy=\"" + y + "\" r=\"4\"" +
             page_attribute("data-devices", std::to_string(point.devices)) +
             page_attribute("data-seconds", digits(point.seconds, 9)) + "><title>" +
             page_words(std::to_string(point.devices) + " devices: " + duration(point.seconds) +
                        ", " + point.label) +
             "</title></circle>\n";
  }
  double const y = TimeAxes::top + 10 + 22 * static_cast<double>(at);
  return "<g" + page_attribute("data-family", line.name) + ">\n<polyline class=\"line" + colour +
         "\" points=\"" + points + "\"/>\n" + marks + "<rect class=\"key" + colour + "\" x=\"" +
         svg_pixels(TimeAxes::right + 22) + "\" y=\"" + svg_pixels(y - 9) +
         "\" width=\"12\" height=\"12\" rx=\"2\"/>\n" +
         page_label(TimeAxes::right + 42, y + 2, "", line.name) + "</g>\n";
}

/// Lines over @p devices, ascending; from @p crossover devices on, if it is not 0, a mark that
/// @p says what begins there.
TANDEM_ONCE std::string lines_svg(std::vector<int> const& devices,
                                  std::vector<TimeLine> const& lines, int crossover,
                                  std::string const& says, std::string const& what) {
  TimeAxes const axes{devices, lines};
  std::string text =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"time\" viewBox=\"0 0 860 400\" role=\"img\"" +
      page_attribute("aria-label", what) + ">\n" + time_frame(devices, axes);
  if (crossover > 0) {
    double const x = axes.x(crossover);
    text += "<g class=\"crossover\"" + page_attribute("data-devices", std::to_string(crossover)) +
            ">\n" + axis_line(x, TimeAxes::top - 6, x, TimeAxes::bottom, "cross") +
            page_label(x, TimeAxes::top - 12,
                       x > 0.6 * TimeAxes::right   ? " text-anchor=\"end\""
                       : x < 0.3 * TimeAxes::right ? ""
                                                   : " text-anchor=\"middle\"",
                       says) +
            "</g>\n";
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += family_line(lines[i], i, axes);
  }
  return text + "</svg>\n";
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string time_svg(SearchResult const& result,
                                 std::vector<StrategyFamily> const& families) {
  std::vector<int> devices;
  for (SearchResult::Devices const& own : result.of) {
    devices.push_back(own.devices);
  }
  std::vector<detail::TimeLine> lines;
  for (StrategyFamily const& family : families) {
    lines.push_back({.name = std::string{family.name}});
    for (StrategyFamily::Best const& best : family.best) {
      lines.back().points.push_back({.devices = best.devices,
                                     .seconds = best.plan->time.seconds(),
                                     .label = strategy_label(*best.plan),
                                     .guess = detail::marks_epochs(result, *best.plan)});
    }
  }
  int const from = detail::hybrid_wins_from(result);
  return detail::lines_svg(devices, lines, from,
                           "a hybrid wins from " + std::to_string(from) + " devices on",
                           "time to converge against devices");
}

}  // namespace tandem

#endif
