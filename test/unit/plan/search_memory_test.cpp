// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/plan/search/workers.hpp>
#include <tandem/schedule/verify/verify.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/types/hybrid.hpp>

#include <tiny_network.hpp>

#include "worker_memory_check.hpp"

namespace search_memory_test {

using namespace tandem;
using test::check_worker_memory;

struct TwoStates {
  static constexpr int states() { return 2; }
};

/// Of a network cut in two behind its first @p First top-level parts.
template <class Net, int First>
struct InTwo {
  static constexpr int rest = graph<Net>.tops - First;
  static inline WorkerStep const step{.sizes = {First, rest}};

  template <class Schedule, class... Options>
  using Pipe = Pipeline<Schedule, 4, Split<First>, Split<rest>, Options...>;

  static void check_pipelines(int batch) {
    StrategyValue worker = detail::chain_worker("one_f_one_b", 2, 4);
    check_worker_memory<Net, Pipe<OneFOneB>>(worker, step, batch);
    worker.schedule = "gpipe";
    check_worker_memory<Net, Pipe<GPipe>>(worker, step, batch);
    worker.checkpoint = {CheckpointRule::boundaries};
    check_worker_memory<Net, Pipe<GPipe, Checkpoint<Boundaries>>>(worker, step, batch);
    worker.schedule = "one_f_one_b";
    check_worker_memory<Net, Pipe<OneFOneB, Checkpoint<Boundaries>>>(worker, step, batch);
  }

  static void check_models(int batch) {
    StrategyValue worker = detail::chain_worker("sequential", 2);
    check_worker_memory<Net, ModelParallel<Split<First>, Split<rest>>>(worker, step, batch);
    worker.checkpoint = {CheckpointRule::boundaries};
    check_worker_memory<Net, ModelParallel<Split<First>, Split<rest>, Checkpoint<Boundaries>>>(
        worker, step, batch);
    worker = detail::chain_worker("cross_model", 2, 2);
    check_worker_memory<Net, CrossModelParallel<AverageGradients, Split<First>, Split<rest>>>(
        worker, step, batch);
    worker.checkpoint = {CheckpointRule::boundaries};
    check_worker_memory<Net, CrossModelParallel<AverageGradients, Split<First>, Split<rest>,
                                                Checkpoint<Boundaries>>>(worker, step, batch);
    check_worker_memory<Net, DataParallel<2>>({}, {.sizes = {graph<Net>.tops}}, batch);
  }
};

TEST_CASE("GoogLeNet: the search's memory is that of the type") {
  InTwo<models::GoogLeNet<10>, 5>::check_pipelines(64);
  InTwo<models::GoogLeNet<10>, 5>::check_models(64);
}

TEST_CASE("ResNet-18: the search's memory is that of the type") {
  InTwo<models::ResNet18<10>, 6>::check_pipelines(32);
  InTwo<models::ResNet18<10>, 6>::check_models(32);
}

using Net = test::TinyNet;
using Two = InTwo<Net, 4>;

TEST_CASE("every other schedule") {
  StrategyValue worker = detail::chain_worker("zero_bubble_h1", 2, 4);
  check_worker_memory<Net, Two::Pipe<ZeroBubbleH1>>(worker, Two::step, 16);
  worker.schedule = "chimera";
  check_worker_memory<Net, Two::Pipe<Chimera>>(worker, Two::step, 16);
  worker = detail::chain_worker("interleaved", 2, 4, 2);
  check_worker_memory<Net, Pipeline<Interleaved<2>, 4, Split<2>, Split<2>, Split<2>, Split<3>>>(
      worker, {.sizes = {2, 2, 2, 3}}, 16);
  worker = detail::chain_worker("zero_bubble_v", 2, 4);
  check_worker_memory<Net, Pipeline<ZeroBubbleV, 4, Split<2>, Split<2>, Split<2>, Split<3>>>(
      worker, {.sizes = {2, 2, 2, 3}}, 16);
}

TEST_CASE("a further copy of what an update may take back") {
  StrategyValue worker = detail::chain_worker("zero_bubble_h2", 2, 4);
  check_worker_memory<Net, Two::Pipe<ZeroBubbleH2>>(worker, Two::step, 16);
  worker.post_validated = true;
  check_worker_memory<Net, Two::Pipe<PostValidated<ZeroBubbleH2>>>(worker, Two::step, 16);
  check_worker_memory<Net, Hybrid<DataParallel<2>, Two::Pipe<PostValidated<ZeroBubbleH2>>>>(
      worker, Two::step, 16);
  worker = detail::chain_worker("zero_bubble_v", 2, 4);
  worker.post_validated = true;
  check_worker_memory<
      Net, Pipeline<PostValidated<ZeroBubbleV>, 4, Split<2>, Split<2>, Split<2>, Split<3>>>(
      worker, {.sizes = {2, 2, 2, 3}}, 16);
}

TEST_CASE("a gradient that comes before it is wanted is held beside what is computed meanwhile") {
  StrategyValue const worker = detail::chain_worker("one_f_one_b", 2, 4);
  WorkerCut cut = detail::worker_cut(graph<Net>, worker, Two::step, 16);
  std::vector<DeviceMemory> const usual = worker_memory(graph<Net>, cut, {});
  auto& row = cut.table.front();  // rows of one's own may wait for a gradient early
  auto const begun = std::find_if(row.begin(), row.end(), [](Action const& action) {
    return action.kind == ActionKind::forward && action.index == 1;
  });
  auto const comes = std::find_if(row.begin(), row.end(), [](Action const& action) {
    return action.kind == ActionKind::receive_backward;
  });
  REQUIRE(begun < comes);
  std::rotate(begun, comes, comes + 1);
  REQUIRE(verify(cut.table, cut.map, worker.batching.microbatches));
  std::vector<DeviceMemory> const early = worker_memory(graph<Net>, cut, {});
  CHECK(early[0].activation_gradients > usual[0].activation_gradients);
  CHECK(early[0].kept == usual[0].kept);
  CHECK(early[1].total() == usual[1].total());
}

TEST_CASE("versions of weights, where gradients are late") {
  WorkerStep const step{.sizes = {3, 3, 3}};
  auto const compare = [&]<class Schedule, int Count = 1>() {
    check_worker_memory<Net, Pipeline<Schedule, Count, Split<3>, Split<3>, Split<3>>>(
        detail::chain_worker(Schedule::name, 3, Count), step, 12);
  };
  compare.operator()<PipeDream>();
  compare.operator()<PipeDreamVerticalSync>();
  compare.operator()<DelayedGradient>();
  compare.operator()<WeightPrediction>();
  compare.operator()<FeaturesReplay>();
  compare.operator()<PipelinedModel>();
  compare.operator()<PipeDream2BW, 3>();
}

inline constexpr auto branches = place<Net>({{"3.body", 1}, {"4.0", 1}, {"4.2", 2}, {"6", 1}});

TEST_CASE("placed nodes") {
  WorkerStep step;
  for (std::int16_t const device : branches.places.device) {
    step.placement.push_back(device);
  }
  check_worker_memory<Net, ModelParallel<Placed<branches>>>(detail::placed_worker(3), step, 16);
}

TEST_CASE("16 bits: parameters in 32, weights in products and activations in 16") {
  StrategyValue const worker = detail::chain_worker("one_f_one_b", 2, 4);
  check_worker_memory<Net, Two::Pipe<OneFOneB>, Bf16>(worker, Two::step, 16, MathPrecision::bf16);
  check_worker_memory<Net, Two::Pipe<OneFOneB>, Fp64>(worker, Two::step, 16, MathPrecision::fp64);
}

TEST_CASE("replicas that have a part of the optimizer's state each") {
  StrategyValue const worker = detail::chain_worker("one_f_one_b", 2, 4);
  check_worker_memory<Net, DataParallel<4, ShardedState>>({}, {.sizes = {graph<Net>.tops}}, 8);
  check_worker_memory<Net, Hybrid<DataParallel<2, ShardedState>, Two::Pipe<OneFOneB>>>(
      worker, Two::step, 16);
  check_worker_memory<Net, DataParallel<4, ShardedGradients>>({}, {.sizes = {graph<Net>.tops}}, 8);
  check_worker_memory<Net, Hybrid<DataParallel<2, ShardedGradients>, Two::Pipe<OneFOneB>>>(
      worker, Two::step, 16);
  check_worker_memory<Net, Hybrid<DataParallel<2, ShardedParameters>, Two::Pipe<OneFOneB>>>(
      worker, Two::step, 16);
}

TEST_CASE("a search shards the state where it does not fit in whole") {
  SearchTask task{.machine = dgx1_v100(),
                  .batch_per_worker = 8,
                  .bytes_of_parameter = 4,
                  .most_devices_a_worker = 2,
                  .network = graph<Net>};
  auto const costs = [&](int samples) {
    return static_costs(graph<Net>, task.machine, MathPrecision::fp32, samples);
  };
  auto const plan_of = [&](double memory, int devices) {
    task.memory = memory;
    WorkerSteps const steps{task, costs};
    return make_plan(steps, steps.all().front(), EpochCurve::measured({{1, 1}}), devices);
  };
  Plan const whole = plan_of(1e12, 4);
  REQUIRE(whole.worker.replica_devices() == 1);
  CHECK(whole.shard == Sharding::none);
  CHECK(strategy_type(whole) == "DataParallel<4>");
  Plan const part = plan_of(whole.step.memory - 1, 4);
  CHECK(part.feasible());
  CHECK(strategy_type(part) == "DataParallel<4, ShardedState>");
  auto const bytes_of = [](auto strategy) {  // of the type
    return static_cast<double>(
        device_memory<Net, decltype(strategy), TwoStates, Fp32>(32, 0).total());
  };
  CHECK(whole.step.memory == bytes_of(DataParallel<4>{}));
  CHECK(part.step.memory == bytes_of(DataParallel<4, ShardedState>{}));
  CHECK(part.time.step > whole.time.step);  // weights are gathered behind the update
  CHECK_FALSE(plan_of(whole.step.memory - 1, 1).feasible());
  CHECK_FALSE(plan_of(part.step.memory - 1, 4).feasible());
}

TEST_CASE("a search for a network of the library counts so, and outputs and weights for others") {
  SearchTask task{.machine = dgx1_v100(), .batch_per_worker = 8, .most_devices_a_worker = 2};
  auto const costs = [&](int samples) {
    return static_costs(graph<Net>, task.machine, MathPrecision::fp32, samples);
  };
  WorkerSteps const outputs{task, costs};
  task.network = graph<Net>;
  WorkerSteps const tensors{task, costs};
  REQUIRE(outputs.all().size() == tensors.all().size());
  for (std::size_t i = 0; i < tensors.all().size(); ++i) {
    WorkerSteps::One const& one = tensors.all()[i];
    if (one.step.problem.empty()) {
      CAPTURE(one.strategy.schedule);
      auto const cut =
          detail::worker_cut(graph<Net>, one.strategy, one.step, task.batch_per_worker);
      CHECK(one.step.memory == detail::counted_memory(graph<Net>, task, cut));
      CHECK(one.step.memory > outputs.all()[i].step.memory);  // gradients of activations, too
    }
  }
}

struct Early;
struct Named
    : Network<Vector<64>, Sequential<Linear<64>, Let<Early>, ReLU, Linear<64>, ReLU, Linear<64>,
                                     Concat<Sequential<>, Use<Early>>, Linear<8>>> {};

TEST_CASE("values that a stage passes on") {
  StrategyValue const worker = detail::chain_worker("one_f_one_b", 3, 4);
  using S = Pipeline<OneFOneB, 4, Split<2>, Split<2>, Split<3>>;
  check_worker_memory<Named, S>(worker, {.sizes = {2, 2, 3}}, 16);
}

struct Rows
    : Network<Tokens<4, 300>, Sequential<Embedding<300, 16, RowGradient>, Linear<24>, Linear<16>,
                                         Vocabulary<300, Sampled<20>, RowGradient>>> {};

TEST_CASE("gradients of rows: those of a replica's microbatches, and of the other replicas") {
  StrategyValue const worker = detail::chain_worker("one_f_one_b", 2, 4);
  using Pipe = Pipeline<OneFOneB, 4, Split<2>, Split<2>>;
  check_worker_memory<Rows, DataParallel<3>>({}, {.sizes = {4}}, 8);
  check_worker_memory<Rows, Pipe>(worker, {.sizes = {2, 2}}, 8);
  check_worker_memory<Rows, Hybrid<DataParallel<2>, Pipe>>(worker, {.sizes = {2, 2}}, 8);
}

}  // namespace search_memory_test
