// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <tandem/plan/cost/gpt_graph.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/plan/search/simulate_worker.hpp>
#include <tandem/plan/search/workers.hpp>

namespace wide_search_test {

using namespace tandem;

// On nodes of one device, whose links pass so many bytes a second.
SearchTask task_on(double bandwidth, bool wide) {
  static GptGraph const gpt{
      {.vocabulary = 1000, .context = 128, .width = 512, .heads = 8, .layers = 12}};
  SearchTask task{.machine = dgx1_v100(),
                  .batch_per_worker = 16,
                  .most_devices_a_worker = 1,
                  .wide = wide,
                  .network = gpt.view()};
  task.machine.devices_per_node = task.machine.adapters = 1;
  task.machine.between = {.bandwidth = bandwidth, .latency = 0};
  return task;
}

Plan best_of(SearchTask const& task, int devices) {
  WorkerSteps const steps{task, [&](int samples) {
                            return static_costs(*task.network, task.machine, task.precision,
                                                samples);
                          }};
  return search_plans(steps, EpochCurve::measured({{1, 1}}), devices).front();
}

// Gathers run beside both passes, sums beside the backward pass alone.
TEST_CASE("a wide search shards parameters where that takes less time, and they fit") {
  int sharded = 0;
  int whole = 0;
  for (double bandwidth = 1e7; bandwidth < 1e13; bandwidth *= 2) {
    CAPTURE(bandwidth);
    Plan const usual = best_of(task_on(bandwidth, false), 8);
    CHECK(usual.shard == Sharding::none);
    SearchTask task = task_on(bandwidth, true);
    Plan const wide = best_of(task, 8);
    if (wide.shard == Sharding::none) {
      CHECK(wide.time.step == usual.time.step);
      ++whole;
      continue;
    }
    ++sharded;
    CHECK(wide.shard == Sharding::parameters);
    CHECK(wide.time.step < usual.time.step);
    CHECK(wide.time.step == wide.step.seconds + wide.reduction);
    CHECK(wide.step.memory < usual.step.memory);
    CHECK(best_of(task, 1).shard == Sharding::none);
    task.memory = 0.9 * wide.step.memory;
    CHECK(best_of(task, 8).step.memory <= task.memory);  // in microbatches
  }
  CHECK(sharded > 1);
  CHECK(whole > 5);
}

TEST_CASE("a group of devices that share layers, in several nodes, is simulated as it is planned") {
  SearchTask const task = task_on(1e11, true);
  for (int const microbatches : {1, 4}) {
    StrategyValue const worker{.batching = {.microbatches = microbatches}, .tensor = 4};
    WorkerStep const step = rewritten_worker_step(worker, *task.network, task.machine,
                                                  task.precision, task.batch_per_worker);
    REQUIRE(step.problem.empty());
    CostGraph const graph = static_costs(*task.network, task.machine, task.precision,
                                         task.batch_per_worker / microbatches);
    SimulatedStep const simulated = simulate_worker(worker, step, graph, task.machine);
    CHECK(simulated.last_pass == doctest::Approx(step.seconds));
  }
}

}  // namespace wide_search_test
