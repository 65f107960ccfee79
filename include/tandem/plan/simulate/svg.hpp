// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// simulated_svg: a simulated step as a picture, time from left to right and a row a device.
///
/// Under the passes of a device stand the messages that it sends, forward and backward, the sums of
/// its gradients, and the curve of its activations. Drawn like schedule/picture/schedule_svg.hpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/simulate/step.hpp>
#include <tandem/plan/simulate/trace.hpp>
#include <tandem/schedule/picture/schedule_svg.hpp>

namespace tandem {

/// An SVG picture of @p step.
/// @param name  its title
TANDEM_ONCE [[nodiscard]] std::string simulated_svg(SimulatedStep const& step,
                                                    std::string const& name);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Makes the parts of a picture; times become ticks of a unit that suits the step.
class StepDrawing {
 public:
  explicit StepDrawing(SimulatedStep const& step) : step_{step} {
    for (Unit const& unit : {Unit{1e-3, "ms"}, Unit{1e-6, "µs"}, Unit{1e-9, "ns"}}) {
      unit_ = unit;
      if (step.makespan >= 20'000 * unit.seconds) {
        break;
      }
    }
    TimelineRows timeline;
    timeline.makespan = ticks(step.makespan);
    for (SimulatedDevice const& device : step.device) {
      rows_.emplace_back();
      timeline.action.emplace_back();
      for (auto const& [action, span] : device.action) {
        rows_.back().push_back(action);
        timeline.action.back().push_back({ticks(span.begin), ticks(span.end)});
      }
      most_bytes_ = std::max(most_bytes_, device.peak_bytes);
    }
    scale_ = svg_scale(rows_, timeline);
  }

  [[nodiscard]] std::string caption() const {
    return "makespan " + digits(step_.makespan * 1e3, 5) + " ms, idle " +
           digits(100 * step_.idle(), 3) + " %; times in " + unit_.name +
           "; under each row what it sends, sums of gradients, activations (most: " +
           size_text(most_bytes_) + ")";
  }

  [[nodiscard]] Ticks width() const { return scale_.at(ticks(step_.makespan)) / 10 + 1; }
  [[nodiscard]] Ticks bottom() const {
    return svg_top + row_height * static_cast<Ticks>(step_.device.size());
  }

  [[nodiscard]] std::string frame() const {
    return svg_axis(ticks(step_.makespan), scale_, bottom()) + svg_legend(rows_, has_lighter());
  }

  [[nodiscard]] std::string row(int d) const {
    SimulatedDevice const& device = step_.device[static_cast<std::size_t>(d)];
    Ticks const top = svg_top + row_height * d;
    char const* const right = " text-anchor=\"end\"";
    std::string text =
        svg_text(10 * (svg_left - 8), top + 15, right, "device " + std::to_string(d));
    if (device.peak_bytes > 0) {
      text += svg_text(10 * (svg_left - 8), top + 50, right, size_text(device.peak_bytes));
      text += curve(device, top);
    }
    int const first_stage = lowest_stage(row_of(rows_, d));
    for (SimulatedAction const& one : device.action) {
      if (is_compute(one.action.kind)) {
        text += bar(one, top, step_.stage_name.empty() && one.action.stage > first_stage);
      }
    }
    for (SimulatedAction const& one : device.reduction) {
      text += line(one, top + 32, svg_colour(ActionKind::exchange));
    }
    return text;
  }

  /// Of all devices.
  [[nodiscard]] std::string messages() const {
    std::string text;
    for (SimulatedMessage const& message : step_.message) {
      bool const forward = message.action.kind == ActionKind::send_forward;
      text += line({message.action, message.span},
                   svg_top + row_height * message.from + (forward ? 24 : 28),
                   forward ? "#2f6fb5" : "#c0702a");
    }
    return text;
  }

 private:
  struct Unit {
    double seconds;
    char const* name;
  };

  static constexpr Ticks row_height = 60;  // bar 22, three lines of 3, curve 18
  static constexpr Ticks curve_base = 54;
  static constexpr Ticks curve_height = 18;

  static std::string size_text(double bytes) {
    return bytes < 1e9 ? digits(bytes / 1e6, 3) + " MB" : digits(bytes / 1e9, 3) + " GB";
  }

  [[nodiscard]] Ticks ticks(double seconds) const {
    return static_cast<Ticks>(std::llround(seconds / unit_.seconds));
  }
  [[nodiscard]] Ticks x(double seconds) const {  // in tenths
    return 10 * svg_left + scale_.at(ticks(seconds));
  }

  [[nodiscard]] bool has_lighter() const {
    for (std::size_t d = 0; d < rows_.size() && step_.stage_name.empty(); ++d) {
      int const first = lowest_stage(row_of(rows_, static_cast<int>(d)));
      for (Action const& action : rows_[d]) {
        if (action.stage > first) {
          return true;
        }
      }
    }
    return false;
  }

  [[nodiscard]] std::string title(SimulatedAction const& one) const {
    return "<title>" + svg_escaped(simulated_name(step_, one.action)) + ", from " +
           std::to_string(ticks(one.span.begin)) + " to " + std::to_string(ticks(one.span.end)) +
           "</title></rect>\n";
  }

  /// With its microbatch, or the node of a placement, where that fits.
  [[nodiscard]] std::string bar(SimulatedAction const& one, Ticks top, bool lighter) const {
    Ticks const left = x(one.span.begin);
    Ticks const wide = x(one.span.end) - left;
    Ticks const gap = wide > 40 ? 10 : 0;
    std::string text = svg_rectangle(left, top, wide - gap, svg_bar_height, "fill=\"");
    text += svg_colour(one.action.kind);
    text += (lighter ? "\" fill-opacity=\"0.5\">" : "\">") + title(one);
    std::string const number =
        std::to_string(step_.stage_name.empty() ? one.action.index : one.action.stage);
    if (10 * svg_digit * static_cast<Ticks>(number.size()) <= wide) {
      text += svg_text(left + (wide - gap) / 2, top + 15, " text-anchor=\"middle\"", number);
    }
    return text;
  }

  [[nodiscard]] std::string line(SimulatedAction const& one, Ticks y, char const* colour) const {
    Ticks const left = x(one.span.begin);
    return svg_rectangle(left, y, std::max<Ticks>(x(one.span.end) - left, 5), 3, "fill=\"") +
           colour + "\">" + title(one);
  }

  [[nodiscard]] std::string curve(SimulatedDevice const& device, Ticks top) const {
    Ticks const base = 10 * (top + curve_base);
    std::string text = "<path d=\"M" + tenths(x(0)) + " " + tenths(base);
    for (MemoryPoint const& point : device.memory) {
      auto const height =
          std::llround(10 * static_cast<double>(curve_height) * point.bytes / most_bytes_);
      text += "H" + tenths(x(point.time)) + "V" + tenths(base - height);
    }
    return text + "V" + tenths(base) + "Z\" fill=\"#c9ced6\"/>\n";
  }

  SimulatedStep const& step_;
  Unit unit_{};
  ActionRows rows_{};
  SvgScale scale_{};
  double most_bytes_ = 0;
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string simulated_svg(SimulatedStep const& step, std::string const& name) {
  detail::StepDrawing const drawing{step};
  std::string const caption = drawing.caption();
  std::size_t const words = 8 * std::max(caption.size(), name.size() + name.size() / 4);
  std::string const width =
      std::to_string(detail::svg_left + std::max(drawing.width(), static_cast<Ticks>(words)) + 24);
  std::string const height = std::to_string(drawing.bottom() + 28);
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" +
                     height + "\" viewBox=\"0 0 " + width + " " + height +
                     "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#111111\">\n";
  text += "<rect width=\"" + width + "\" height=\"" + height + "\" fill=\"#ffffff\"/>\n";
  text += detail::svg_text(10 * detail::svg_left, 22, " font-size=\"16\" font-weight=\"bold\"",
                           detail::svg_escaped(name));
  text += detail::svg_text(10 * detail::svg_left, 41, "", caption) + drawing.frame();
  for (int d = 0; d < static_cast<int>(step.device.size()); ++d) {
    text += drawing.row(d);
  }
  return text + drawing.messages() + "</svg>\n";
}

}  // namespace tandem

#endif
