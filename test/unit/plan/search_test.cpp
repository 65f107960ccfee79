// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/report.hpp>
#include <tandem/plan/simulate/chain.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>
#include <tandem/strategy/types/hybrid.hpp>
#include <tandem/strategy/types/model_parallel.hpp>
#include <tandem/strategy/types/pipeline.hpp>

#include <chain_costs.hpp>

namespace search_test {

using namespace tandem;
using test::chain;
using test::free_links;
using test::task_of;

TEST_CASE("a worker's step is that of the closed forms") {
  std::vector<double> const four{1, 1, 1, 1};
  for (int m : {4, 8}) {
    double const b = 1.0 / m;  // of a sample, a microbatch; a stage takes 3 b
    CostGraph const graph = [&] {
      CostGraph g = chain(four, 1);
      for (CostNode& node : g.node) {
        node.forward *= b;
        node.backward *= b;
      }
      return g;
    }();
    auto const seconds = [&](char const* name) {
      return worker_step(detail::chain_worker(name, 4, m), graph, free_links(), 3).seconds;
    };
    CHECK(seconds("gpipe") == doctest::Approx((m + 3) * 3 * b));
    CHECK(seconds("one_f_one_b") == doctest::Approx((m + 3) * 3 * b));
    CHECK(seconds("zero_bubble_h1") == doctest::Approx(m * 3 * b + 3 * b));  // (p-1)(F+I-W), I = W
    CHECK(seconds("sequential") == doctest::Approx(m * 12 * b));
  }
}

// What mesh_step() has of it in closed form.
TEST_CASE("1F1B in chunks of time fills with a chunk") {
  for (int const m : {1, 4, 8}) {
    for (int const k : {1, 2, 5}) {
      CAPTURE(m);
      CAPTURE(k);
      RuntimeMap const map = make_map("one_f_one_b", 4);
      ActionRows const table = lower(chunked(make_schedule("one_f_one_b", 4, m), k), map);
      SimulatedStep const step = simulate_on(
          free_links(), table, map, chain_costs(map, chain({1, 1, 1, 1}, 1)), {.depth = k});
      CHECK(step.last_pass == doctest::Approx((m * k + 3) * 3));  // a stage's chunk takes 3
    }
  }
}

TEST_CASE("memory: weights, and the outputs of live microbatches") {
  CostGraph const graph = chain({1, 1, 1, 1}, 1, 7);
  auto const memory = [&](char const* name, bool recomputes = false) {
    StrategyValue worker = detail::chain_worker(name, 4, 8);
    worker.checkpoint = {recomputes ? CheckpointRule::boundaries : CheckpointRule::none};
    return worker_step(worker, graph, free_links(), 3).memory;
  };
  CHECK(memory("one_f_one_b") == doctest::Approx(3 * 1000 + 4 * 7));  // of the first device
  CHECK(memory("gpipe") == doctest::Approx(3 * 1000 + 8 * 7));
  CHECK(memory("one_f_one_b", true) == doctest::Approx(3 * 1000 + 4 * 7 + 7));
}

TEST_CASE("messages take time") {
  Machine machine = free_links();
  machine.inside = {.bandwidth = 7, .latency = 0.5};  // 1.5 s a tensor
  CostGraph const graph = chain({1, 1}, 1, 7);
  CHECK(worker_step(detail::chain_worker("sequential", 2), graph, machine, 3).seconds ==
        doctest::Approx(6 + 2 * 1.5));
}

TEST_CASE("never slower than data parallel; C is T S E; those that cannot be are last") {
  SearchTask const task = task_of(dgx1_v100());
  WorkerSteps const steps{task, [](int samples) {
                            return chain({1e-3, 2e-3, 1e-3, 3e-3, 1e-3}, samples, 1000);
                          }};
  EpochCurve const epochs = EpochCurve::measured(parse_epoch_points("16:4,64:9,1024:40"));
  bool hybrid_won = false;
  for (int devices : {1, 2, 3, 4, 8, 64, 1024}) {
    CAPTURE(devices);
    std::vector<Plan> const plans = search_plans(steps, epochs, devices);
    Plan const* const data = best_plan(plans, false);
    REQUIRE(data != nullptr);
    CHECK(data->workers == devices);
    CHECK(plans.front().time.seconds() <= data->time.seconds());
    hybrid_won = hybrid_won || plans.front().worker.replica_devices() > 1;
    bool possible = true;
    bool wins = true;
    for (Plan const& plan : plans) {
      CHECK(plan.devices() == devices);
      CHECK((possible || !plan.feasible()));
      CHECK((wins || !plan.can_win()));
      possible = plan.feasible();
      wins = plan.can_win();
      if (possible) {
        CHECK(plan.time.step == doctest::Approx(plan.step.seconds + plan.reduction));
        CHECK(plan.time.steps_per_epoch == doctest::Approx(1e6 / (8.0 * plan.workers)));
        CHECK(plan.time.epochs == epochs.epochs(8.0 * plan.workers));
      } else if (plan.worker.cut == CutKind::placed) {  // of a chain
        CHECK(plan.problem == "the best placement found has work for 1 device only");
      } else {
        CHECK(plan.problem == "the network has only 5 parts");
      }
    }
  }
  CHECK(hybrid_won);
}

TEST_CASE("a step waits for the slowest node") {
  SearchTask task = task_of(dgx1_v100());
  task.machine.slow = {.share = 0.5, .by = 0.1};
  WorkerSteps const steps{task, [](int samples) { return chain({1e-3, 2e-3}, samples, 1000); }};
  EpochCurve const epochs = EpochCurve::measured(parse_epoch_points("8:1"));
  for (int const devices : {8, 64}) {
    double const none_slow = devices == 8 ? 0.5 : 1.0 / 256;
    for (Plan const& plan : search_plans(steps, epochs, devices)) {
      if (plan.feasible()) {
        CHECK(plan.waiting == doctest::Approx(0.1 * (1 - none_slow) * plan.step.seconds));
        CHECK(plan.time.step == doctest::Approx(plan.step.seconds + plan.reduction + plan.waiting));
      }
    }
  }
}

TEST_CASE("the gain of a hybrid is equation 8's") {
  SearchTask const task = task_of(dgx_a100());
  WorkerSteps const steps{task, [](int samples) {
                            return chain({1e-3, 2e-3, 1e-3, 3e-3, 1e-3}, samples, 1000);
                          }};
  EpochCurve const epochs = EpochCurve::measured(parse_epoch_points("16:4,64:9,1024:40"));
  std::vector<Plan> const plans = search_plans(steps, epochs, 64);
  Plan const& hybrid = *best_plan(plans, true);
  Plan const& data = *best_plan(plans, false);
  double const one = steps.graph().time();
  HybridChoice const choice{.split = one / hybrid.step.seconds,
                            .devices = hybrid.worker.replica_devices(),
                            .epochs = hybrid.time.epochs,
                            .epochs_more = data.time.epochs,
                            .efficiency = hybrid.step.seconds / hybrid.time.step,
                            .efficiency_more = one / data.time.step};
  CHECK(hybrid_gain(plans) == doctest::Approx(choice.gain()));
}

TEST_CASE("Inception-V3 on V100s: with the paper's epochs a hybrid wins from 64 devices on") {
  SearchTask const task{.machine = dgx1_v100(), .batch_per_worker = 64, .samples = 1'281'167};
  WorkerSteps const steps{task, [&](int samples) {
                            return static_costs(graph<models::InceptionV3<1000>>, task.machine,
                                                MathPrecision::fp32, samples);
                          }};
  EpochCurve const epochs =
      EpochCurve::measured(parse_epoch_points("2048:4,4096:7,8192:12,16384:23"));
  SearchResult const result = search_all(steps, epochs, {8, 32, 64, 128, 256});
  std::vector<bool> wins;
  for (SearchResult::Devices const& own : result.of) {
    wins.push_back(hybrid_gain(own.plans) > 0);
  }
  CHECK(wins == std::vector<bool>{false, false, true, true, true});
  std::string const text = search_text(result);
  CHECK(text.find("a hybrid wins from 64 devices on, by ") != text.npos);
}

TEST_CASE("what does not fit says so") {
  SearchTask task = task_of(two_cpus());
  task.memory = 1;
  WorkerSteps const steps{task, [](int samples) { return chain({1, 1}, samples, 1000); }};
  SearchResult const result =
      search_all(steps, EpochCurve::measured(parse_epoch_points("1:1")), {2});
  for (Plan const& plan : result.of[0].plans) {
    CHECK_FALSE(plan.feasible());
  }
  CHECK(search_text(result).find("nothing fits") != std::string::npos);
  CHECK(search_json(result).find("\"recommended\": null") != std::string::npos);
  CHECK_THROWS_AS(
      static_cast<void>(search_plans(steps, EpochCurve::measured(parse_epoch_points("1:1")), 4)),
      ContractError);  // two-cpus has two
}

TEST_CASE("types to paste") {
  Plan plan{
      .worker = detail::chain_worker("one_f_one_b", 2, 4), .workers = 2, .step = {.sizes = {1, 2}}};
  CHECK(strategy_type(plan) ==
        "Hybrid<DataParallel<2>, Pipeline<OneFOneB, 4, Split<1>, Split<2>>>");
  plan.worker.checkpoint = {CheckpointRule::boundaries};
  plan.workers = 1;
  CHECK(strategy_type(plan) == "Pipeline<OneFOneB, 4, Split<1>, Split<2>, Checkpoint<Boundaries>>");
  plan.worker = detail::chain_worker("interleaved", 2, 2, 2);
  plan.step.sizes = {1, 1, 1, 2};
  CHECK(strategy_type(plan) ==
        "Pipeline<Interleaved<2>, 2, Split<1>, Split<1>, Split<1>, Split<2>>");
  plan.worker = detail::chain_worker("cross_model", 2, 2);
  plan.step.sizes = {1, 2};
  CHECK(strategy_type(plan) == "CrossModelParallel<AverageGradients, Split<1>, Split<2>>");
  plan.worker = detail::placed_worker(2);
  plan.workers = 3;
  CHECK(strategy_type(plan) == "Hybrid<DataParallel<3>, ModelParallel<Placed<table>>>");
  CHECK(strategy_label(plan) == "Hybrid<DataParallel<3>, ModelParallel<Placed<2 devices>>>");
  plan.worker = detail::chain_worker("pipedream_2bw", 2, 4);
  plan.workers = 1;
  CHECK(strategy_type(plan) == "Pipeline<PipeDream2BW, 4, Split<1>, Split<2>>");
  CHECK(strategy_type({.workers = 4}) == "DataParallel<4>");
  CHECK(strategy_type({}) == "SingleDevice<>");
}

struct Net : Network<Vector<4>, Sequential<Linear<3>, Linear<3>, Linear<2>>> {};

// The same words are types.
static_assert(
    Program<Net, Hybrid<DataParallel<2>, Pipeline<OneFOneB, 4, Split<1>, Split<2>>>, 4>::ranks ==
    4);
static_assert(
    Program<Net, Pipeline<OneFOneB, 4, Split<1>, Split<2>, Checkpoint<Boundaries>>, 4>::ranks == 2);
static_assert(Program<Net, Pipeline<PipeDream2BW, 4, Split<1>, Split<2>>, 4>::ranks == 2);
inline constexpr auto table = place<Net>({{"1", 1}});
static_assert(Program<Net, Hybrid<DataParallel<3>, ModelParallel<Placed<table>>>, 4>::ranks == 6);

}  // namespace search_test
