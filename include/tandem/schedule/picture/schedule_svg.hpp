// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// schedule_svg: a timeline as a picture, time from left to right and a row a rank.
///
/// A bar is a pass and bears its microbatch where that fits, a narrow one an update or an exchange;
/// it tells its action and times when pointed at. The picture names no font file and paints its own
/// background.

#include <algorithm>
#include <limits>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/time/timeline.hpp>
#include <tandem/schedule/time/timeline_text.hpp>

namespace tandem {

namespace detail {

inline constexpr int svg_left = 66;  // of the first bar
inline constexpr int svg_top = 82;   // of the first row
inline constexpr int svg_row = 28;   // from row to row
inline constexpr int svg_bar_height = 22;
inline constexpr int svg_digit = 8;  // width of a digit, rounded up

// Light, so that black numbers stand out; what bears none is dark.
constexpr char const* svg_colour(ActionKind kind) {
  return kind == ActionKind::update           ? "#b5483f"
         : kind == ActionKind::exchange       ? "#6f55a8"
         : kind == ActionKind::forward        ? "#8db8ea"
         : kind == ActionKind::backward       ? "#f0a868"
         : kind == ActionKind::input_gradient ? "#f6cf65"
                                              : "#9fcf9a";
}

inline std::string svg_rectangle(Ticks x, Ticks y, Ticks width, Ticks height, char const* rest) {
  return "<rect x=\"" + tenths(x) + "\" y=\"" + std::to_string(y) + "\" width=\"" + tenths(width) +
         "\" height=\"" + std::to_string(height) + "\" " + rest;
}

inline std::string svg_text(Ticks x, Ticks y, char const* rest, std::string const& text) {
  return "<text x=\"" + tenths(x) + "\" y=\"" + std::to_string(y) + "\"" + rest + ">" + text +
         "</text>\n";
}

TANDEM_ONCE std::string svg_escaped(std::string const& text);

// Widths are in tenths; this is how many of them a tick has, as a fraction. No time is so long that
// its product with `tenths` is not a number of 64 bits: long ones lose bits that no picture shows.
struct SvgScale {
  Ticks tenths = 1;
  Ticks ticks = 1;
  int shift = 0;

  constexpr SvgScale() = default;
  constexpr SvgScale(Ticks tenths_of, Ticks ticks_of, Ticks makespan) : tenths{tenths_of} {
    while (makespan >> shift > std::numeric_limits<Ticks>::max() / 1'000'000) {
      ++shift;
    }
    ticks = std::max<Ticks>(1, ticks_of >> shift);
  }

  [[nodiscard]] constexpr Ticks at(Ticks time) const { return (time >> shift) * tenths / ticks; }
};

// The shortest pass is 18 wide, up to 30 where all then fits 1200; the whole at most 8000.
template <class Table, class Result>
SvgScale svg_scale(Table const& table, Result const& timeline) {
  Ticks shortest = timeline.makespan > 0 ? timeline.makespan : 1;
  for (int d = 0; d < devices_of(table); ++d) {
    ActionSpan const row = row_of(table, d);
    for (int i = 0; i < row.size; ++i) {
      Interval const time = timeline.action[d][i];
      Ticks const length = time.end - time.begin;
      shortest = is_compute(row[i].kind) && length > 0 && length < shortest ? length : shortest;
    }
  }
  Ticks const whole = timeline.makespan > 0 ? timeline.makespan : 1;
  Ticks const units = whole / shortest + 1;
  Ticks tenths = 12'000 / units;
  tenths = tenths < 180 ? 180 : tenths > 300 ? 300 : tenths;
  return units <= 80'000 / tenths ? SvgScale{tenths, shortest, whole}
                                  : SvgScale{80'000, whole / shortest * shortest + shortest, whole};
}

// Bars of the other stages of a row are lighter.
inline int lowest_stage(ActionSpan row) {
  int lowest = row.size > 0 ? row[0].stage : 0;
  for (Action const& action : row) {
    lowest = action.stage < lowest ? action.stage : lowest;
  }
  return lowest;
}

TANDEM_ONCE std::string svg_bar(Action const& action, Interval const& time, SvgScale const& scale,
                                Ticks y, bool lighter);

constexpr bool is_update(ActionKind kind) {
  return kind == ActionKind::update || kind == ActionKind::exchange;
}

// Updates take no time; they are seen all the same, as lines at the end of what is before them.
inline std::string svg_line(Action const& action, Interval const& time, SvgScale const& scale,
                            Ticks y, int behind_each_other) {
  Ticks const width = std::max<Ticks>(scale.at(time.end) - scale.at(time.begin), 30);
  Ticks const left = 10 * svg_left + scale.at(time.begin) - 20 - Ticks{40} * behind_each_other;
  std::string text = svg_rectangle(left, y, width, svg_bar_height, "fill=\"");
  return text + svg_colour(action.kind) + "\"><title>" + to_string(action) + ", at " +
         std::to_string(time.begin) + "</title></rect>\n";
}

// Which colour is which of the kinds that there are.
template <class Table>
std::string svg_legend(Table const& table, bool lighter) {
  constexpr ActionKind kinds[] = {ActionKind::forward,        ActionKind::backward,
                                  ActionKind::input_gradient, ActionKind::weight_gradient,
                                  ActionKind::update,         ActionKind::exchange};
  char const* const meaning[] = {"forward",         "backward", "input gradient",
                                 "weight gradient", "update",   "average"};
  std::string text;
  Ticks x = 10 * svg_left;
  for (int k = 0; k < 6; ++k) {
    ActionKind const kind = kinds[k];
    bool there = false;
    for (int d = 0; d < devices_of(table); ++d) {
      for (Action const& action : row_of(table, d)) {
        there = there || action.kind == kind;
      }
    }
    if (there) {
      text += svg_rectangle(x, 50, 140, 14, "fill=\"") + svg_colour(kind) + "\"/>\n";
      text += svg_text(x + 200, 61, "", std::string{name_of(kind).text} + " " + meaning[k]);
      x += 1400;
    }
  }
  return text + (lighter ? svg_text(x, 61, "", "lighter: another stage of the rank") : "");
}

TANDEM_ONCE std::string svg_axis(Ticks makespan, SvgScale const& scale, Ticks bottom);

}  // namespace detail

/// An SVG picture of what @p table does in @p timeline, which simulate() made of it.
/// @param name  of the schedule, for the title
/// @throws ContractError  the makespan is more than 2^60 ticks
template <class Table, class Result>
std::string schedule_svg(Table const& table, Result const& timeline, std::string const& name) {
  using detail::svg_left;
  expects(
      timeline.makespan <= Ticks{1} << 60,
      "schedule_svg(table, timeline, name): the makespan is more than 2^60 ticks; give costs in "
      "a larger unit");
  detail::SvgScale const scale = detail::svg_scale(table, timeline);
  int const ranks = devices_of(table);
  Ticks const bottom = detail::svg_top + Ticks{ranks} * detail::svg_row;
  std::string const caption = bubble_text(timeline, ranks);
  Ticks const bars = scale.at(timeline.makespan) / 10 + 1;
  Ticks const words =
      8 * static_cast<Ticks>(std::max(caption.size(), name.size() + name.size() / 4));
  std::string const width = std::to_string(svg_left + (bars > words ? bars : words) + 24);
  std::string const height = std::to_string(bottom + 28);

  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" +
                     height + "\" viewBox=\"0 0 " + width + " " + height +
                     "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#111111\">\n";
  text += "<rect width=\"" + width + "\" height=\"" + height + "\" fill=\"#ffffff\"/>\n";
  text += detail::svg_text(10 * svg_left, 22, " font-size=\"16\" font-weight=\"bold\"",
                           detail::svg_escaped(name));
  text += detail::svg_text(10 * svg_left, 41, "", caption);
  text += detail::svg_axis(timeline.makespan, scale, bottom);
  bool lighter = false;
  for (int d = 0; d < ranks; ++d) {
    Ticks const y = detail::svg_top + Ticks{d} * detail::svg_row;
    ActionSpan const row = row_of(table, d);
    text += detail::svg_text(10 * (svg_left - 8), y + 15, " text-anchor=\"end\"",
                             "rank " + std::to_string(d));
    int const first_stage = detail::lowest_stage(row);
    int lines = 0;
    for (int i = 0; i < row.size; ++i) {
      if (detail::is_update(row[i].kind)) {
        text += detail::svg_line(row[i], timeline.action[d][i], scale, y, lines++);
      } else if (is_compute(row[i].kind)) {
        lines = 0;
        bool const further = row[i].stage > first_stage;
        text += detail::svg_bar(row[i], timeline.action[d][i], scale, y, further);
        lighter = lighter || further;
      }
    }
  }
  return text + detail::svg_legend(table, lighter) + "</svg>\n";
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string svg_escaped(std::string const& text) {
  std::string escaped;
  for (char const c : valid_utf8(text)) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (static_cast<unsigned char>(c) >= ' ') {  // control characters are no XML
      escaped += c;
    }
  }
  return escaped;
}

// Times on the axis are multiples of 1, 2 or 5 times a power of ten, 60 or more apart.
TANDEM_ONCE Ticks svg_axis_step(SvgScale const& scale) {
  for (Ticks step = 1;; step *= 10) {
    for (Ticks const factor : {1, 2, 5}) {
      if (scale.at(step * factor) >= 600) {
        return step * factor;
      }
    }
  }
}

TANDEM_ONCE std::string svg_bar(Action const& action, Interval const& time, SvgScale const& scale,
                                Ticks y, bool lighter) {
  Ticks const left = 10 * svg_left + scale.at(time.begin);
  Ticks const width = 10 * svg_left + scale.at(time.end) - left;
  std::string const number = std::to_string(action.index);
  Ticks const gap = width > 40 ? 10 : 0;
  std::string text = svg_rectangle(left, y, width - gap, svg_bar_height, "fill=\"");
  text += svg_colour(action.kind);
  text += lighter ? "\" fill-opacity=\"0.5\">" : "\">";
  text += "<title>" + to_string(action) + ", from " + std::to_string(time.begin) + " to " +
          std::to_string(time.end) + "</title></rect>\n";
  if (10 * svg_digit * static_cast<Ticks>(number.size()) <= width) {
    text += svg_text(left + (width - gap) / 2, y + 15, " text-anchor=\"middle\"", number);
  }
  return text;
}

TANDEM_ONCE std::string svg_axis(Ticks makespan, SvgScale const& scale, Ticks bottom) {
  std::string text;
  Ticks const step = svg_axis_step(scale);
  for (Ticks time = 0; time <= makespan; time += step) {
    Ticks const x = 10 * svg_left + scale.at(time);
    text += svg_rectangle(x, svg_top - 4, 5, bottom - svg_top + 6, "fill=\"#cccccc\"/>\n");
    text += svg_text(x, bottom + 16, " text-anchor=\"middle\"", std::to_string(time));
  }
  return text;
}

}  // namespace tandem::detail

#endif
