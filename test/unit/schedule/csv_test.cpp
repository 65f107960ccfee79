// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/reader.hpp>
#include <tandem/schedule/csv/writer.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>

namespace csv_test {

using namespace tandem;

struct Size {
  char const* name;
  int ranks;
  int microbatches;
  int chunks;
};

constexpr Size sizes[] = {
    {"sequential", 3, 2, 1},    {"gpipe", 4, 6, 1},       {"one_f_one_b", 4, 8, 1},
    {"one_f_one_b", 1, 1, 1},   {"interleaved", 4, 8, 3}, {"zero_bubble_h1", 5, 9, 1},
    {"zero_bubble_v", 4, 9, 1}, {"v_half", 4, 9, 1},      {"dual_pipe_v", 3, 8, 1},
    {"dual_pipe", 4, 8, 1},     {"v_min", 3, 7, 1},       {"chimera", 6, 12, 1},
    {"one_f_one_b", 16, 64, 1}};

TEST_CASE("what is written is read back, with and without messages") {
  for (Size const& size : sizes) {
    CAPTURE(size.name);
    ActionRows const passes = make_schedule(size.name, size.ranks, size.microbatches, size.chunks);
    RuntimeMap const map = make_map(size.name, size.ranks, size.chunks);
    ActionRows const lowered = lower(passes, map);
    CHECK(read_table_csv(to_csv_by_time(passes, map), "t").rows == passes);
    CHECK(read_table_csv(to_csv(passes), "t").rows == passes);
    CHECK(read_table_csv(to_csv(lowered), "t").rows == lowered);
    int const copies = map.copies;
    int const depth = 2;  // what Chimera needs for more microbatches than ranks
    CheckedTable const checked =
        check_table(read_table_csv(to_csv_by_time(passes, map), "t"), copies, depth, "t");
    CHECK(checked.lowered == lowered);
    CHECK(checked.microbatches == size.microbatches);
    CHECK(check_table(read_table_csv(to_csv(lowered), "t"), copies, depth, "t").passes == passes);
  }
}

TEST_CASE("a rank that does nothing is read back") {
  ReadTable const read = read_table_csv("0F0,0B0\n,\n", "t");
  REQUIRE(read.rows.size() == 2);
  CheckedTable const checked = check_table(read, 1, 1, "t");
  CHECK(to_csv(checked.lowered) == "0F0,0B0\n,\n");
  CHECK(read_table_csv(to_csv(checked.lowered), "t").rows == read.rows);
  CHECK(read_table_csv(to_csv_by_time(checked.passes, checked.map), "t").rows == read.rows);
}

TEST_CASE("columns of passes are times") {
  auto const table = schedule_table<OneFOneB, 3, 3>();
  CHECK(to_csv_by_time(table, chain_map<3>()) ==
        "0F0,0F1,0F2,,,0B0,,0B1,,0B2\n"
        ",1F0,1F1,,1B0,1F2,1B1,,1B2\n"
        ",,2F0,2B0,2F1,2B1,2F2,2B2\n");
  CHECK(to_csv_by_time(schedule_table<ZeroBubbleH1, 2, 2>(), chain_map<2>()) ==
        "0F0,0F1,,0I0,0W0,0I1,0W1\n"
        ",1F0,1I0,1F1,1I1,1W0,1W1\n");
  CHECK(to_csv(lower(schedule_table<GPipe, 2, 1>(), chain_map<2>())) ==
        "0F0,0SEND_F0,0RECV_B0,0B0\n"
        "1RECV_F0,1F0,1B0,1SEND_B0\n");
}

TEST_CASE("PyTorch's spellings") {
  // Carriage returns, spaces, quotes, idle cells, a byte order mark, a reduction without a number.
  ReadTable const table = read_table_csv(
      "\xEF\xBB\xBF"
      "0F0, 2F0 ,,\"0I0\",0W0\r\n"
      "\r\n"
      " ,1SEND_F12,\t1RECV_B3,1B7,1REDUCE_GRAD\r\n"
      "\n  \n",
      "t");
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[0] == std::vector<Action>{{ActionKind::forward, 0, 0, 0},
                                             {ActionKind::forward, 0, 2, 0},
                                             {ActionKind::input_gradient, 0, 0, 0},
                                             {ActionKind::weight_gradient, 0, 0, 0}});
  CHECK(table.rows[1].empty());
  CHECK(table.rows[2] == std::vector<Action>{{ActionKind::send_forward, 0, 1, 12},
                                             {ActionKind::receive_backward, 0, 1, 3},
                                             {ActionKind::backward, 0, 1, 7}});
  CHECK(table.place[0][1] == TextPlace{1, 6});
  CHECK(table.place[0][2] == TextPlace{1, 13});
  CHECK(table.place[2][0] == TextPlace{3, 3});
  CHECK(read_table_csv("0F0,,,", "t").rows[0].size() == 1);
  CHECK(read_table_csv("0U,0AWAIT_LOSS,0REDUCE_GRAD4", "t").rows[0][2].index == 4);
  CHECK(read_table_csv("32767F2147483647", "t").rows[0][0].index == 2147483647);
}

TEST_CASE("overlapped pairs, BW, waits, and B in two meanings") {
  ReadTable const table = read_table_csv(
      "0F0,0F1,(0F2;1B0)OVERLAP_F_B,1BW1,0WAIT_SEND_F0,1WAIT_REDUCE_GRAD,0UNSHARD,1RESHARD\n"
      "2F0,2B0,2F1,2B1,2W0,(2F2;2I2)OVERLAP_F_B\n",
      "t");
  CHECK(to_csv(table.rows) == "0F0,0F1,0F2,1B0,1B1\n2F0,2I0,2F1,2B1,2W0,2F2,2I2\n");
  CHECK(table.place[0][3] == TextPlace{1, 14});
  CHECK(table.place[0][4] == TextPlace{1, 30});
  CHECK(to_csv_in_pairs(table.rows) ==
        "0F0,0F1,(0F2;1B0)OVERLAP_F_B,1B1\n2F0,2I0,2F1,2B1,2W0,2F2,2I2\n");
  CHECK(to_csv(read_table_csv("0W0,0B0", "t").rows) == "0W0,0B0\n");  // which verify() refuses
  CHECK(to_csv_in_pairs(ActionRows{{}, {}}) == ",\n,\n");
}

TEST_CASE("a cell that is no action is refused with its line and column") {
  auto const error = [](char const* text) {
    try {
      static_cast<void>(read_table_csv(text, "table.csv"));
    } catch (TableError const& fault) {
      return std::string{fault.what()};
    }
    return std::string{"none"};
  };
  std::string const no = " is no action; write a stage, a kind and a microbatch, such as 0F3, ";
  CHECK(error("0F0,0F1\n1F0,, 1F1 ,xF3\n").find("table.csv:2:12: 'xF3'" + no) == 0);
  CHECK(error("F0").find("table.csv:1:1: 'F0'" + no) == 0);
  CHECK(error("0f0").find("table.csv:1:1: '0f0'" + no) == 0);
  CHECK(error("0F0x").find("table.csv:1:1: '0F0x'" + no) == 0);
  CHECK(error("0F-1").find("table.csv:1:1: '0F-1'" + no) == 0);
  CHECK(error("0F0;0F1").find("table.csv:1:1: '0F0;0F1'" + no) == 0);
  CHECK(error("0END").find("table.csv:1:1: '0END'" + no) == 0);
  CHECK(error("0").find("table.csv:1:1: '0'" + no) == 0);
  CHECK(error("0F") ==
        "table.csv:1:1: '0F' lacks its microbatch; write one behind it, as in '0F0'");
  CHECK(error("0U1") == "table.csv:1:1: '0U1' takes no number; write '0U'");
  CHECK(error("0F0,0F2147483648") ==
        "table.csv:1:5: '0F2147483648' has too large a number; stages go to 32767, microbatches "
        "to 2147483647");
  CHECK(error("32768F0").find("table.csv:1:1: '32768F0' has too large a number") == 0);
  CHECK(error("99999999999999999999F0").find("has too large a number") != std::string::npos);
  for (char const* const text : {"UNSHARD", "0UNSHARD1", "0RESHARD@1", "0WAIT_SEND_Fx",
                                 "0WAIT_REDUCE_GRAD0", "0WAIT_SEND_F0,0WAIT"}) {
    CAPTURE(text);
    CHECK(error(text).find(no) != std::string::npos);
  }
  CHECK(error("0F0,0F1,0B0,0REDUCE_GRAD,0B1\n") ==
        "table.csv:1:26: 0B1 stands behind the REDUCE_GRAD of its stage, which sums whole "
        "gradients; put that behind the stage's last pass");
  CHECK(error("0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD\n1F1,1B1\n") == "none");
  for (char const* const text :
       {"(0F7)OVERLAP_F_B", "(0F7;7B3)OVERLAP", "(0F7;7B3", "(;7B3)OVERLAP_F_B",
        "(0F7;)OVERLAP_F_B", "(7B3;0F7)OVERLAP_F_B", "(0F7;7W3)OVERLAP_F_B"}) {
    CHECK(error(text) == "table.csv:1:1: '" + std::string{text} +
                             "' is no pair of passes; write a forward and a backward one as "
                             "(0F7;7B3)OVERLAP_F_B, or as two cells");
  }
  CHECK(error("0F0,(0F1;1C0)OVERLAP_F_B").find("table.csv:1:10: '1C0'" + no) == 0);
  CHECK(error("").find("table.csv:1:1: there is no action here") == 0);
  CHECK(error(" ,\n,,\n").find("table.csv:1:1: there is no action here") == 0);
}

std::string error(std::string const& text, int copies = 1, int depth = 1) {
  try {
    static_cast<void>(check_table(read_table_csv(text, "t"), copies, depth, "t"));
  } catch (TableError const& fault) {
    return fault.what();
  }
  return "none";
}

TEST_CASE("backward passes in descending order of microbatches, as LoopedBFS has them") {
  CHECK(error("0F0,0F1,0F2,0B2,0B1,0B0\n") == "none");
  CHECK(error("0F0,0F1,0F2,0I2,0I1,0W2,0I0,0W1,0W0\n") == "none");
  CHECK(error("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n") == "none");
  CHECK(error("0F0,0F1,3F2,3F3,3B3,3B2,0B1,0B0\n1F0,1F1,2F2,2F3,2B3,2B2,1B1,1B0\n", 2, 4) ==
        "none");
  CHECK(error("0F0,0F1,0F2,0B2,0B1,0B0\n1F0,1F1,1F2,1B2,1B0,1B1\n") ==
        "t:2:17: rank 1: 1B0 stands before 1B1; the microbatches of a stage must be retired in "
        "descending order");
  CHECK(error("0F0,0F1,0F2,0B2,0B1,0B0\n1F0,1F1,1B2,1F2,1B1,1B0\n") ==
        "t:2:9: rank 1: 1B2 stands before 1F2, which it needs");
  CHECK(error("0F0,0F1,0F2,0B2,0B1,0B0\n1F0,1F1,1F2,1B2,1B1\n") ==
        "t:1:21: rank 0: 0RECV_B0 waits for a message, but rank 1 has no 1SEND_B0 that would send "
        "it");
  CHECK(error("0F0,0F1,0F2,0B2,0B1\n") == "t:1:20: rank 0: 0B0 is missing");
  CHECK(error("0F0,0F1,1F2,1F3,1B3,1B2,0B3,0B1,0B0\n", 2) ==
        "t:1:25: rank 0: 0B3 is of a microbatch that its stage does not have; it has 0 to 1");
  CHECK(error("0F0,0F1,0F2,0B2,0B1,0B0\n1F0,1F2,1F1,1B2,1B1,1B0\n") ==
        "t:2:5: rank 1: 1F2 stands before 1F1; the microbatches of a stage must come in ascending "
        "order");
  CHECK(error("0F0,0F1,0B1,0B0,0U\n").find("t:1:9: rank 0: 0B1 stands before 0B0") == 0);
}

TEST_CASE("a table that cannot run is refused where its flaw is") {
  CHECK(error("0F0,0B0\n1F0,1B0\n") == "none");
  CHECK(error("0REDUCE_GRAD0").find("t:1:1: there is no pass here; write a stage") == 0);
  CHECK(error("0F0,0B0\n,1B0,1F0\n") == "t:2:2: rank 1: 1B0 stands before 1F0, which it needs");
  CHECK(error("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1F1,1B1\n").find("t:2:13: rank 1: 1F1 stands") == 0);
  CHECK(error("0F0,0F1,0B0,0B1\n1F0,1B0,1B1\n") == "t:2:9: rank 1: 1F1 is missing before 1B1");
  CHECK(error("0F0,0B0,0F1 \n") == "t:1:12: rank 0: 0B1 is missing");
  CHECK(error("0F0,0B0\n1F0,1B0,0F0\n").find("t:2:9: rank 1: 0F0 belongs to rank 0") == 0);
  CHECK(error("0F0,0B0\n2F0,2B0\n").find("t:2:1: stages go to 2, but stage 1 is in no row") == 0);
  CHECK(error("0F0,0B0,0F2147483647").find("t:1:9: microbatch 2147483647 cannot be") == 0);
  CHECK(error("0F0,1F1,0B0,1F2,1B1,1B2\n", 2).find("t:1:13: 3 microbatches cannot be dealt") == 0);
  CHECK(error("0F0,0B0", 2).find("t:1:1: stages go to 0, but 1 stages cannot be 2 copies") == 0);
  // At depth 0 both send and wait for each other; the message is traced to its pass.
  CHECK(error("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", 1, 0).find("t:2:5: rank 1: 1SEND_B0") == 0);
  // The same with messages.
  std::string const lowered =
      to_csv(lower(make_schedule("one_f_one_b", 2, 2), make_map("one_f_one_b", 2)));
  CHECK(error(lowered) == "none");
  CHECK(error(lowered, 1, 0).find("a deadlock with 0 messages in flight") != std::string::npos);
  CHECK(error(lowered, 1, 0).find("t:2:18: rank 1: 1SEND_B0") == 0);
  CHECK(error("0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n")
            .find("t:1:14: rank 0: 0RECV_B0 is missing before 0B0") == 0);
}

}  // namespace csv_test
