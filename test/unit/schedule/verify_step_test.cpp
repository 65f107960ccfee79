// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/reader.hpp>
#include <tandem/schedule/csv/writer.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/step.hpp>

namespace verify_step_test {

using namespace tandem;

constexpr Averaging weights = AverageWeights<>::averaging;

/// A step of two microbatches that can be changed.
struct Step {
  Step(char const* name, int devices, StepRules const& r = {})
      : map{make_map(name, devices)},
        rules{r},
        rows{complete(lower(make_schedule(name, devices, 2), map), map, r)} {}

  std::vector<Action>::iterator find(std::string const& text) {
    for (auto& row : rows) {
      auto const at = std::find_if(row.begin(), row.end(),
                                   [&](Action const& action) { return to_string(action) == text; });
      if (at != row.end()) {
        return at;
      }
    }
    FAIL(text);
    return {};
  }
  void swap(std::string const& one, std::string const& other) {
    std::iter_swap(find(one), find(other));
  }
  void drop(std::string const& text) {
    auto const at = find(text);
    for (auto& row : rows) {
      if (&*at >= row.data() && &*at < row.data() + row.size()) {
        row.erase(at);
        return;
      }
    }
  }
  [[nodiscard]] std::string verdict() const { return to_string(verify(rows, map, 2, rules)); }

  RuntimeMap map;
  StepRules rules;
  ActionRows rows;
};

TEST_CASE("what stands before what it reads, is missing or is too much, in a sentence") {
  Step step{"gpipe", 2, {.replicas = 2}};
  CHECK(step.verdict() == "the action table is valid");
  Step const good = step;
  step.swap("0AWAIT_LOSS", "0U");
  CHECK(step.verdict() == "rank 0: 0U stands before 0AWAIT_LOSS, which it needs");
  step = good;
  step.drop("1REDUCE_GRAD0");
  step.rows[1].insert(step.find("1B1"), {ActionKind::reduce_gradient, 0, 1, 0});
  CHECK(step.verdict() == "rank 1: 1REDUCE_GRAD0 stands before 1B1, which it needs");
  step = good;
  step.drop("1REDUCE_GRAD0");
  CHECK(step.verdict() == "rank 1: 1REDUCE_GRAD0 is missing before 1REDUCE_NORM");
  step = good;
  step.drop("0U");
  CHECK(step.verdict() == "rank 0: 0U is missing");
  step = good;
  step.rows[1].push_back(*step.find("1U"));
  CHECK(step.verdict() == "rank 1: 1U stands there although it was done before");
  step = good;
  step.rows[1].push_back({ActionKind::update, 0, 0, 0});
  CHECK(step.verdict() == "rank 1: 0U belongs to rank 0, which has its stage");
  step = good;
  step.rows[1].push_back({ActionKind::end, 0, 1, 0});
  CHECK(step.verdict() ==
        "rank 1: 1END is no sum, update or exchange of this step; leave it out, and write sums of "
        "all a rank has, and the update of one model, with its lowest stage");
  step = good;
  step.rules.replicas = 1;
  CHECK(verify(step.rows, step.map, 2, step.rules).flaw == Flaw::foreign_tail);
  step = good;
  step.drop("0B1");
  CHECK(verify(step.rows, step.map, 2, step.rules).flaw == Flaw::missing);
}

TEST_CASE("devices that meet collectives in two orders wait forever") {
  Step step{"gpipe", 2};
  step.drop("0REDUCE_NORM");
  step.rows[0].insert(step.find("0BEGIN_LOSS"), {ActionKind::reduce_norm, 0, 0, 0});
  CHECK(step.verdict() ==
        "rank 0: 0REDUCE_NORM waits for 1REDUCE_NORM, but rank 1 waits at 1BEGIN_LOSS: a deadlock "
        "with 1 message in flight for each link and direction");

  Step two{"cross_model", 2, {.replicas = 2, .averaging = weights}};
  CHECK(two.verdict() == "the action table is valid");
  two.swap("0U", "3U");
  CHECK(two.verdict() ==
        "rank 0: 0U waits for 2U, but rank 1 waits at 1U: a deadlock with 1 message in flight for "
        "each link and direction");
}

TEST_CASE("a device that sums its losses before it sends what another needs to end its own") {
  Step step{"gpipe", 2};
  step.drop("0SEND_F1");
  step.rows[0].insert(step.find("0BEGIN_LOSS") + 1, {ActionKind::send_forward, 0, 0, 1});
  step.drop("0RECV_B0");
  step.drop("0B0");
  step.drop("0RECV_B1");
  step.drop("0B1");
  auto at = step.find("0SEND_F1") + 1;
  for (int m = 1; m >= 0; --m) {
    at = step.rows[0].insert(at, {ActionKind::backward, 0, 0, m});
    at = step.rows[0].insert(at, {ActionKind::receive_backward, 0, 0, m});
  }
  CHECK(
      step.verdict() ==
      "rank 0: 0BEGIN_LOSS waits for 1BEGIN_LOSS, but rank 1 waits at 1RECV_F1: a deadlock with 1 "
      "message in flight for each link and direction");
}

TEST_CASE("buckets of the rules: each once, in order, of stages that the device has") {
  int const first[] = {3, 3, 0};
  int const second[] = {2, 1, 1};
  std::span<int const> const buckets[] = {first, second};
  Step step{"chimera", 2, {.buckets = buckets}};
  CHECK(step.verdict() == "the action table is valid");
  step.swap("3REDUCE_GRAD0", "3REDUCE_GRAD1");
  CHECK(step.verdict() ==
        "rank 0: 3REDUCE_GRAD1 stands before 3REDUCE_GRAD0; await a rank's buckets in ascending "
        "order");
  std::span<int const> const wrong[] = {second, first};
  step.rules.buckets = wrong;
  CHECK(verify(step.rows, step.map, 2, step.rules).flaw == Flaw::unsound_rules);
  int const fewer[] = {2, 1};
  std::span<int const> const uneven[] = {first, fewer};
  Step const other{"chimera", 2, {.buckets = uneven}};
  CHECK(verify(other.rows, other.map, 2, other.rules).flaw == Flaw::unsound_rules);
}

std::string read_again(std::string const& text, int copies) {
  try {
    return to_csv(check_table(read_table_csv(text, "t"), copies, 1, "t").lowered);
  } catch (TableError const& fault) {
    return fault.what();
  }
}

TEST_CASE("a whole step is read again from its text, and refused where its flaw is") {
  Averaging const overlapped = Overlapped<AverageWeights<>>::averaging;
  for (int const replicas : {1, 2}) {
    std::string const one = to_csv(Step{"gpipe", 2, {.replicas = replicas}}.rows);
    CHECK(read_again(one, 1) == one);
    CHECK(read_again(to_csv(Step{"gpipe", 1, {.replicas = 2}}.rows), 1) != "");
    for (Averaging const& averaging : {Averaging{}, weights, overlapped}) {
      Step const step{"cross_model", 3, {.replicas = replicas, .averaging = averaging}};
      CHECK(read_again(to_csv(step.rows), 2) == to_csv(step.rows));
      CHECK(read_again(to_csv(without_messages(step.rows)), 2) == to_csv(step.rows));
    }
  }
  CHECK(read_again("0F0,0B0,0BEGIN_LOSS,0AWAIT_LOSS,0REDUCE_NORM,0U\n"
                   "1F0,1B0,1BEGIN_LOSS,1AWAIT_LOSS,1U\n",
                   1) == "t:2:33: rank 1: 1REDUCE_NORM is missing before 1U");
  CHECK(read_again("0F0,0BEGIN_LOSS,0B0,0REDUCE_GRAD0,0U\n", 1) ==
        "t:1:35: rank 0: 0AWAIT_LOSS is missing before 0U");
}

}  // namespace verify_step_test
