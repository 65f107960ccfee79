// SPDX-License-Identifier: Apache-2.0
// Steps without a barrier, as the search tries them: where the library runs them, in the time of
// step_period().

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/epochs/epoch_points.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/search/bounded_search.hpp>
#include <tandem/plan/search/report.hpp>
#include <tandem/plan/search/simulate_worker.hpp>
#include <tandem/schedule/time/step_period.hpp>

#include <chain_costs.hpp>
#include <tiny_network.hpp>

namespace search_unbarred_test {

using namespace tandem;
using test::chain;
using test::free_links;
using test::task_of;

Machine hosts(int devices) {
  Machine machine = free_links();
  machine.devices_per_node = machine.adapters = devices;
  return machine;
}

WorkerStep step_of(char const* name, std::vector<double> const& parts, bool post_validated,
                   Machine const& machine) {
  StrategyValue worker = detail::chain_worker(name, 4, 8);
  worker.post_validated = post_validated;
  return worker_step(worker, chain(parts, 1, 7), machine, 3);
}

/// step_period() of stages that take so many seconds forward, and for each gradient.
double period(char const* name, std::vector<double> const& parts, Ticks transfer = 0) {
  RuntimeMap const map = make_map(name, 4);
  std::vector<ActionCosts> of_stage;
  for (double const forward : parts) {
    auto const ns = static_cast<Ticks>(forward * 1e9);
    of_stage.push_back({.forward = ns, .input_gradient = ns, .weight_gradient = ns});
  }
  ActionRows const table = lower(make_schedule(name, 4, 8), map);
  return 1e-9 * static_cast<double>(step_period(
                    table, map, 8, {.transfer = transfer, .of_stage = of_stage.data()}));
}

TEST_CASE("a step takes what it takes among others") {
  std::vector<double> const equal{1, 1, 1, 1};
  CHECK(step_of("zero_bubble_h2", equal, false, hosts(4)).seconds == doctest::Approx(27));
  WorkerStep const own = step_of("zero_bubble_h2", equal, true, hosts(4));
  CHECK(own.seconds == doctest::Approx(24));  // of passes
  CHECK(own.idle == doctest::Approx(0));
  CHECK(own.done == step_of("zero_bubble_h2", equal, false, hosts(4)).done);
  // Parameters and one array of states, read and written at 8 GB/s.
  CHECK(own.copies == doctest::Approx(2 * 2 * 1000 / 8e9));
  CHECK(step_of("zero_bubble_h2", equal, false, hosts(4)).copies == 0);
  CHECK(own.memory == step_of("zero_bubble_h2", equal, false, hosts(4)).memory + 2 * 1000);
  Machine slow = hosts(4);
  slow.inside = slow.between = {.bandwidth = 1e18, .latency = 0.5};  // which no messages share
  for (std::vector<double> const& parts : {equal, {1, 2, 1, 1}, {2, 1, 1, 2}}) {
    CHECK(step_of("zero_bubble_h2", parts, true, hosts(4)).seconds ==
          doctest::Approx(period("zero_bubble_h2", parts)));
    CHECK(step_of("zero_bubble_h2", parts, true, slow).seconds ==
          doctest::Approx(period("zero_bubble_h2", parts, 500'000'000)));
  }
  std::vector<double> const eight(8, 1);
  CHECK(step_of("zero_bubble_v", eight, true, hosts(4)).seconds ==
        doctest::Approx(period("zero_bubble_v", eight)));
}

TEST_CASE("sums of workers show, but no longer than the longest and no more than with a barrier") {
  // On one link a sum of two workers takes 1 ms a byte, and steps of 24 s follow each other.
  Machine machine = hosts(8);
  machine.inside = machine.between = {.bandwidth = 1e3, .latency = 0};
  auto const reduction = [&](std::vector<double> const& done, std::vector<double> const& bytes) {
    WorkerStep const step{
        .seconds = 24, .done = done, .gradient_bytes = bytes, .row_bytes = {0, 0}};
    return detail::exposed_reduction(step, machine, 2, 2);
  };
  double const longest = all_reduce_seconds(machine, {2, 2}, 1000);
  REQUIRE(longest > 0.5);
  CHECK(reduction({24, 27}, {1000, 1000}) == doctest::Approx(longest));
  CHECK(reduction({24, 24.25}, {1000, 0}) == doctest::Approx(longest));
  CHECK(reduction({23.5, 24.25}, {1000, 0}) == doctest::Approx(longest - 0.5));
}

TEST_CASE("a simulated worker has two steps behind one another") {
  std::vector<double> const parts{1, 1, 1, 1};
  WorkerStep const step = step_of("zero_bubble_h2", parts, true, hosts(4));
  StrategyValue worker = detail::chain_worker("zero_bubble_h2", 4, 8);
  worker.post_validated = true;
  CHECK(simulate_worker(worker, step, chain(parts, 1, 7), hosts(4)).last_pass ==
        doctest::Approx(27 + 24));
  CHECK_THROWS_AS(static_cast<void>(
                      simulate_worker(worker, step, chain(parts, 1, 7), hosts(8), {.workers = 2})),
                  ContractError);
}

std::vector<Plan> unbarred(std::vector<Plan> const& plans) {
  std::vector<Plan> found;
  std::copy_if(plans.begin(), plans.end(), std::back_inserter(found),
               [](Plan const& plan) { return plan.worker.post_validated; });
  return found;
}

auto const four_parts = [](int samples) { return chain({1, 1, 1, 1}, samples, 7); };

TEST_CASE("the best pipeline of CPUs in a node; it says when it pays") {
  // So that one worker is better than two, and a pipeline than data parallel.
  EpochCurve const epochs = EpochCurve::measured(parse_epoch_points("8:1,16:4,64:16"));
  SearchTask const task = task_of(hosts(8));
  WorkerSteps const steps{task, four_parts};
  SearchResult const result = search_all(steps, epochs, {4});
  Plan const* const best = best_plan(result.of[0].plans, true);
  REQUIRE(best != nullptr);
  CHECK(strategy_type(*best) ==
        "Pipeline<PostValidated<ZeroBubbleH2>, 8, Split<1>, Split<1>, Split<1>, Split<1>>");
  CHECK(best->step.seconds == doctest::Approx(24));
  CHECK(best->time.step == doctest::Approx(24 + best->step.copies));
  std::vector<Plan> barred = result.of[0].plans;
  std::erase_if(barred, [](Plan const& plan) {
    return plan.worker.post_validated || detail::has_two_copies(plan.worker.schedule);
  });
  CHECK(best_plan(barred, true)->step.seconds == doctest::Approx(27));  // as ZeroBubbleH2
  CHECK(search_text(result).find("it pays where few steps are clipped") != std::string::npos);
  CHECK(search_json(result).find("\"post_validated\": true") != std::string::npos);

  std::vector<Plan> const eight = search_plans(steps, epochs, 8);
  CHECK(std::any_of(eight.begin(), eight.end(), [](Plan const& plan) {
    return strategy_type(plan) ==
           "Hybrid<DataParallel<2>, Pipeline<PostValidated<ZeroBubbleH2>, "
           "8, Split<1>, Split<1>, Split<1>, Split<1>>>";
  }));
  SearchTask wide = task;
  wide.wide = true;
  SearchResult const bounded = search_bounded(wide, four_parts, epochs, {4});
  CHECK(strategy_type(*best_plan(bounded.of[0].plans, true)) == strategy_type(*best));
}

TEST_CASE("not tried where the library does not run it") {
  EpochCurve const epochs = EpochCurve::measured({{1, 1}});
  auto const tried = [&](SearchTask const& task, int devices) {
    return unbarred(search_plans({task, four_parts}, epochs, devices)).size();
  };
  CHECK(tried(task_of(hosts(4)), 4) > 0);
  CHECK(tried(task_of(hosts(4)), 8) == 0);  // in two nodes
  CHECK(tried(task_of(hosts(2)), 4) == 0);
  CHECK(tried(task_of(hosts(2)), 2) > 0);
  SearchTask gpus = task_of(hosts(4));
  gpus.machine.cpus = false;
  CHECK(tried(gpus, 4) == 0);
  SearchTask rounded = task_of(hosts(4));
  rounded.precision = MathPrecision::bf16;
  CHECK(tried(rounded, 4) == 0);
}

SearchTask tiny_task() {
  SearchTask task = task_of(hosts(4));
  task.network = graph<test::TinyNet>;
  task.computed = true;
  return task;
}

TEST_CASE("no slices, chunks of time, late gradients, second copies, or passes again beside it") {
  int tried = 0;
  for (StrategyValue const& worker : detail::tried_workers(tiny_task())) {
    if (worker.post_validated) {
      ++tried;
      CHECK(!worker.rewrites());
      CHECK(!worker.repeats_stages());
      CHECK(!worker.asynchrony().on());
      CHECK(!detail::has_two_copies(worker.schedule));
      for (Sharding const shard : {Sharding::state, Sharding::gradients, Sharding::parameters}) {
        CHECK(detail::refusal_of(graph<test::TinyNet>, detail::replicated(worker, 2, shard)) != "");
      }
    }
  }
  CHECK(tried > 0);
}

struct Rows
    : Network<Tokens<4, 50>, Sequential<Embedding<50, 8, RowGradient>, Lstm<8>, Vocabulary<50>>> {};
struct Lives
    : Network<Tokens<4, 50>, Sequential<Embedding<50, 8>, Lstm<8, Stateful>, Vocabulary<50>>> {};

TEST_CASE("what the compiler refuses is not recommended, with its reason") {
  StrategyValue worker = detail::chain_worker("zero_bubble_h2", 2, 4);
  worker.post_validated = true;
  CHECK(detail::refusal_of(graph<Rows>, worker) == detail::sentence_of(detail::Rule::ahead_rows));
  CHECK(detail::refusal_of(graph<Lives>, worker) ==
        detail::sentence_of(detail::Rule::ahead_states));
  CHECK(detail::refusal_of(graph<test::TinyNet>, worker) == "");
}

struct Synchronized
    : Network<Image<3, 8, 8>, Sequential<Conv2d<4, Kernel<3>, Padding<1>>, SyncBatchNorm2d<>, ReLU,
                                         Flatten, Linear<4>>> {};

TEST_CASE("what the compiler refuses of several replicas alone is recommended for one") {
  SearchTask task = task_of(hosts(4));
  task.network = graph<Synchronized>;
  auto const costs = [&](int samples) {
    return static_costs(graph<Synchronized>, task.machine, task.precision, samples);
  };
  WorkerSteps const steps{task, costs};
  EpochCurve const epochs = EpochCurve::measured(parse_epoch_points("8:1,16:4,64:16"));
  int alone = 0;
  int refused = 0;
  for (int const devices : {2, 4}) {
    for (Plan const& plan : search_plans(steps, epochs, devices)) {
      if (plan.worker.schedule == "chimera" && plan.worker.replica_devices() == 2) {
        CAPTURE(strategy_type(plan));
        CHECK(plan.problem == (plan.workers > 1
                                   ? detail::sentence_of(detail::Rule::statistics_copies)
                                   : std::string{}));
        ++(plan.workers > 1 ? refused : alone);
      }
    }
  }
  CHECK(alone > 0);
  CHECK(refused == alone);
}

}  // namespace search_unbarred_test
