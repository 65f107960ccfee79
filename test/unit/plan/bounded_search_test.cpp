// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/plan/cost/big_lstm_graph.hpp>
#include <tandem/plan/cost/gnmt_graph.hpp>
#include <tandem/plan/cost/gpt_graph.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/bounded_search.hpp>
#include <tandem/plan/search/report.hpp>

#include <chain_costs.hpp>

namespace bounded_search_test {

using namespace tandem;

// Of m passes, a pass of stage s takes load[s].
double longest_of(std::vector<double> const& load, int m) {
  double before = 0;
  double longest = 0;
  for (double const own : load) {
    longest = std::max(longest, before + m * own);
    before += own;
  }
  return longest;
}

TEST_CASE("a pipeline fills no sooner than its bound, however it is cut, and by one cut so soon") {
  for (int const m : {1, 2, 7}) {
    for (int const p : {1, 2, 5}) {
      CAPTURE(m);
      CAPTURE(p);
      std::vector<double> load(static_cast<std::size_t>(p));
      auto const bound = [&] {
        double sum = 0;
        for (double const own : load) {
          sum += own;
        }
        return sum * detail::least_filling(p, m);
      };
      for (int s = 0; s < p; ++s) {  // before + m own is the same of each
        load[static_cast<std::size_t>(s)] = std::pow(1 - 1.0 / m, s);
      }
      CHECK(longest_of(load, m) == doctest::Approx(bound()));
      load.assign(load.size(), 1);
      CHECK(longest_of(load, m) >= bound() * (1 - 1e-12));
      load.front() = 4;
      CHECK(longest_of(load, m) >= bound() * (1 - 1e-12));
      std::reverse(load.begin(), load.end());
      CHECK(longest_of(load, m) >= bound() * (1 - 1e-12));
    }
  }
}

Machine cpus() {
  Machine machine = dgx1_v100();
  machine.cpus = true;  // so that passes have chunks of time
  return machine;
}

struct Case {
  char const* name;
  GraphView network;
  int batch;
};

std::vector<Case> const& cases() {
  static GptGraph const gpt{
      {.vocabulary = 100, .context = 32, .width = 64, .heads = 4, .layers = 6}};
  static GnmtGraph const gnmt{{.vocabulary = 64, .hidden = 32, .layers = 2, .context = 8}};
  static BigLstmGraph const big{
      {.vocabulary = 200, .states = 64, .projection = 32, .context = 4, .sampled = 20}};
  static std::vector<Case> const all{{"a GPT", gpt.view(), 8},
                                     {"GNMT", gnmt.view(), 16},
                                     {"BigLSTM", big.view(), 16},
                                     {"ResNet-18", graph<models::ResNet18<10>>, 16}};
  return all;
}

auto costs_of(SearchTask const& task) {
  return [&task](int samples) {
    return static_costs(*task.network, task.machine, task.precision, samples);
  };
}

SearchTask task_of(Case const& own, Machine const& machine, MathPrecision precision) {
  return {.machine = machine,
          .batch_per_worker = own.batch,
          .samples = 1e6,
          .most_devices_a_worker = 8,
          .wide = true,
          .network = own.network,
          .precision = precision,
          .computed = true};
}

TEST_CASE("no worker takes less than its bound") {
  int workers = 0;
  int filling = 0;
  int nearly = 0;
  for (Case const& own : cases()) {
    CAPTURE(own.name);
    for (Machine const& machine : {cpus(), dgx_a100()}) {
      auto const precision = machine.cpus ? MathPrecision::fp32 : MathPrecision::bf16;
      SearchTask const task = task_of(own, machine, precision);
      WorkerSteps const steps{task, costs_of(task)};
      for (WorkerSteps::One const& one : steps.all()) {
        if (!one.step.problem.empty()) {
          continue;
        }
        StrategyValue const& worker = one.strategy;
        double const least = least_worker_seconds(
            worker, costs_of(task)(std::max(1, own.batch / worker.batching.microbatches)));
        CAPTURE(strategy_label({.worker = worker, .step = one.step}));
        CHECK(least <= one.step.seconds * (1 + 1e-9));
        ++workers;
        filling += detail::fills_stage_by_stage(worker) ? 1 : 0;
        nearly += least > 0.8 * one.step.seconds ? 1 : 0;
      }
    }
  }
  CHECK(filling > 100);
  CHECK(3 * nearly > workers);  // it is no idle bound
}

// Of both kinds of plans.
void check_same(std::vector<Plan> const& found, std::vector<Plan> const& all) {
  for (bool const hybrid : {false, true}) {
    CAPTURE(hybrid);
    Plan const* const one = best_plan(found, hybrid);
    Plan const* const other = best_plan(all, hybrid);
    REQUIRE((one == nullptr) == (other == nullptr));
    if (one != nullptr) {
      CHECK(strategy_type(*one) == strategy_type(*other));
      CHECK(one->time.seconds() == other->time.seconds());
      CHECK(one->step.memory == other->step.memory);
    }
  }
}

TEST_CASE("the best plans are those of the search that simulates all") {
  std::vector<int> const devices{1, 2, 3, 4, 8, 24, 64, 512};
  int left_out = 0;
  for (Case const& own : cases()) {
    CAPTURE(own.name);
    SearchTask task = task_of(own, cpus(), MathPrecision::fp32);
    task.machine.slow = {.share = 0.01, .by = 0.1};
    task.failures = {.device = 3e8, .checkpoint = 1, .restart = 60};
    for (char const* const points : {"8:1", "64:1,1024:6"}) {
      EpochCurve const epochs = EpochCurve::measured(parse_epoch_points(points));
      WorkerSteps const steps{task, costs_of(task)};
      for (double const memory : {0.0, 0.6 * steps.all().front().step.memory}) {
        SearchTask tight = task;
        tight.memory = memory;
        SearchResult const all = search_all(WorkerSteps{tight, costs_of(tight)}, epochs, devices);
        SearchResult const found = search_bounded(tight, costs_of(tight), epochs, devices);
        CHECK(found.one_device == all.one_device);
        REQUIRE(found.of.size() == all.of.size());
        for (std::size_t i = 0; i < all.of.size(); ++i) {
          CAPTURE(devices[i]);
          SearchResult::Devices const& at = found.of[i];
          CHECK(at.devices == devices[i]);
          check_same(at.plans, all.of[i].plans);
          left_out += at.bound.workers - at.bound.simulated;
          for (Plan const& plan : all.of[i].plans) {
            CHECK((!plan.can_win() || at.bound.seconds <= plan.time.seconds()));
          }
          if (devices[i] == 1 && memory == 0) {  // there are no sums
            CHECK(at.bound.seconds == doctest::Approx(all.of[i].plans.front().time.seconds()));
          }
        }
      }
    }
  }
  CHECK(left_out > 1000);
}

TEST_CASE("65,536 devices") {
  SearchTask task = task_of(cases()[1], dgx_a100(), MathPrecision::fp32);
  task.most_devices_a_worker = 128;
  SearchResult const result = search_bounded(
      task, costs_of(task), EpochCurve::measured(parse_epoch_points("64:1,1024:16")), {65'536});
  SearchResult::Devices const& own = result.of.front();
  for (Plan const& plan : own.plans) {
    CHECK(plan.devices() == 65'536);
  }
  CHECK(own.plans.front().worker.replica_devices() > 1);
  CHECK(own.bound.simulated < own.bound.workers);
  std::string const text = search_text(result);
  std::string const simulated = std::to_string(own.bound.simulated) + " of " +
                                std::to_string(own.bound.workers) + " workers simulated\n";
  CHECK(text.starts_with("65536 devices; none converges before "));
  CHECK(text.find(", were sums of gradients free; the first takes ") != text.npos);
  CHECK(text.find(" % longer; " + simulated) != text.npos);
  Plan const& first = own.plans.front();
  CHECK(own.bound.seconds <=
        first.time.seconds() - first.reduction * first.time.seconds() / first.time.step + 1e-9);
  CHECK(search_json(result).find("\"bound\": {\"C\": ") != std::string::npos);
}

TEST_CASE("where nothing fits no bound is said, and all workers were simulated") {
  SearchTask task = task_of(cases()[1], dgx_a100(), MathPrecision::fp32);
  task.memory = 1;
  SearchResult const result =
      search_bounded(task, costs_of(task), EpochCurve::measured({{1, 1}}), {2048});
  SearchBound const& bound = result.of.front().bound;
  CHECK(bound.simulated == bound.workers);
  CHECK(search_text(result).starts_with("2048 devices; " + std::to_string(bound.workers) + " of "));
  CHECK_THROWS_AS(
      static_cast<void>(search_bounded(task, costs_of(task), EpochCurve::measured({{1, 1}}), {0})),
      ContractError);
}

}  // namespace bounded_search_test
