// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/plan/search/report.hpp>
#include <tandem/schedule/time/simulate.hpp>

#include <chain_costs.hpp>

namespace search_marks_test {

using namespace tandem;
using test::chain;
using test::free_links;
using test::task_of;

TEST_CASE("a pipeline that is never emptied: its period, and versions of weights") {
  std::vector<double> const parts{1, 3, 2, 1};
  auto const step = [&](char const* name, int microbatches) {
    return worker_step(detail::chain_worker(name, 4, microbatches), chain(parts, 1, 7),
                       free_links(), 3);
  };
  // Nobody waits for anything but the slowest stage, of 3 + 6 s, or 3 + 3 + 6 s.
  CHECK(step("pipedream", 1).seconds == doctest::Approx(9));
  CHECK(step("pipedream_vertical_sync", 1).seconds == doctest::Approx(9));
  CHECK(step("weight_prediction", 1).seconds == doctest::Approx(9));
  CHECK(step("features_replay", 1).seconds == doctest::Approx(12));
  CHECK(step("pmp", 1).seconds == doctest::Approx(12));
  CHECK(step("pipedream_2bw", 8).seconds == doctest::Approx(8 * 9));
  CHECK(step("pipedream", 1).idle == doctest::Approx(1 - 21.0 / (4 * 9)));
  // The first device holds 4 versions of its weights and 4 microbatches, or inputs of them.
  CHECK(step("pipedream", 1).memory == doctest::Approx((3 + 3) * 1000 + 4 * 7));
  CHECK(step("pipedream_2bw", 8).memory == doctest::Approx((3 + 1) * 1000 + 4 * 7));
  CHECK(step("weight_prediction", 1).memory == doctest::Approx((3 + 1) * 1000 + 4 * 7));
  CHECK(step("features_replay", 1).memory == doctest::Approx(3 * 1000 + 4 * 7 + 7));
}

TEST_CASE("with messages the period is what one step more makes the whole longer") {
  Machine machine = free_links();
  machine.adapters = machine.devices_per_node;
  machine.inside = machine.between = {.bandwidth = 3.5, .latency = 0};  // a tensor takes 2 s
  std::vector<double> const parts{1, 3, 2, 1};
  std::vector<ActionCosts> of_stage;
  for (double const forward : parts) {
    auto const ns = static_cast<Ticks>(forward * 1e9);
    of_stage.push_back({.forward = ns, .input_gradient = ns, .weight_gradient = ns});
  }
  ActionCosts const costs{.transfer = 2'000'000'000, .of_stage = of_stage.data()};
  struct Late {
    char const* name;
    int microbatches;
  };
  for (Late const& late :
       {Late{"pipedream", 1}, Late{"weight_prediction", 1}, Late{"pipedream_2bw", 4}}) {
    CAPTURE(late.name);
    RuntimeMap const map = make_map(late.name, 4);
    auto const makespan = [&](int steps) {
      ActionRows const table = lower(make_schedule(late.name, 4, late.microbatches, 1, steps), map);
      return static_cast<double>(simulate(table, map, costs).makespan) * 1e-9;
    };
    CHECK(worker_step(detail::chain_worker(late.name, 4, late.microbatches), chain(parts, 1, 7),
                      machine, 3)
              .seconds == doctest::Approx((makespan(250) - makespan(50)) / 200).epsilon(0.005));
  }
}

TEST_CASE("late gradients are shown and marked, and recommended only if asked") {
  SearchTask task = task_of(dgx1_v100());
  auto const costs = [](int samples) { return chain({1, 1, 1, 1}, samples, 1000); };
  auto const search = [&] {
    return search_all(WorkerSteps{task, costs},
                      EpochCurve::measured(parse_epoch_points("8:1,16:9")), {4});
  };
  SearchResult const shown = search();
  Plan const* const best = recommended_plan(shown);
  REQUIRE(best != nullptr);
  CHECK_FALSE(best->late_gradients);
  bool faster = false;
  for (Plan const& plan : shown.of[0].plans) {
    CHECK(plan.late_gradients == plan.worker.asynchrony().on());
    CHECK(plan.only_shown == plan.late_gradients);
    CHECK((!plan.late_gradients || plan.workers == 1));  // Hybrid takes none
    faster = faster || (plan.only_shown && plan.time.seconds() < best->time.seconds());
  }
  CHECK(faster);
  CHECK(search_text(shown).find("Pipeline<PipeDream, 1, Split<1>, Split<1>, Split<1>, Split<1>>  "
                                "(computing; late gradients)\n") != std::string::npos);
  CHECK(search_text(shown).find("\nlate gradients: E is that of") != std::string::npos);
  CHECK(search_json(shown).find("\"late_gradients\": true") != std::string::npos);
  task.late_gradients = true;
  SearchResult const asked = search();
  REQUIRE(recommended_plan(asked) != nullptr);
  CHECK(recommended_plan(asked)->late_gradients);
  CHECK(hybrid_gain(asked.of[0].plans) > hybrid_gain(shown.of[0].plans));
}

TEST_CASE("epochs beyond the points are marked, if there are points") {
  SearchTask const task = task_of(dgx1_v100());
  auto const costs = [](int samples) { return chain({1e-3, 1e-3}, samples, 1000); };
  std::vector<EpochPoint> const points = parse_epoch_points("8:2,16:3");
  SearchResult result = search_all(WorkerSteps{task, costs}, EpochCurve::measured(points), {1, 4},
                                   search_sources(task, "made up", points));
  for (Plan const& plan : result.of[0].plans) {
    CHECK_FALSE(plan.extrapolated);
  }
  CHECK(best_plan(result.of[1].plans, false)->extrapolated);       // a batch of 32
  CHECK_FALSE(best_plan(result.of[1].plans, true)->extrapolated);  // of 16
  std::string const text = search_text(result);
  CHECK(text.find("  ~4.5 ") != text.npos);
  CHECK(text.find("\n~: E is a guess there") != text.npos);
  CHECK(text.find("\nepochs: through 8:2,16:3\n") != text.npos);
  CHECK(text.find("\ncosts:  made up\n") != text.npos);
  CHECK(search_json(result).find("\"extrapolated\": true") != std::string::npos);
  CHECK(search_json(result).find("\"costs\": \"made up\"") != std::string::npos);
  result.sources = search_sources(task, "made up", {});
  CHECK(search_text(result).find('~') == std::string::npos);
  CHECK(search_text(result).find("epochs: one, whatever the batch") != std::string::npos);
}

}  // namespace search_marks_test
