// SPDX-License-Identifier: Apache-2.0
// Tables against those of PyTorch, which test/golden/schedules.py has written.

#include <doctest/doctest.h>

#include <string>

#include <tandem/io/mapped_file.hpp>
#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/writer.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>

namespace schedules_test {

using namespace tandem;

struct Size {
  int ranks;
  int microbatches;
};

ReadTable read_golden(std::string const& name, Size size, std::string const& form = "") {
  std::string const file = name + "_" + std::to_string(size.ranks) + "_" +
                           std::to_string(size.microbatches) + form + ".csv";
  MappedFile const mapped{std::string{TANDEM_TEST_DATA} + "/golden/" + file};
  return read_table_csv(
      {reinterpret_cast<char const*>(mapped.bytes().data()), mapped.bytes().size()}, file);
}

TEST_CASE(
    "zero_bubble_v of 2 p - 1 microbatches or more is PyTorch's table, on whose ranks it is") {
  for (Size const size : {Size{1, 3}, Size{2, 3}, Size{4, 8}, Size{4, 11}}) {
    CAPTURE(size.ranks);
    CAPTURE(size.microbatches);
    ReadTable const read = read_golden("zero_bubble_v", size);
    CHECK(read.rows == make_schedule("zero_bubble_v", size.ranks, size.microbatches));
    CheckedTable const checked = check_table(read, 1, 1, "golden");
    CHECK(checked.microbatches == size.microbatches);
    CHECK(checked.map.device == make_map("zero_bubble_v", size.ranks).device);
  }
}

TEST_CASE("dual_pipe_v is PyTorch's table, whose overlapped pairs are two passes") {
  for (Size const size : {Size{1, 3}, Size{2, 4}, Size{3, 8}, Size{4, 8}, Size{4, 11}}) {
    CAPTURE(size.ranks);
    CAPTURE(size.microbatches);
    ReadTable const read = read_golden("dual_pipe_v", size);
    CHECK(read.rows == make_schedule("dual_pipe_v", size.ranks, size.microbatches));
    CHECK(check_table(read, 1, 1, "golden").map.device ==
          make_map("dual_pipe_v", size.ranks).device);
    CHECK(read_table_csv(to_csv_in_pairs(read.rows), "pairs").rows == read.rows);
  }
}

TEST_CASE("interleaved is PyTorch's table, also where its rounds are not of p microbatches") {
  for (Size const size :
       {Size{2, 1}, Size{2, 3}, Size{2, 4}, Size{3, 2}, Size{3, 5}, Size{3, 8}, Size{4, 10}}) {
    CAPTURE(size.ranks);
    CAPTURE(size.microbatches);
    ReadTable const read = read_golden("interleaved", size);
    CHECK(read.rows == make_schedule("interleaved", size.ranks, size.microbatches, 2));
    CHECK(check_table(read, 1, 2, "golden").map.device ==
          make_map("interleaved", size.ranks, 2).device);
  }
}

TEST_CASE("PyTorch's own tables are valid, with its sums, gathers and waits") {
  CheckedTable const gpipe = check_table(read_golden("gpipe", {3, 2}), 1, 1, "golden");
  CHECK(gpipe.passes == make_schedule("gpipe", 3, 2));
  CHECK_FALSE(gpipe.descends);
  CHECK(check_table(read_golden("looped_bfs", {2, 6}), 1, 3, "golden").descends);
  CHECK_NOTHROW(check_table(read_golden("interleaved_zero_bubble", {2, 3}), 1, 1, "golden"));
  CHECK_NOTHROW(check_table(read_golden("interleaved_zero_bubble", {3, 5}), 1, 2, "golden"));
  struct Named {
    char const* name;
    Size size;
  };
  for (Named const& one : {Named{"interleaved", {2, 3}}, Named{"interleaved", {2, 4}},
                           Named{"looped_bfs", {2, 2}}, Named{"interleaved_zero_bubble", {2, 3}},
                           Named{"zero_bubble_v", {2, 3}}, Named{"dual_pipe_v", {2, 4}}}) {
    CAPTURE(one.name);
    CheckedTable const lowered =
        check_table(read_golden(one.name, one.size, "_comms"), 1, 1, "golden");
    CHECK(lowered.passes == read_golden(one.name, one.size).rows);
  }
}

}  // namespace schedules_test
