// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/writer.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/updates.hpp>

#include "stage_updates.hpp"

namespace verify_updates_test {

using namespace tandem;
using enum ActionKind;

constexpr Averaging gradients = AverageGradients::averaging;
constexpr Averaging weights = AverageWeights<>::averaging;
constexpr Averaging overlapped = Overlapped<AverageWeights<>>::averaging;

ActionRows cross_model(int devices, int microbatches, Averaging const& averaging) {
  RuntimeMap const map = make_map("cross_model", devices);
  return lower(stage_updates::with_updates(make_schedule("cross_model", devices, microbatches), map,
                                           averaging),
               map);
}

Verdict judge(ActionRows const& rows, Averaging const& averaging, int microbatches = 2) {
  return verify(rows, make_map("cross_model", devices_of(rows)), microbatches, averaging);
}

std::vector<Action>::iterator find(std::vector<Action>& row, char const* text) {
  auto const found = std::find_if(row.begin(), row.end(),
                                  [&](Action const& action) { return to_string(action) == text; });
  REQUIRE(found != row.end());
  return found;
}

TEST_CASE("a step of two models with updates and averages runs") {
  for (int devices = 2; devices <= 7; ++devices) {
    for (int microbatches : {2, 4, 2 * devices}) {
      for (Averaging const& averaging : {gradients, weights, overlapped}) {
        CAPTURE(devices);
        CAPTURE(microbatches);
        CAPTURE(to_string(
            judge(cross_model(devices, microbatches, averaging), averaging, microbatches)));
        CHECK(judge(cross_model(devices, microbatches, averaging), averaging, microbatches));
      }
    }
  }
  CHECK(to_csv(cross_model(2, 2, weights)).find("0B0,0U,0X,3X\n") != std::string::npos);
  CHECK(to_csv(cross_model(2, 2, overlapped)).find("3B1,0X,3X,3SEND_B1,3U") == std::string::npos);
}

TEST_CASE("updates of the stages of any schedule, behind B or W") {
  for (char const* const name : {"gpipe", "zero_bubble_h1", "interleaved", "chimera"}) {
    CAPTURE(name);
    int const chunks = std::string{name} == "interleaved" ? 2 : 1;
    RuntimeMap const map = make_map(name, 2, chunks);
    ActionRows const rows = stage_updates::with_updates(make_schedule(name, 2, 4, chunks), map);
    Verdict const verdict = verify(lower(rows, map), map, 4, Averaging{}, 2);
    CHECK(to_string(verdict) == "the action table is valid");
    CHECK(verify(lower(rows, map), map, 4).flaw == Flaw::foreign_action);
  }
}

TEST_CASE("updates and averages out of place") {
  ActionRows const good = cross_model(2, 2, weights);
  ActionRows rows = good;
  rows[0].erase(find(rows[0], "0X"));
  CHECK(to_string(judge(rows, weights)) == "rank 0: 0X is missing");
  rows = good;
  rows[0].push_back({exchange, 0, 0, 0});
  CHECK(to_string(judge(rows, weights)) == "rank 0: 0X stands there although it was done before");
  rows = good;
  rows[0].erase(find(rows[0], "0U"));
  CHECK(to_string(judge(rows, weights)) == "rank 0: 0U is missing before 0X");
  rows = good;
  std::iter_swap(find(rows[0], "0U"), find(rows[0], "0X"));
  CHECK(to_string(judge(rows, weights)) == "rank 0: 0X stands before 0U, which it needs");
  rows = good;
  std::iter_swap(find(rows[0], "0X"), find(rows[0], "3X"));
  Verdict const otherwise = judge(rows, weights);
  CHECK(otherwise.flaw == Flaw::exchanged_otherwise);
  CHECK(to_string(otherwise) ==
        "rank 0: 3X stands where rank 1 has 2X; two devices must exchange their stages in one "
        "order");
  rows = good;
  std::iter_swap(find(rows[1], "2U"), find(rows[1], "2B1"));
  CHECK(to_string(judge(rows, weights)) == "rank 1: 2U stands before 2B1, which it needs");
  rows = good;
  rows[1].push_back({update, 0, 1, 0});
  CHECK(to_string(judge(rows, weights)) == "rank 1: 1U stands there although it was done before");
  CHECK(judge(good, gradients).flaw == Flaw::foreign_update);
  CHECK(judge(good, overlapped).flaw == Flaw::before_its_input);
  CHECK(judge(cross_model(2, 2, gradients), weights).flaw == Flaw::missing);
  rows = cross_model(2, 2, overlapped);
  rows[0].erase(find(rows[0], "3X"));
  CHECK(to_string(judge(rows, overlapped)) == "rank 0: 3X is missing before 3U");
  rows = cross_model(2, 2, weights);
  rows[0][0].version = 1;
  CHECK(judge(rows, weights).flaw == Flaw::foreign_update);
  CHECK(judge(good, weights, 3).flaw == Flaw::uneven_copies);
}

TEST_CASE("an average waits for the update of the other copy") {
  // Rank 0 awaits 2U before it sends what rank 1 needs for 2B1.
  ActionRows rows = cross_model(2, 2, weights);
  auto const send = find(rows[0], "3SEND_B1");
  Action const message = *send;
  rows[0].erase(send);
  ActionRows fine = rows;
  fine[0].insert(find(fine[0], "0X"), message);
  CHECK(judge(fine, weights));
  rows[0].insert(find(rows[0], "0X") + 1, message);
  Verdict const verdict = judge(rows, weights);
  CHECK(verdict.flaw == Flaw::deadlock);
  CHECK(to_string(verdict) ==
        "rank 1: 2RECV_B1 waits for 3SEND_B1, but rank 0 waits at 0X: a deadlock with 1 message in "
        "flight for each link and direction");
  fine[1].erase(find(fine[1], "2X"));
  fine[1].erase(find(fine[1], "2U"));
  CHECK(to_string(judge(fine, weights)) ==
        "rank 0: 0X waits for a message, but rank 1 has no 2U that would send it");
}

std::string error_of(std::string const& text, int copies, std::string const& schedule = "") {
  try {
    static_cast<void>(check_table(read_table_csv(text, "t"), copies, 2, "t", schedule));
  } catch (TableError const& fault) {
    return fault.what();
  }
  return "none";
}

TEST_CASE("what is printed can be read again") {
  for (char const* const name :
       {"pipedream", "pipedream_vertical_sync", "pipedream_2bw", "delayed_gradient",
        "weight_prediction", "features_replay", "pmp"}) {
    CAPTURE(name);
    int const of_step = std::string{name} == "pipedream_2bw" ? 4 : 1;
    RuntimeMap const map = make_map(name, 3);
    ActionRows const rows = make_schedule(name, 3, of_step);
    CheckedTable const timed =
        check_table(read_table_csv(to_csv_by_time(rows, map), "t"), 1, 1, "t", name);
    CHECK(timed.passes == rows);
    CHECK(timed.asynchrony == make_asynchrony(name, 3, of_step));
    CheckedTable const sent =
        check_table(read_table_csv(to_csv(lower(rows, map)), "t"), 1, 1, "t", name);
    CHECK(sent.lowered == lower(rows, map));
    CHECK(sent.passes == rows);
  }
  RuntimeMap const map = make_map("cross_model", 3);
  for (Averaging const& averaging : {gradients, weights, overlapped}) {
    ActionRows const rows =
        stage_updates::with_updates(make_schedule("cross_model", 3, 2), map, averaging);
    CHECK(check_table(read_table_csv(to_csv_by_time(rows, map), "t"), 2, 1, "t").passes == rows);
  }
}

TEST_CASE("a table with updates that cannot run is refused where its flaw is") {
  CHECK(error_of("0F0,0B0,0U\n1F0,1B0,1U\n", 1) == "none");
  CHECK(error_of("0F0,0B0,0U\n1F0,1U,1B0\n", 1) ==
        "t:2:5: rank 1: 1U stands before 1B0, which it needs");
  CHECK(error_of("0F0,0B0,0U\n1F0,1B0\n", 1) == "t:2:8: rank 1: 1U is missing");
  CHECK(error_of("0F0,0B0,0U,0F1@1,0B1,0U\n", 1, "pipedream") ==
        "t:1:18: rank 0: 0B1 must read version 1 of the weights; so the schedule says");
  CHECK(error_of("0F0,0F1,0B0,0B1,0U,0F2,0B2,0U\n", 1, "pipedream_2bw") ==
        "t:1:20: 3 microbatches are no whole steps of 2, as many as there are for each update in "
        "the first row");
  CHECK(error_of("0F0@1,0B0,0U\n", 1) ==
        "t:1:1: rank 0: 0F0@1 is neither a pass, a message nor an update of this table; leave "
        "reductions out, exchanges where no weights are averaged, and versions of anything but "
        "passes");
  CHECK(error_of("0F0@256\n", 1) == "t:1:1: '0F0@256' has too large a version; versions go to 255");
  CHECK(error_of("0U@1\n", 1) ==
        "t:1:1: '0U@1' takes no version; only F and B read weights of one");
  CHECK(error_of("0F0@\n", 1).find("t:1:1: '0F0@' is no action") == 0);
  CHECK(error_of("0F0@1x\n", 1).find("t:1:1: '0F0@1x' is no action") == 0);
}

}  // namespace verify_updates_test
