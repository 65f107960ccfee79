// SPDX-License-Identifier: Apache-2.0
// Workers whose devices have other layers or shapes than the network.
#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/models/gpt.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/plan/search/workers.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/types/hybrid.hpp>
#include <tandem/strategy/types/pipeline.hpp>
#include <tandem/strategy/types/tensor_parallel.hpp>

#include "worker_memory_check.hpp"

namespace search_rewriting_test {

using namespace tandem;
using test::check_worker_memory;

Machine hosts() {  // so many that share a node
  Machine machine = two_cpus();
  machine.devices_per_node = 8;
  machine.nodes = 0;
  return machine;
}

struct Pairs
    : Network<Vector<32>, Sequential<Linear<64>, ReLU, Linear<48>, Linear<96>, ReLU, Linear<8>>> {};

TEST_CASE("devices that share layers: their memory, and the sums between") {
  constexpr int batch = 16;
  StrategyValue const worker{.tensor = 4};
  Machine const machine = dgx1_v100();
  WorkerStep const step =
      rewritten_worker_step(worker, graph<Pairs>, machine, MathPrecision::fp32, batch);
  REQUIRE(step.problem.empty());
  check_worker_memory<Pairs, TensorParallel<4>>(worker, step, batch);
  check_worker_memory<Pairs, Hybrid<DataParallel<2, ShardedState>, TensorParallel<4>>>(worker, step,
                                                                                       batch);
  auto const sum = [&](int columns) {  // of both pairs' outputs, and the second's input's gradient
    return all_reduce_seconds(machine, {4, 1}, 4.0 * batch * columns);
  };
  CHECK(step.seconds * (1 - step.idle) + sum(48) + sum(48) + sum(8) ==
        doctest::Approx(step.seconds));
  CHECK(step.gradient_bytes.size() == 4);

  SearchTask const task{.machine = machine,
                        .batch_per_worker = batch,
                        .most_devices_a_worker = 4,
                        .network = graph<Pairs>,
                        .computed = true};
  WorkerSteps const steps{task, [&](int samples) {
                            return static_costs(graph<Pairs>, machine, MathPrecision::fp32,
                                                samples);
                          }};
  std::vector<std::string> types;
  for (Plan const& plan : search_plans(steps, EpochCurve::measured({{1, 1}}), 8)) {
    if (plan.worker.shares_all()) {
      CHECK(plan.feasible());
      types.push_back(strategy_type(plan));
    }
  }
  std::sort(types.begin(), types.end());
  CHECK(types == std::vector<std::string>{"Hybrid<DataParallel<2>, TensorParallel<4>>",
                                          "Hybrid<DataParallel<4>, TensorParallel<2>>"});
}

struct Words : Network<Tokens<8, 4096>, Sequential<Embedding<4096, 256>, Vocabulary<4096>>> {};

TEST_CASE("devices that share words: two sums of rows, and four doubles of each row and device") {
  StrategyValue const worker{.tensor = 4};
  for (Machine const& machine : {hosts(), dgx_a100()}) {
    WorkerStep const step =
        rewritten_worker_step(worker, graph<Words>, machine, MathPrecision::fp32, 16);
    REQUIRE(step.problem.empty());
    CHECK(step.seconds * step.idle ==
          doctest::Approx(2 * all_reduce_seconds(machine, {4, 1}, 4.0 * 16 * 8 * 256) +
                          all_gather_seconds(machine, {4, 1}, 8.0 * 16 * 8 * 4 * 4)));
  }
}

TEST_CASE("devices share convolutions, on GPUs, too") {
  StrategyValue const worker{.tensor = 2};
  GraphView const network = graph<models::ResNet18<10>>;
  for (Machine const& machine : {hosts(), dgx_a100()}) {
    CHECK(rewritten_worker_step(worker, network, machine, MathPrecision::fp32, 16).problem.empty());
  }
}

struct Small : models::Gpt<65, 8, 16, 2, 3> {};

TEST_CASE("devices that share the layers of a pipeline's stages") {
  StrategyValue worker = detail::chain_worker("one_f_one_b", 2, 4);
  worker.tensor = 2;
  WorkerStep const step{.sizes = {3, 4}};
  using Pipe = Pipeline<OneFOneB, 4, Split<3>, Split<4>>;
  check_worker_memory<Small, Hybrid<Pipe, TensorParallel<2>>>(worker, step, 16);
  check_worker_memory<Small, Hybrid<DataParallel<2, ShardedParameters>, Pipe, TensorParallel<2>>>(
      worker, step, 16);
  worker.checkpoint = {CheckpointRule::boundaries};
  check_worker_memory<
      Small,
      Hybrid<Pipeline<OneFOneB, 4, Split<3>, Split<4>, Checkpoint<Boundaries>>, TensorParallel<2>>>(
      worker, step, 16);
  worker.checkpoint = {};
  worker.sequence_rows = true;
  check_worker_memory<Small, Hybrid<Pipe, TensorParallel<2, SequenceRows>>>(worker, step, 16);
  // The same words are types, those above.
  CHECK(strategy_type({.worker = worker, .step = step}) ==
        "Hybrid<Pipeline<OneFOneB, 4, Split<3>, Split<4>>, TensorParallel<2, SequenceRows>>");
  worker.sequence_rows = false;
  CHECK(strategy_type(
            {.worker = worker, .workers = 2, .shard = Sharding::parameters, .step = step}) ==
        "Hybrid<DataParallel<2, ShardedParameters>, Pipeline<OneFOneB, 4, Split<3>, Split<4>>, "
        "TensorParallel<2>>");
}

TEST_CASE("stages of shared layers wait for their sums, rows for as much") {
  Machine slow = hosts();
  slow.inside.bandwidth = 1e6;
  Machine fast = slow;
  fast.inside = {.bandwidth = 1e18, .latency = 0};
  auto const step_on = [&](Machine const& machine, bool rows) {
    StrategyValue worker = detail::chain_worker("one_f_one_b", 2, 4);
    worker.tensor = 2;
    worker.sequence_rows = rows;
    return rewritten_worker_step(worker, graph<Small>, machine, MathPrecision::fp32, 16);
  };
  WorkerStep const step = step_on(slow, false);
  WorkerStep const free = step_on(fast, false);
  REQUIRE(step.stages.size() == 2);
  double waiting = 0;
  double rows = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    waiting += step.stages[s].forward - free.stages[s].forward;
    rows += step_on(slow, true).stages[s].forward - step_on(fast, true).stages[s].forward;
  }
  double const once = all_reduce_seconds(slow, {2, 1}, 4.0 * 4 * 8 * 16);
  CHECK(waiting == doctest::Approx(6 * once));  // of three blocks two each
  CHECK(rows > 0.9 * waiting);
  CHECK(rows < 1.5 * waiting);  // what enters a stage is dealt, what leaves it collected
  CHECK(step_on(slow, true).ties > 0);
  CHECK(step.seconds > free.seconds + 5 * 6 * once);  // 4 microbatches on 2 devices fill 5 times
}

struct Recurrent
    : Network<Tokens<8, 40>, Sequential<Embedding<40, 16>, Lstm<16>, Lstm<16>, Vocabulary<40>>> {};

TEST_CASE("chunks of time: a pipeline of one microbatch, its memory and its wave") {
  StrategyValue worker = detail::chain_worker("one_f_one_b", 2, 2);
  worker.batching.chunks = 4;
  check_worker_memory<Recurrent, Pipeline<OneFOneB, 2, Chunks<4>, Split<2>, Split<2>>>(
      worker, {.sizes = {2, 2}}, 16);
  check_worker_memory<Small, Pipeline<OneFOneB, 2, Chunks<4>, Split<3>, Split<4>>>(
      worker, {.sizes = {3, 4}}, 16);
  CHECK(strategy_type({.worker = worker, .step = {.sizes = {2, 2}}}) ==
        "Pipeline<OneFOneB, 2, Chunks<4>, Split<2>, Split<2>>");
  worker.batching.microbatches = 1;
  Machine machine = hosts();
  machine.inside = {.bandwidth = 1e18, .latency = 0};
  machine.launch_overhead = 0;
  auto const seconds = [&](int chunks) {
    worker.batching.chunks = chunks;
    return rewritten_worker_step(worker, graph<Recurrent>, machine, MathPrecision::fp32, 16)
        .seconds;
  };
  CHECK(seconds(4) < 0.8 * seconds(1));
}

TEST_CASE("microbatches one after another on one device, and where devices share all layers") {
  WorkerStep const whole{.sizes = {graph<Pairs>.tops}};
  StrategyValue worker = detail::chain_worker("sequential", 1, 4);
  check_worker_memory<Pairs, DataParallel<2, Microbatches<4>>>(worker, whole, 8);
  check_worker_memory<Pairs, DataParallel<2, Microbatches<4>, ShardedState>>(worker, whole, 8);
  CHECK(strategy_type({.worker = worker}) == "SingleDevice<Microbatches<4>>");
  CHECK(strategy_type({.worker = worker, .workers = 2, .shard = Sharding::state}) ==
        "DataParallel<2, Microbatches<4>, ShardedState>");
  worker.tensor = 2;
  check_worker_memory<Pairs, TensorParallel<2, Microbatches<4>>>(worker, whole, 8);
  CHECK(strategy_type({.worker = worker}) == "TensorParallel<2, Microbatches<4>>");
  CHECK(strategy_type({.worker = worker, .workers = 3}) ==
        "Hybrid<DataParallel<3>, TensorParallel<2, Microbatches<4>>>");
  auto const step_of = [&](int microbatches, int batch) {
    worker.batching.microbatches = microbatches;
    return rewritten_worker_step(worker, graph<Pairs>, hosts(), MathPrecision::fp32, batch);
  };
  CHECK(step_of(4, 8).seconds == doctest::Approx(4 * step_of(1, 2).seconds));
  CHECK(step_of(4, 8).idle == doctest::Approx(step_of(1, 2).idle));
}

TEST_CASE("a wide search takes fewer samples at once where all do not fit") {
  SearchTask task{.machine = dgx1_v100(),
                  .batch_per_worker = 64,
                  .most_devices_a_worker = 1,
                  .wide = true,
                  .network = graph<models::ResNet18<10>>};
  auto const costs = [&](int samples) {
    return static_costs(*task.network, task.machine, MathPrecision::fp32, samples);
  };
  auto const best_of = [&] {
    return search_plans(WorkerSteps{task, costs}, EpochCurve::measured({{1, 1}}), 8).front();
  };
  Plan const whole = best_of();
  CHECK(strategy_type(whole) == "DataParallel<8>");
  task.memory = 0.4 * whole.step.memory;
  Plan const parts = best_of();
  CHECK(parts.feasible());
  CHECK(parts.worker.batching.microbatches > 1);
  CHECK(parts.step.memory <= task.memory);
  CHECK(parts.step.seconds ==
        doctest::Approx(parts.worker.batching.microbatches *
                        costs(64 / parts.worker.batching.microbatches).time()));
  // Sums hide beside the last pass alone.
  CHECK(parts.reduction == detail::exposed_reduction(costs(64 / parts.worker.batching.microbatches),
                                                     task.machine, 8, parts.shard,
                                                     parts.worker.batching.microbatches));
  CHECK(parts.reduction >= whole.reduction);
}

TEST_CASE("chunks of time through stages whose layers devices share") {
  StrategyValue worker = detail::chain_worker("one_f_one_b", 2, 2);
  worker.tensor = 2;
  worker.batching.chunks = 4;
  WorkerStep const step{.sizes = {3, 4}};
  using Pipe = Pipeline<OneFOneB, 2, Chunks<4>, Split<3>, Split<4>>;
  check_worker_memory<Small, Hybrid<Pipe, TensorParallel<2>>>(worker, step, 16);
  check_worker_memory<Small, Hybrid<DataParallel<2, ShardedState>, Pipe, TensorParallel<2>>>(
      worker, step, 16);
  CHECK(strategy_type({.worker = worker, .workers = 2, .step = step}) ==
        "Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Chunks<4>, Split<3>, Split<4>>, "
        "TensorParallel<2>>");
  auto const waiting_for = [&](int chunks) {  // for the sums of a pass of the first stage
    worker.batching.chunks = chunks;
    auto const pass_on = [&](double bandwidth) {
      Machine machine = hosts();
      machine.inside = {.bandwidth = bandwidth, .latency = 0};
      return rewritten_worker_step(worker, graph<Small>, machine, MathPrecision::fp32, 16)
          .stages.at(0)
          .forward;
    };
    return pass_on(1e6) - pass_on(1e18);
  };
  CHECK(waiting_for(4) == doctest::Approx(waiting_for(1) / 4));  // of a quarter of the rows
}

// All that a search tries of a network on up to so many devices a worker.
std::vector<WorkerSteps::One> tried_on(GraphView network, Machine const& machine, int devices) {
  SearchTask const task{.machine = machine,
                        .batch_per_worker = 8,
                        .most_devices_a_worker = devices,
                        .network = network,
                        .computed = true};
  return WorkerSteps{
      task,
      [&](int samples) { return static_costs(network, machine, MathPrecision::fp32, samples); }}
      .all();
}

TEST_CASE("a search tries both, chunks of time and devices that share layers, where both can be") {
  auto const both_on = [](Machine const& machine) {
    std::set<std::array<int, 3>> both;
    for (WorkerSteps::One const& one : tried_on(graph<Small>, machine, 8)) {
      if (one.strategy.tensor > 1 && one.strategy.batching.chunks > 1) {
        CHECK(one.step.problem.empty());
        both.insert({one.strategy.devices(), one.strategy.tensor, one.strategy.batching.chunks});
      }
    }
    return both;
  };
  CHECK(both_on(hosts()) == std::set<std::array<int, 3>>{{2, 2, 2},
                                                         {2, 2, 4},
                                                         {2, 2, 8},
                                                         {2, 4, 2},
                                                         {2, 4, 4},
                                                         {2, 4, 8},
                                                         {4, 2, 2},
                                                         {4, 2, 4},
                                                         {4, 2, 8}});
  CHECK(both_on(dgx_a100()) == both_on(hosts()));
}

struct TwoWays
    : Network<Tokens<8, 40>,
              Sequential<Embedding<40, 16>, Lstm<16, Bidirectional>, Linear<16>, Vocabulary<40>>> {
};

// The refusals of @p network's chunks of time.
std::vector<std::string> chunks_refused(GraphView network, Machine const& machine) {
  std::vector<std::string> refused;
  for (WorkerSteps::One const& one : tried_on(network, machine, 4)) {
    if (one.strategy.batching.chunks > 1 && !one.step.problem.empty()) {
      refused.push_back(one.step.problem);
    }
  }
  return refused;
}

TEST_CASE("what cannot come in chunks of time says so once for each number of them") {
  CHECK(chunks_refused(graph<Recurrent>, hosts()).empty());
  CHECK(chunks_refused(graph<Small>, hosts()).empty());
  CHECK(chunks_refused(graph<Small>, dgx_a100()).empty());
  std::vector<std::string> refused;
  for (int const chunks : {2, 4, 8}) {
    refused.push_back(detail::sentence_of({detail::Rule::chunks_layer, 2, chunks}));
  }
  CHECK(chunks_refused(graph<TwoWays>, hosts()) == refused);
}

}  // namespace search_rewriting_test
