// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/orders/cross_model.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/orders/pipedream.hpp>
#include <tandem/schedule/orders/pipelined_model.hpp>
#include <tandem/schedule/picture/strategy_svg.hpp>
#include <tandem/schedule/time/simulate.hpp>

namespace strategy_svg_test {

using namespace tandem;

int count(std::string const& text, std::string const& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

StepPicture picture_of(char const* name, int devices, int microbatches, PictureRules const& rules) {
  return step_picture(make_schedule(name, devices, microbatches), make_map(name, devices), rules);
}

/// The bars of a kind that a rank has.
std::vector<PictureBar> bars(StepPicture const& picture, int rank, ActionKind kind) {
  std::vector<PictureBar> found;
  for (PictureBar const& bar : picture.rank[static_cast<std::size_t>(rank)].bars) {
    if (bar.action.kind == kind) {
      found.push_back(bar);
    }
  }
  return found;
}

Ticks end_of(StepPicture const& picture) {
  Ticks end = 0;
  for (RankPicture const& rank : picture.rank) {
    for (PictureBar const& bar : rank.bars) {
      end = std::max(end, bar.time.end);
    }
  }
  return end;
}

TEST_CASE("a pass waits for the passes that it needs, an update for all rows") {
  StepPicture const picture = picture_of("gpipe", 3, 4, {});
  CHECK(end_of(picture) == (4 + 3 - 1) * (2 + 4) + 1);  // (m + p - 1) (F + B), and the update
  for (int r = 0; r < 3; ++r) {
    CHECK(bars(picture, r, ActionKind::forward)[0].time == Interval{2 * r, 2 * r + 2});
    CHECK(picture.rank[static_cast<std::size_t>(r)].holds.size() == 1);
    PictureBar const update = bars(picture, r, ActionKind::update).at(0);
    CHECK(update.time.begin == (4 + 3 - 1) * (2 + 4));  // the losses of all ranks are summed
    CHECK(bars(picture, r, ActionKind::reduce_gradient).empty());
  }
}

TEST_CASE("an input gradient waits for that of the stage above, not for its weight gradient") {
  StepPicture const picture = picture_of("zero_bubble_h1", 2, 1, {});
  CHECK(bars(picture, 1, ActionKind::input_gradient)[0].time == Interval{4, 6});
  CHECK(bars(picture, 1, ActionKind::weight_gradient)[0].time == Interval{6, 8});
  CHECK(bars(picture, 0, ActionKind::input_gradient)[0].time == Interval{6, 8});
}

TEST_CASE("passes are drawn when simulate() has them, where messages take no time") {
  for (char const* name : {"gpipe", "one_f_one_b", "zero_bubble_h1", "interleaved", "chimera"}) {
    CAPTURE(name);
    RuntimeMap const map = make_map(name, 4);
    ActionRows const rows = make_schedule(name, 4, 8);
    TimelineRows const timeline = simulate(
        rows, map, {.forward = 2, .input_gradient = 2, .weight_gradient = 2, .backward = 4});
    StepPicture const picture = step_picture(rows, map, {});
    for (std::size_t d = 0; d < 4; ++d) {
      std::vector<Interval> drawn;
      for (PictureBar const& bar : picture.rank[d].bars) {
        if (is_compute(bar.action.kind)) {
          drawn.push_back(bar.time);
        }
      }
      CHECK(drawn == timeline.action[d]);
    }
  }
}

TEST_CASE("replicas sum the gradients of a part, inside of the last backward pass and behind it") {
  StepPicture const picture = picture_of("gpipe", 2, 2, {.replicas = 2});
  REQUIRE(picture.rank.size() == 4);
  CHECK(bars(picture, 2, ActionKind::forward)[0].action.index == 2);  // its own microbatches
  for (int r = 0; r < 4; ++r) {
    PictureBar const sum = bars(picture, r, ActionKind::reduce_gradient).at(0);
    Interval const last = bars(picture, r, ActionKind::backward).back().time;
    CHECK(sum.beside);
    CHECK(sum.time.begin > last.begin);
    CHECK(sum.time.begin < last.end);
    Ticks const summed = bars(picture, 0, ActionKind::reduce_gradient)[0].time.end;
    CHECK(sum.time.end <= summed);
    CHECK(bars(picture, r, ActionKind::update)[0].time.begin == summed);
  }
}

TEST_CASE("two models: both devices hold both and always work; how they are kept together") {
  constexpr auto passes = [](Averaging const& averaging) {
    ActionRows rows(2);
    auto sink = [&rows](int device, Action action) {
      rows[static_cast<std::size_t>(device)].push_back(action);
    };
    CrossModel::generate(2, 2, sink);
    constexpr auto map = bidirectional_map<2>();
    return step_picture(rows, map, {.averaging = averaging});
  };
  StepPicture const gradients = passes({});
  CHECK(gradients.rank[0].holds.size() == 2);
  CHECK(gradients.rank[0].holds[1].copy == 1);
  CHECK(gradients.rank[0].holds[1].part == 1);
  CHECK(bars(gradients, 0, ActionKind::backward).back().time.end == 2 * (2 + 4));
  CHECK(bars(gradients, 0, ActionKind::reduce_gradient).size() == 2);
  CHECK(bars(gradients, 0, ActionKind::exchange).empty());

  // Each stage is updated as it ends, and exchanged while the other one computes.
  StepPicture const weights = passes({.what = Averaged::weights});
  CHECK(bars(weights, 0, ActionKind::reduce_gradient).empty());
  CHECK(bars(weights, 0, ActionKind::update).size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    PictureBar const exchange = bars(weights, 0, ActionKind::exchange).at(i);
    CHECK(exchange.beside);
    CHECK(exchange.time.begin == bars(weights, 1, ActionKind::update).at(i).time.end);
  }
  CHECK(bars(weights, 0, ActionKind::update)[0].time.end <=
        bars(weights, 0, ActionKind::backward)[1].time.begin);

  StepPicture const overlapped = passes({.what = Averaged::weights, .overlapped = true});
  CHECK(bars(overlapped, 0, ActionKind::exchange).at(0).beside);
  CHECK(bars(overlapped, 0, ActionKind::exchange).at(0).time.begin == 0);
  CHECK(end_of(overlapped) < end_of(weights));
}

TEST_CASE("an asynchronous pipeline has updates in its rows, and as many versions as it says") {
  constexpr Asynchrony pipedream = PipeDream::asynchrony(3, 1);
  constexpr auto map = chain_map<3>();
  StepPicture const picture =
      step_picture(asynchronous_table(pipedream, 8), map, {.asynchrony = pipedream});
  CHECK(picture.asynchronous);
  CHECK(picture.rank[0].holds[0].versions == 3);
  CHECK(picture.rank[2].holds[0].versions == 1);
  std::vector<PictureBar> const updates = bars(picture, 2, ActionKind::update);
  REQUIRE(updates.size() == 8);
  CHECK(updates[7].time.end - updates[6].time.end == 2 + 4 + 1);  // it never waits

  // The forward pass is computed again in the backward one.
  constexpr Asynchrony replayed = PipelinedModel::asynchrony(3, 1);
  StepPicture const longer =
      step_picture(asynchronous_table(replayed, 8), map, {.asynchrony = replayed});
  Interval const backward = bars(longer, 0, ActionKind::backward)[0].time;
  CHECK(backward.end - backward.begin == 2 + 4);

  std::string const svg = strategy_svg(picture, "PipeDream", "");
  CHECK(count(svg, ">w0<") > 0);
  CHECK(count(svg, "w1: weights that have had one update") == 1);
  CHECK(count(svg, "stroke=\"#777777\"") == 3 + 2 + 1);  // a card for each version
}

TEST_CASE("a well-formed picture that names what each rank holds") {
  std::string const svg = strategy_svg(picture_of("chimera", 4, 4, {}), "a<b> & c", "d < e");
  CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
  CHECK(svg.size() - svg.rfind("</svg>\n") == 7);
  CHECK(count(svg, "a&lt;b> &amp; c") == 1);
  CHECK(count(svg, "d &lt; e") == 1);
  CHECK(count(svg, "<text") == count(svg, "</text>"));
  CHECK(count(svg, "<rect") == count(svg, "/>") + count(svg, "</rect>"));
  for (char const* held : {">x0<", ">y3<", ">x3<", ">y0<"}) {
    CHECK(count(svg, held) == 1);
  }
  CHECK(count(svg, "<title>") == 4 * 4 * 2 + 4 * 2 + 4);  // passes, sums, updates
  CHECK(count(svg, "lighter: the model y") == 1);
  CHECK(count(strategy_svg(picture_of("gpipe", 2, 2, {}), "", ""), "lighter") == 0);
}

}  // namespace strategy_svg_test
