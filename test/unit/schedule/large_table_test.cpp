// SPDX-License-Identifier: Apache-2.0
// Tables whose sizes multiply to more than an int holds, or to more memory than a file is worth.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/scratch.hpp>
#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/reader.hpp>
#include <tandem/schedule/csv/writer.hpp>
#include <tandem/schedule/picture/schedule_svg.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/time/summary.hpp>
#include <tandem/schedule/verify/verify.hpp>

namespace large_table_test {

using namespace tandem;

/// All forward passes, then all backward passes; a rank each @p per_rank stages.
ReadTable table(int stages, int microbatches, int per_rank) {
  ReadTable read;
  read.rows.resize(static_cast<std::size_t>(stages / per_rank));
  auto const add = [&](ActionKind kind, int stage, int microbatch) {
    read.rows[static_cast<std::size_t>(stage / per_rank)].push_back(
        {kind, 0, static_cast<std::int16_t>(stage), microbatch});
  };
  for (int m = 0; m < microbatches; ++m) {
    for (int s = 0; s < stages; ++s) {
      add(ActionKind::forward, s, m);
    }
  }
  for (int m = 0; m < microbatches; ++m) {
    for (int s = stages; s-- > 0;) {
      add(ActionKind::backward, s, m);
    }
  }
  for (auto const& row : read.rows) {
    read.place.emplace_back(row.size());
    read.end.emplace_back();
  }
  return read;
}

template <class F>
std::string refusal(F const& call) {
  try {
    call();
  } catch (Error const& error) {
    return error.what();
  }
  return "";
}

bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("links times depth is more than an int") {
  int const stages = 20'000;
  CheckedTable const checked = check_table(table(stages, 4, 1), 1, 65'536, "t");
  CHECK(checked.microbatches == 4);
  CHECK(verify(checked.lowered, checked.map, 4, std::numeric_limits<int>::max()));
  CHECK(contains(refusal([&] {
                   static_cast<void>(verify(checked.lowered, checked.map,
                                            std::numeric_limits<int>::max(), 65'536));
                 }),
                 "would take more than 1 GiB"));
}

TEST_CASE("stages times actions of a row is more than an int") {
  int const stages = 32'768;
  CheckedTable const checked = check_table(table(stages, 2, stages), 1, 1, "t");
  TimelineRows const timeline = simulate(checked.passes, checked.map);
  CHECK(timeline.finished);
  CHECK(timeline.makespan == Ticks{stages} * 2 * 3);
  std::string const text = live_text(checked.lowered, checked.map);
  CHECK(contains(text, "stage 32767 on rank 0: 2 microbatches live at most\n"));
}

TEST_CASE("a table has as many lines as ranks have numbers") {
  std::string text = "0F0,0B0";
  text += std::string(40'000, '\n');
  CHECK(read_table_csv(text, "t").rows.size() == 1);
  CHECK(refusal([&] { read_table_csv(text + " 1F0", "t"); }) ==
        "t:40001:2: a table has a line for each rank, and 32767 of them at most");
  RuntimeMap map;
  map.device = {0};
  CHECK(is_sound(map));
  map.devices = 40'000;
  CHECK(!is_sound(map));
}

TEST_CASE("cells that would be gigabytes of commas are refused") {
  ActionRows rows(1000);  // one after another
  RuntimeMap map;
  map.devices = 1000;
  map.links = 999;
  for (int s = 0; s < 1000; ++s) {
    map.device.push_back(static_cast<std::int16_t>(s));
    if (s > 0) {
      map.edge.push_back({static_cast<std::int16_t>(s - 1), static_cast<std::int16_t>(s),
                          static_cast<std::int16_t>(s - 1)});
    }
  }
  for (int m = 0; m < 300; ++m) {
    for (int s = 0; s < 1000; ++s) {
      rows[static_cast<std::size_t>(s)].push_back(
          {ActionKind::forward, 0, static_cast<std::int16_t>(s), m});
      rows[static_cast<std::size_t>(s)].push_back(
          {ActionKind::backward, 0, static_cast<std::int16_t>(s), m});
    }
  }
  CHECK(contains(refusal([&] { static_cast<void>(to_csv_by_time(rows, map)); }),
                 "would be more than 268435456 cells"));
}

TEST_CASE("no array of an algorithm is larger than 1 GiB") {
  CHECK(contains(refusal([] { detail::Scratch<int> const ints{(std::int64_t{1} << 28) + 1}; }),
                 "would take more than 1 GiB"));
}

TEST_CASE("the last microbatch that an int can name is refused where links are shared") {
  RuntimeMap map;  // two stages of device 0, two of device 1, over one link
  map.devices = 2;
  map.links = 1;
  map.device = {0, 0, 1, 1};
  map.edge = {{0, 2, 0}, {1, 3, 0}};
  int const last = std::numeric_limits<std::int32_t>::max();
  ActionRows const rows{{{ActionKind::forward, 0, 0, last}}, {{ActionKind::forward, 0, 2, last}}};
  CHECK(contains(refusal([&] { static_cast<void>(lower(rows, map)); }),
                 "number microbatches from 0 on"));
}

TEST_CASE("a picture of times near the end of 64 bits") {
  ActionRows const rows{{{ActionKind::forward, 0, 0, 0}, {ActionKind::backward, 0, 0, 0}}};
  TimelineRows timeline;
  timeline.makespan = Ticks{1} << 60;
  timeline.device.resize(1);
  timeline.action = {{{0, 1}, {1, Ticks{1} << 60}}};  // a bar of one tick, and a long one
  CHECK(contains(schedule_svg(rows, timeline, "long"), "from 1 to 1152921504606846976"));
  timeline.action[0][1] = {Ticks{1} << 59, Ticks{1} << 60};
  timeline.action[0][0] = {0, Ticks{1} << 59};
  std::string const even = schedule_svg(rows, timeline, "long");
  CHECK(contains(even, "x=\"66.0\" y=\"82\" width=\"29.0\""));  // as of two bars of one tick
  timeline.makespan += 1;
  CHECK(contains(refusal([&] { schedule_svg(rows, timeline, "long"); }), "2^60 ticks"));
}

}  // namespace large_table_test
