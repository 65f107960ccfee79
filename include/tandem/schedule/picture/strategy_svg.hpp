// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// strategy_svg: a strategy as a picture. A row a rank: on the left the parts of the model that it
/// holds, on the right what it does in a step, time from left to right.
///
/// Where two models are trained, "x0" is part 0 of one and "y0" of the other, whose passes are
/// lighter. A thin bar below a row is done beside the passes. Everything tells its action and times
/// when pointed at.

#include <algorithm>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/schedule/picture/schedule_svg.hpp>
#include <tandem/schedule/picture/step_picture.hpp>

namespace tandem {

/// An SVG picture of @p picture.
/// @param title     the strategy's name
/// @param sentence  what there is to see, below the title
TANDEM_ONCE std::string strategy_svg(StepPicture const& picture, std::string const& title,
                                     std::string const& sentence);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Distances of a picture, in pixels.
struct PictureLayout {
  static constexpr Ticks left = 66;
  static constexpr Ticks top = 76;
  static constexpr Ticks row = 34;
  static constexpr Ticks bar_height = 24;
  static constexpr Ticks tick = 13;
  static constexpr Ticks stack = 3;  // between two versions of a part
  Ticks part_width = 0;
  Ticks bars_left = 0;
  Ticks end = 0;  // of the last bar

  explicit PictureLayout(StepPicture const& picture)
      : part_width{picture.copies > 1  ? 28
                   : picture.parts > 1 ? 50
                                       : 40} {
    Ticks held = 0;
    for (RankPicture const& rank : picture.rank) {
      Ticks width = 0;
      for (HeldPart const& part : rank.holds) {
        width += part_width + stack * part.versions;
      }
      held = std::max(held, width);
      for (PictureBar const& bar : rank.bars) {
        end = std::max(end, bar.time.end);
      }
    }
    bars_left = left + held + 24;
    end = bars_left + end * tick;
  }
};

constexpr char const* picture_colour(ActionKind kind) {
  return kind == ActionKind::update            ? "#8a8a8a"
         : kind == ActionKind::exchange        ? "#b08ad0"
         : kind == ActionKind::reduce_gradient ? "#de8fa8"
                                               : svg_colour(kind);
}

constexpr char const* part_colour(int part) {
  constexpr char const* colours[] = {"#e3e3f2", "#d3e8de", "#f1e4cd", "#ecd8e8",
                                     "#d9e8f4", "#e9e9cc", "#f2dad3", "#dddddd"};
  return colours[part % 8];
}

/// "part 2"; "x2" and "y2" where there are two models; "all" where nothing is cut.
inline std::string part_name(StepPicture const& picture, int part, int copy) {
  return picture.copies > 1  ? (copy == 0 ? "x" : "y") + std::to_string(part)
         : picture.parts > 1 ? "part " + std::to_string(part)
                             : "all";
}

inline bool has_action(StepPicture const& picture, ActionKind kind) {
  return std::any_of(picture.rank.begin(), picture.rank.end(), [&](RankPicture const& rank) {
    return std::any_of(rank.bars.begin(), rank.bars.end(),
                       [&](PictureBar const& bar) { return bar.action.kind == kind; });
  });
}

TANDEM_ONCE std::string holdings_svg(StepPicture const& picture, RankPicture const& rank,
                                     PictureLayout const& layout, Ticks y) {
  std::string text;
  Ticks x = layout.left;
  for (HeldPart const& held : rank.holds) {
    std::string const colour = part_colour(held.part);
    std::string const rest = "rx=\"3\" fill=\"" + colour + "\" stroke=\"#777777\"/>\n";
    Ticks const width = layout.part_width - 4;
    for (int version = held.versions - 1; version >= 0; --version) {  // the one in front last
      text += svg_rectangle(10 * (x + layout.stack * version), y + 2 - version, 10 * width,
                            layout.bar_height - 4, rest.c_str());
    }
    text += svg_text(10 * x + 5 * width, y + 16, " text-anchor=\"middle\"",
                     part_name(picture, held.part, held.copy));
    x += layout.part_width + layout.stack * held.versions;
  }
  return text;
}

/// Its lower line is the version of the weights that the pass reads.
TANDEM_ONCE std::string picture_bar_svg(StepPicture const& picture, PictureBar const& bar,
                                        PictureLayout const& layout, Ticks y, bool lighter) {
  Ticks const x = 10 * (layout.bars_left + bar.time.begin * layout.tick);
  Ticks const width = 10 * (bar.time.end - bar.time.begin) * layout.tick - 10;
  bool const pass = is_compute(bar.action.kind);
  std::string rest = "fill=\"" + std::string{picture_colour(bar.action.kind)} +
                     (lighter && pass ? "\" fill-opacity=\"0.5\">" : "\">");
  rest += "<title>" + to_string(bar.action) + ", from " + std::to_string(bar.time.begin) + " to " +
          std::to_string(bar.time.end) + "</title></rect>\n";
  if (bar.beside) {
    return svg_rectangle(x, y + layout.bar_height + 1, width, 5, rest.c_str());
  }
  std::string text = svg_rectangle(x, y, width, layout.bar_height, rest.c_str());
  bool const versions = picture.asynchronous && pass;
  if (pass) {
    text += svg_text(x + width / 2, y + (versions ? 12 : 16), " text-anchor=\"middle\"",
                     std::to_string(bar.action.index));
  }
  if (versions) {
    text += svg_text(x + width / 2, y + 21, " text-anchor=\"middle\" font-size=\"8\"",
                     "w" + std::to_string(bar.action.version));
  }
  return text;
}

/// What the colours of this picture mean; @p width becomes at least its own.
TANDEM_ONCE std::string picture_legend(StepPicture const& picture, bool lighter, Ticks y,
                                       Ticks& width) {
  struct Meaning {
    ActionKind kind;
    char const* text;
  };
  constexpr Meaning meanings[] = {{ActionKind::forward, "forward"},
                                  {ActionKind::backward, "backward"},
                                  {ActionKind::input_gradient, "input gradient"},
                                  {ActionKind::weight_gradient, "weight gradient"},
                                  {ActionKind::reduce_gradient, "sum of gradients"},
                                  {ActionKind::update, "update"},
                                  {ActionKind::exchange, "exchange of weights"}};
  std::string text;
  Ticks x = PictureLayout::left;
  for (Meaning const& meaning : meanings) {
    if (has_action(picture, meaning.kind)) {
      std::string const rest = "fill=\"" + std::string{picture_colour(meaning.kind)} + "\"/>\n";
      text += svg_rectangle(10 * x, y, 120, 12, rest.c_str());
      text += svg_text(10 * x + 170, y + 10, "", meaning.text);
      x += 36 + 7 * static_cast<Ticks>(std::string{meaning.text}.size());
    }
  }
  std::string more;
  if (lighter) {
    more = picture.copies > 1 ? "lighter: the model y" : "lighter: another part of the device";
  } else if (picture.asynchronous) {
    more = "w1: weights that have had one update";
  }
  text += svg_text(10 * x, y + 10, "", more);
  width = std::max(width, x + 7 * static_cast<Ticks>(more.size()));
  return text;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string strategy_svg(StepPicture const& picture, std::string const& title,
                                     std::string const& sentence) {
  using Layout = detail::PictureLayout;
  Layout const layout{picture};
  std::string rows;
  bool lighter = false;
  Ticks y = Layout::top;
  for (std::size_t r = 0; r < picture.rank.size(); ++r) {
    RankPicture const& rank = picture.rank[r];
    int lowest = picture.parts * picture.copies;
    for (HeldPart const& held : rank.holds) {
      lowest = std::min(lowest, held.copy * picture.parts + held.part);
    }
    rows += detail::svg_text(10 * (Layout::left - 8), y + 16, " text-anchor=\"end\"",
                             "rank " + std::to_string(r));
    rows += detail::holdings_svg(picture, rank, layout, y);
    for (PictureBar const& bar : rank.bars) {
      bool const other =
          picture.copies > 1 ? bar.action.stage >= picture.parts : bar.action.stage > lowest;
      rows += detail::picture_bar_svg(picture, bar, layout, y, other);
      lighter = lighter || other;
    }
    y += Layout::row;
  }
  Ticks width = std::max({layout.end, Layout::left + 7 * static_cast<Ticks>(sentence.size()),
                          Layout::left + 10 * static_cast<Ticks>(title.size())});
  rows += detail::picture_legend(picture, lighter, y + 8, width);
  std::string const right = std::to_string(width + 20);
  std::string const bottom = std::to_string(y + 32);
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + right + "\" height=\"" +
                     bottom + "\" viewBox=\"0 0 " + right + " " + bottom +
                     "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#111111\">\n";
  text += "<rect width=\"" + right + "\" height=\"" + bottom + "\" fill=\"#ffffff\"/>\n";
  text += detail::svg_text(10 * Layout::left, 22, " font-size=\"16\" font-weight=\"bold\"",
                           detail::svg_escaped(title));
  text += detail::svg_text(10 * Layout::left, 41, "", detail::svg_escaped(sentence));
  char const* const heading = " font-size=\"11\" fill=\"#666666\"";
  text += detail::svg_text(10 * Layout::left, Layout::top - 8, heading, "holds");
  text += detail::svg_text(10 * layout.bars_left, Layout::top - 8, heading, "does");
  return text + rows + "</svg>\n";
}

}  // namespace tandem

#endif
