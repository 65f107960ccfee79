// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/picture/schedule_svg.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/time/summary.hpp>

#include "stage_updates.hpp"

namespace svg_test {

using namespace tandem;

int count(std::string const& text, std::string const& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

bool has(std::string const& text, std::string const& part) { return count(text, part) > 0; }

std::string draw(char const* name, int ranks, int microbatches, int chunks,
                 ActionCosts const& costs = {}) {
  ActionRows const rows = make_schedule(name, ranks, microbatches, chunks);
  return schedule_svg(rows, simulate(rows, make_map(name, ranks, chunks), costs), name);
}

/// The number behind @p name, as an attribute of the first such element behind @p from.
double attribute(std::string const& text, char const* name, std::size_t from = 0) {
  std::string const start = std::string{" "} + name + "=\"";
  return std::stod(text.substr(text.find(start, from) + start.size()));
}

TEST_CASE("a bar for each pass, with its times, as wide as it takes long") {
  std::string const svg = draw("one_f_one_b", 4, 8, 1);
  CHECK(count(svg, "<title>") == 4 * 8 * 2);
  CHECK(has(svg, "<title>0F0, from 0 to 1</title>"));
  CHECK(has(svg, "<title>0B7, from 31 to 33</title>"));
  CHECK(has(svg, "makespan 33, bubble 9 a rank, 27.3 % (idle from 0 to makespan)"));
  std::size_t const forward = svg.rfind("<rect", svg.find("<title>0F1,"));
  std::size_t const backward = svg.rfind("<rect", svg.find("<title>0B0,"));
  double const slot = attribute(svg, "x", forward) - 66;  // 0F1 begins at 1
  CHECK(slot >= 18);
  CHECK(attribute(svg, "x", backward) - 66 == doctest::Approx(10 * slot).epsilon(0.01));
  CHECK(attribute(svg, "width", backward) ==
        doctest::Approx(attribute(svg, "width", forward) + slot).epsilon(0.01));
}

TEST_CASE("updates and averages are lines, side by side, and stand in the legend") {
  RuntimeMap const map = make_map("cross_model", 3);
  ActionRows const rows = stage_updates::with_updates(make_schedule("cross_model", 3, 2), map,
                                                      AverageWeights<>::averaging);
  std::string const svg = schedule_svg(rows, simulate(rows, map), "cross_model");
  CHECK(count(svg, "<title>") == 3 * (4 + 2 + 2));
  CHECK(has(svg, "<title>0U, at 9</title>"));
  CHECK(has(svg, "<title>3X, at 11</title>"));
  CHECK(has(svg, "U update"));
  CHECK(has(svg, "X average"));
  double const update = attribute(svg, "x", svg.rfind("<rect", svg.find("<title>4U,")));
  double const average = attribute(svg, "x", svg.rfind("<rect", svg.find("<title>1X,")));
  CHECK(update - average == doctest::Approx(4));
  CHECK(!has(draw("gpipe", 3, 4, 1), "U update"));
  std::string const late = draw("pipedream", 3, 1, 1);
  CHECK(count(late, "<title>") == 3 * 3 * 4);
  CHECK(has(late, "<title>1F2@1, from "));
}

TEST_CASE("a well-formed picture with a background of its own") {
  for (std::string const& svg :
       {draw("gpipe", 3, 4, 1), draw("zero_bubble_h1", 16, 64, 1), draw("interleaved", 4, 8, 2),
        draw("chimera", 4, 4, 1), draw("pmp", 4, 1, 1)}) {
    CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
    CHECK(svg.size() - svg.rfind("</svg>\n") == 7);
    CHECK(count(svg, "<text") == count(svg, "</text>"));
    CHECK(count(svg, "<rect") == count(svg, "/>") + count(svg, "</rect>"));
    CHECK(has(svg, "fill=\"#ffffff\"/>"));
    CHECK(!has(svg, "url("));
  }
}

TEST_CASE("the legend has the kinds that there are") {
  std::string const split = draw("zero_bubble_h1", 2, 2, 1);
  CHECK((has(split, "F forward") && has(split, "I input gradient")));
  CHECK((has(split, "W weight gradient") && !has(split, "B backward")));
  std::string const whole = draw("gpipe", 2, 2, 1);
  CHECK((has(whole, "B backward") && !has(whole, "W weight gradient")));
  CHECK(!has(whole, "lighter"));
  CHECK(has(draw("interleaved", 2, 2, 2), "lighter: another stage of the rank"));
  CHECK(count(draw("interleaved", 2, 2, 2), "fill-opacity") == 2 * 2 * 2);
}

TEST_CASE("every bar of 16 ranks and 64 microbatches has its number") {
  std::string const large = draw("one_f_one_b", 16, 64, 1);
  CHECK(count(large, ">63</text>") == 16 * 2);
  CHECK(attribute(large, "width") < 5000);
  // Where passes differ a thousandfold, the picture stays finite and short bars have no number.
  std::string const uneven = draw("zero_bubble_h1", 2, 4, 1, {1000, 1000, 1});
  CHECK(attribute(uneven, "width") < 8200);
  CHECK(has(uneven, "<title>0W0, "));
}

TEST_CASE("a name is text, not markup") {
  ActionRows const rows = make_schedule("gpipe", 1, 1);
  std::string const svg = schedule_svg(rows, simulate(rows, make_map("gpipe", 1)), "<a&b>.csv");
  CHECK(has(svg, "&lt;a&amp;b>.csv</text>"));
}

TEST_CASE("the summary says idle times and live microbatches") {
  ActionRows const rows = make_schedule("one_f_one_b", 2, 4);
  RuntimeMap const map = make_map("one_f_one_b", 2);
  CHECK(schedule_summary(rows, map, simulate(rows, map), "1F1B") ==
        "1F1B\n"
        "makespan 15, bubble 3 a rank, 20.0 % (idle from 0 to makespan)\n"
        "rank 0: busy 12, idle 3 from 0 to makespan, of that 3 between its first and its last "
        "pass\n"
        "rank 1: busy 12, idle 3 from 0 to makespan, of that 0 between its first and its last "
        "pass\n"
        "stage 0 on rank 0: 2 microbatches live at most\n"
        "stage 1 on rank 1: 1 microbatch live at most\n");
  ActionRows const chunks = chunked(rows, 3);
  std::string const text = live_text(chunks, map, 3);
  CHECK(has(text, "stage 0 on rank 0: 6 chunks of time live at most\n"));
  CHECK(has(text, "stage 1 on rank 1: 3 chunks of time live at most\n"));
  CHECK(has(schedule_summary(rows, map, simulate(rows, map), "", 3), "1 chunk of time live"));
  ActionRows const both = make_schedule("chimera", 2, 2);
  CHECK(has(live_text(both, make_map("chimera", 2)), "stage 3, copy 1 of part 1, on rank 0: 1 "));
}

}  // namespace svg_test
