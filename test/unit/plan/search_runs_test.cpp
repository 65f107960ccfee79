// SPDX-License-Identifier: Apache-2.0
// Workers of one stage that compute runs of layers again where keeping all does not fit.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/models/gpt.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/bounded_search.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/plan/search/simulate_worker.hpp>
#include <tandem/plan/search/worker_tiles.hpp>
#include <tandem/plan/search/workers.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/types/hybrid.hpp>
#include <tandem/strategy/types/model_parallel.hpp>
#include <tandem/strategy/types/spatial_parallel.hpp>
#include <tandem/strategy/types/tensor_parallel.hpp>

#include "worker_memory_check.hpp"

namespace search_runs_test {

using namespace tandem;
using test::check_worker_memory;

constexpr int batch = 8;

struct Small : models::Gpt<65, 8, 16, 2, 6> {};

template <int Every>
using Runs = ModelParallel<Auto<1>, Checkpoint<tandem::Every<Every>>>;

/// Searches for Small.
struct Search {
  SearchTask task{.machine = dgx1_v100(),
                  .batch_per_worker = batch,
                  .most_devices_a_worker = 2,
                  .network = graph<Small>,
                  .computed = true};

  CostGraph operator()(int samples) const {
    return static_costs(graph<Small>, task.machine, MathPrecision::fp32, samples);
  }
  [[nodiscard]] std::vector<Plan> plans(int devices) const {
    return search_plans(WorkerSteps{task, *this}, EpochCurve::measured({{1, 1}}), devices);
  }
  /// Of workers of one device, in the order of the search.
  [[nodiscard]] std::vector<Plan> alone(int devices) const {
    std::vector<Plan> all = plans(devices);
    all.erase(std::remove_if(all.begin(), all.end(),
                             [](Plan const& plan) { return plan.worker.replica_devices() > 1; }),
              all.end());
    return all;
  }
};

bool has_runs(Plan const& plan) { return plan.worker.checkpoint.every > 0; }

template <class S>
double bytes_of(int replicas) {
  return static_cast<double>(
      device_memory<Small, S, test::Momentum, Fp32>(batch * replicas, 0).total());
}

TEST_CASE("runs that are computed again: the search's memory is that of the type") {
  WorkerStep const whole{.sizes = {graph<Small>.tops}};
  StrategyValue worker{.checkpoint = {1}};
  check_worker_memory<Small, Runs<1>>(worker, whole, batch);
  check_worker_memory<Small, Hybrid<DataParallel<2, ShardedState>, Runs<1>>>(worker, whole, batch);
  worker.checkpoint.every = 3;
  check_worker_memory<Small, Hybrid<DataParallel<2, ShardedParameters>, Runs<3>>>(worker, whole,
                                                                                  batch);
  worker = {.batching = {.microbatches = 4}, .checkpoint = {2}};
  check_worker_memory<Small, ModelParallel<Auto<1>, Microbatches<4>, Checkpoint<Every<2>>>>(
      worker, whole, batch);
  worker = {.checkpoint = {2}, .tensor = 2};
  check_worker_memory<Small, TensorParallel<2, Checkpoint<Every<2>>>>(worker, whole, batch);
  worker.sequence_rows = true;
  check_worker_memory<Small, TensorParallel<2, SequenceRows, Checkpoint<Every<2>>>>(worker, whole,
                                                                                    batch);
}

TEST_CASE("ResNet-18: the search's memory is that of the type") {
  using Net = models::ResNet18<10>;
  WorkerStep const whole{.sizes = {graph<Net>.tops}};
  check_worker_memory<Net, Runs<2>>({.checkpoint = {2}}, whole, batch);
  StrategyValue const tiled{.checkpoint = {2}, .tensor = 2, .tiles = {2, 1}};
  check_worker_memory<Net, SpatialParallel<2, 1, Checkpoint<Every<2>>>>(tiled, whole, batch);
  CHECK(strategy_type({.worker = tiled, .step = whole}) ==
        "SpatialParallel<2, 1, Checkpoint<Every<2>>>");
  auto const seconds = [&](int every) {  // of a step, and of it in passes
    StrategyValue worker = tiled;
    worker.checkpoint.every = every;
    WorkerStep const step =
        tiled_worker_step(worker, graph<Net>, dgx1_v100(), MathPrecision::fp32, batch);
    return std::vector<double>{step.seconds, step.seconds * (1 - step.idle)};
  };
  CHECK(seconds(2)[0] > 1.2 * seconds(0)[0]);
  CHECK(seconds(2)[1] > 1.2 * seconds(0)[1]);
  CHECK(seconds(2)[0] == doctest::Approx(seconds(3)[0]));
}

TEST_CASE("where all is kept and fits, nothing is computed again") {
  Search search;
  search.task.memory = 1e12;
  std::vector<Plan> const plans = search.plans(4);
  CHECK(std::none_of(plans.begin(), plans.end(), has_runs));
  search.task.memory = search.alone(4)[0].step.memory;
  CHECK(search.alone(4).size() == 1);
}

TEST_CASE("where it does not, runs are, of the length that needs least") {
  Search search;
  search.task.memory = 1e12;
  Plan const kept = search.alone(1)[0];
  CHECK(kept.step.memory == bytes_of<SingleDevice<>>(1));
  search.task.memory = kept.step.memory - 1;
  Plan const again = search.alone(1)[0];
  REQUIRE(again.feasible());
  CHECK(strategy_type(again) == "ModelParallel<Auto<1>, Checkpoint<Every<1>>>");
  CHECK(again.step.memory == bytes_of<Runs<1>>(1));
  for (double const other : {bytes_of<Runs<2>>(1), bytes_of<Runs<3>>(1), bytes_of<Runs<4>>(1)}) {
    CHECK(again.step.memory <= other);
  }
  double forward = 0;
  for (CostNode const& node : search(batch).node) {
    forward += node.forward;
  }
  CHECK(again.time.step == doctest::Approx(kept.time.step + forward));
  CHECK(simulate_worker(again.worker, again.step, search(batch), search.task.machine).last_pass ==
        doctest::Approx(again.step.seconds));
  CHECK_FALSE(search.alone(1)[1].feasible());  // it is listed, and why it cannot be
  search.task.memory = again.step.memory - 1;
  CHECK_FALSE(search.alone(1)[0].feasible());
}

TEST_CASE("replicas compute again or share, whichever is sooner") {
  Search search;
  search.task.memory = 1e12;
  search.task.memory = search.alone(4)[0].step.memory - 1;
  std::vector<Plan> const plans = search.alone(4);
  REQUIRE(plans.size() == 2);
  CHECK(plans[0].time.step <= plans[1].time.step);
  Plan const& again = plans[has_runs(plans[0]) ? 0 : 1];
  CHECK(strategy_type(again) ==
        "Hybrid<DataParallel<4>, ModelParallel<Auto<1>, "
        "Checkpoint<Every<1>>>>");
  CHECK(again.step.memory == bytes_of<Hybrid<DataParallel<4>, Runs<1>>>(4));
  search.task.memory = bytes_of<Hybrid<DataParallel<4, ShardedState>, Runs<1>>>(4);
  Plan const both = search.alone(4)[0];
  CHECK(both.feasible());
  CHECK(strategy_type(both) ==
        "Hybrid<DataParallel<4, ShardedState>, ModelParallel<Auto<1>, "
        "Checkpoint<Every<1>>>>");
}

TEST_CASE("devices that share layers compute them and their sums again") {
  Search search;
  search.task.memory = 1e12;
  StrategyValue const worker{.tensor = 2};
  auto const shared = [&](bool again) {
    std::vector<Plan> const all = search.plans(2);
    return *std::find_if(all.begin(), all.end(), [&](Plan const& plan) {
      return plan.worker.shares_all() && !plan.worker.sequence_rows && has_runs(plan) == again;
    });
  };
  Plan const kept = shared(false);
  REQUIRE(kept.feasible());
  search.task.memory = kept.step.memory - 1;
  Plan const again = shared(true);
  REQUIRE(again.feasible());
  CHECK(strategy_type(again) == "TensorParallel<2, Checkpoint<Every<1>>>");
  CHECK(again.step.memory == bytes_of<TensorParallel<2, Checkpoint<Every<1>>>>(1));
  CHECK(again.step.seconds > kept.step.seconds);
  CHECK(again.step.idle > 0);
}

TEST_CASE("the search by bounds finds the same") {
  Search search;
  search.task.wide = true;
  search.task.memory = 1e12;
  EpochCurve const epochs = EpochCurve::measured({{1, 1}});
  std::vector<int> const devices{1, 2, 8};
  for (double const share : {2.0, 0.95, 0.8, 0.65}) {
    CAPTURE(share);
    search.task.memory = share * bytes_of<SingleDevice<>>(1);
    SearchResult const bounded = search_bounded(search.task, search, epochs, devices);
    SearchResult const all = search_all(WorkerSteps{search.task, search}, epochs, devices);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      Plan const& best = all.of[i].plans.front();
      CHECK(bounded.of[i].plans.front().feasible() == best.feasible());
      if (best.feasible()) {
        CHECK(bounded.of[i].plans.front().time.seconds() == best.time.seconds());
        CHECK(strategy_type(bounded.of[i].plans.front()) == strategy_type(best));
      }
    }
  }
}

TEST_CASE("a run's forward pass comes before its backward pass") {
  CostGraph graph;
  for (int part = 0; part < 5; ++part) {
    graph.node.push_back({.forward = 1.0 + part, .backward = 10, .part = part});
  }
  CHECK(detail::costs_again(graph, 0).time() == graph.time());
  CostGraph const again = detail::costs_again(graph, 2);
  std::vector<double> backward;
  for (CostNode const& node : again.node) {
    backward.push_back(node.backward);
  }
  CHECK(backward == std::vector<double>{10, 13, 10, 17, 15});
  CHECK(detail::tried_runs(25) == std::vector<int>{1, 2, 4, 5});
  CHECK(detail::tried_runs(4) == std::vector<int>{1, 2});
  CHECK(detail::tried_runs(1).empty());
}

}  // namespace search_runs_test
