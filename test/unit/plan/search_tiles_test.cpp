// SPDX-License-Identifier: Apache-2.0
// Workers whose devices have a tile of every image.
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/leaves.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/graph/spread/volume.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/bounded_search.hpp>
#include <tandem/plan/search/search.hpp>
#include <tandem/plan/search/simulate_worker.hpp>
#include <tandem/plan/search/worker_tiles.hpp>
#include <tandem/plan/search/workers.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/types/hybrid.hpp>
#include <tandem/strategy/types/pipeline.hpp>
#include <tandem/strategy/types/spatial_parallel.hpp>

#include "worker_memory_check.hpp"

namespace search_tiles_test {

using namespace tandem;
using test::check_worker_memory;

using Conv = Conv2d<8, Kernel<3>, Padding<1>>;
using Block = Sequential<Conv, BatchNorm2d<>, ReLU>;

/// A branch, halos of one and of two, and at last whole images.
struct Images : Network<Image<3, 16, 16>,
                        Sequential<Block, Residual<Sequential<Block, Conv>>, MaxPool2d<Kernel<2>>,
                                   Conv2d<6, Kernel<5>, Padding<2>>, ReLU, Flatten, Linear<5>>> {};

/// Whose activations are most of what a device holds.
struct Large : Network<Image<3, 256, 256>,
                       Sequential<Block, Block, Block, Block, GlobalAvgPool, Flatten, Linear<5>>> {
};

struct Flat : Network<Image<1, 8, 8>, Sequential<Flatten, Linear<16>, ReLU, Linear<4>>> {};

/// No tiles divide its images.
struct Odd : Network<Image<3, 7, 7>, Sequential<Conv, ReLU, Conv, Flatten, Linear<4>>> {};

StrategyValue tiled(int height, int width, int microbatches = 1) {
  return {.batching = {.microbatches = microbatches},
          .tensor = height * width,
          .tiles = {height, width}};
}
/// A pipeline of two stages, of which each has two rows of tiles.
StrategyValue tiled_stages() {
  StrategyValue worker = detail::chain_worker("one_f_one_b", 2, 4);
  worker.tensor = 2;
  worker.tiles = {2, 1};
  return worker;
}

Machine fast() {  // eight that nothing waits for
  Machine machine = dgx1_v100();
  machine.inside = {.bandwidth = 1e18, .latency = 0};
  return machine;
}

WorkerStep step_on(Machine const& machine, StrategyValue const& worker, GraphView network,
                   int batch) {
  return tiled_worker_step(worker, network, machine, MathPrecision::fp32, batch);
}

TEST_CASE("devices that have tiles hold what their type says, alone and in stages") {
  constexpr int batch = 8;
  WorkerStep const whole{.sizes = {graph<Images>.tops}};
  check_worker_memory<Images, SpatialParallel<2, 1>>(tiled(2, 1), whole, batch);
  check_worker_memory<Images, SpatialParallel<2, 4>>(tiled(2, 4), whole, batch);
  check_worker_memory<Images, SpatialParallel<2, 2>, Bf16>(tiled(2, 2), whole, batch,
                                                           MathPrecision::bf16);
  check_worker_memory<Images, SpatialParallel<1, 2, Microbatches<4>>>(tiled(1, 2, 4), whole, batch);
  check_worker_memory<Images, Hybrid<DataParallel<2>, SpatialParallel<2, 2>>>(tiled(2, 2), whole,
                                                                              batch);
  check_worker_memory<models::ResNet18<10>, SpatialParallel<2, 2>>(
      tiled(2, 2), {.sizes = {graph<models::ResNet18<10>>.tops}}, batch);

  StrategyValue worker = tiled_stages();
  WorkerStep const stages{.sizes = {3, 4}};
  check_worker_memory<Images,
                      Hybrid<Pipeline<OneFOneB, 4, Split<3>, Split<4>>, SpatialParallel<2, 1>>>(
      worker, stages, batch);
  CHECK(strategy_type({.worker = worker, .workers = 2, .step = stages}) ==
        "Hybrid<DataParallel<2>, Pipeline<OneFOneB, 4, Split<3>, Split<4>>, SpatialParallel<2, "
        "1>>");
  worker.checkpoint = {CheckpointRule::boundaries};
  check_worker_memory<Images,
                      Hybrid<Pipeline<OneFOneB, 4, Split<3>, Split<4>, Checkpoint<Boundaries>>,
                             SpatialParallel<2, 1>>>(worker, stages, batch);
}

// What the compiler's graph of each rank exchanges, as describe() says it.
template <class S>
SpreadVolume volume() {
  return spread_volume(detail::RankGraph<Program<Images, S, 4>, 0>::graph);
}

template <class S>
void check_exchanges(int height, int width) {
  constexpr int batch = 8;
  Machine slow = fast();
  slow.inside.bandwidth = 1e6;
  WorkerStep const own = step_on(slow, tiled(height, width), graph<Images>, batch);
  WorkerStep const free = step_on(fast(), tiled(height, width), graph<Images>, batch);
  REQUIRE(own.problem.empty());
  double const statistics = all_reduce_seconds(slow, {height * width, 1}, 8.0 * (2 * 8 + 1));
  SpreadVolume const sent = volume<S>();
  // Of two batch norms, in both passes.
  CHECK(own.seconds - free.seconds ==
        doctest::Approx(4.0 * batch * static_cast<double>(sent.forward + sent.backward) / 1e6 +
                        4 * statistics));
  CHECK(own.seconds * (1 - own.idle) == doctest::Approx(free.seconds));
}

TEST_CASE("a step waits for the bytes that describe says of exchanges") {
  check_exchanges<SpatialParallel<2, 1>>(2, 1);
  check_exchanges<SpatialParallel<2, 2>>(2, 2);
  check_exchanges<SpatialParallel<4, 2>>(4, 2);
}

TEST_CASE("so does each stage for those of its own layers, and for their gradients' sum at last") {
  StrategyValue worker = tiled_stages();
  constexpr int samples = 2;
  Machine slow = fast();
  slow.inside.bandwidth = 1e8;
  WorkerStep const own = step_on(slow, worker, graph<Images>, 4 * samples);
  WorkerStep const free = step_on(fast(), worker, graph<Images>, 4 * samples);
  REQUIRE(own.sizes == std::vector<int>{2, 5});
  REQUIRE(free.sizes == own.sizes);
  using S = Hybrid<Pipeline<OneFOneB, 4, Split<2>, Split<5>>, SpatialParallel<2, 1>>;
  using P = Program<Images, S, 4>;
  SpreadVolume const sent[] = {spread_volume(detail::RankGraph<P, 0>::graph),
                               spread_volume(detail::RankGraph<P, 1>::graph)};
  double const statistics = all_reduce_seconds(slow, {2, 1}, 8.0 * (2 * 8 + 1));
  for (std::size_t s = 0; s < 2; ++s) {  // of the first stage two batch norms
    double const norms = s == 0 ? 2 * statistics : 0;
    CHECK(own.stages[s].forward - free.stages[s].forward ==
          doctest::Approx(4.0 * samples * static_cast<double>(sent[s].forward) / 1e8 + norms));
    CHECK(own.stages[s].backward - free.stages[s].backward ==
          doctest::Approx(4.0 * samples * static_cast<double>(sent[s].backward) / 1e8 + norms));
  }
  double const whole = step_on(slow, tiled(2, 1), graph<Images>, samples).ties;
  CHECK(own.ties > whole / 2);  // of the stage that has more
  CHECK(own.ties < whole);
}

TEST_CASE("each neighbour's message takes its latency, what is beside a corner, too") {
  Node node{.kind = NodeKind::exchange};
  node.sharing.dealt = Dealt::halo;
  node.sharing.halo = {.top = 1, .bottom = 1, .left = 1, .right = 1};
  auto const peers = [&](int height, int width, bool backward) {
    node.sharing.tiles = {height, width};
    node.sharing.slices = height * width;
    return detail::tile_peers(node, backward);
  };
  CHECK(peers(2, 1, false) == 1);
  CHECK(peers(4, 1, false) == 2);
  CHECK(peers(2, 2, true) == 3);
  CHECK(peers(4, 4, false) == 8);
  node.sharing.halo.bottom = 0;
  CHECK(peers(4, 1, false) == 1);
  node.sharing.dealt = Dealt::gather;
  CHECK(peers(2, 2, false) == 3);
  CHECK(peers(2, 2, true) == 0);
  node.sharing.dealt = Dealt::cut_widened;
  CHECK(peers(2, 2, false) == 0);
  CHECK(peers(2, 2, true) == 3);
}

TEST_CASE("gradients of layers in tiles are added up once a step, whatever its microbatches") {
  Machine slow = dgx1_v100();
  slow.inside.latency = 0;
  // One bucket; the last Linear is in it, with all parameters 64 bytes apart at most.
  WorkerStep const once = step_on(slow, tiled(2, 2), graph<Images>, 8);
  double const all = static_cast<double>(graph<Images>.parameter_elements());
  CHECK(once.ties >= all_reduce_seconds(slow, {4, 1}, 4 * all));
  CHECK(once.ties <= all_reduce_seconds(slow, {4, 1}, 4 * (all + 16 * graph<Images>.parameters)));
  CHECK(step_on(slow, tiled(2, 2, 4), graph<Images>, 8).ties == once.ties);
}

TEST_CASE("a tile takes its share of the products, and stages of tiles fill as others do") {
  Machine machine = fast();
  machine.launch_overhead = 0;
  auto const seconds = [&](StrategyValue const& worker) {
    return step_on(machine, worker, graph<Large>, 8).seconds;
  };
  double const whole = static_costs(graph<Large>, machine, MathPrecision::fp32, 8).time();
  CHECK(seconds(tiled(2, 1)) > whole / 2);
  CHECK(seconds(tiled(2, 1)) < 0.75 * whole);
  CHECK(seconds(tiled(4, 2)) < 0.6 * seconds(tiled(2, 1)));
  StrategyValue const pipe = tiled_stages();
  WorkerStep const step = step_on(machine, pipe, graph<Large>, 8);
  REQUIRE(step.problem.empty());
  REQUIRE(step.stages.size() == 2);
  double passes = 0;
  for (detail::ChainStage const& stage : step.stages) {
    passes += stage.forward + stage.backward;
  }
  CHECK(4 * passes < 2 * step.seconds);
  CHECK(step.seconds < 4 * passes);
  CHECK(step.stages[0].sent_bytes > 0);
  CHECK(simulate_worker(pipe, step, static_costs(graph<Large>, machine, MathPrecision::fp32, 2),
                        machine)
            .last_pass == doctest::Approx(step.seconds));
}

// What a search tries of a network, on up to eight devices a worker.
template <class Net>
WorkerSteps tried_on(Machine const& machine, int batch, double memory = 0) {
  SearchTask const task{.machine = machine,
                        .batch_per_worker = batch,
                        .memory = memory,
                        .most_devices_a_worker = 8,
                        .network = graph<Net>,
                        .computed = true};
  return WorkerSteps{task, [&](int samples) {
                       return static_costs(graph<Net>, machine, MathPrecision::fp32, samples);
                     }};
}

TEST_CASE("a network of large images that does not fit is trained in tiles") {
  constexpr double memory = 12e6;  // of one image a device has not enough for a quarter
  WorkerSteps const steps = tried_on<Large>(dgx1_v100(), 1, memory);
  Plan const best = search_plans(steps, EpochCurve::measured({{1, 1}}), 8).front();
  REQUIRE(best.feasible());
  CHECK(best.worker.has_tiles());
  CHECK(best.shard == Sharding::none);
  CHECK(best.step.memory <= memory);
  std::set<std::string> types;
  for (Plan const& plan : search_plans(steps, EpochCurve::measured({{1, 1}}), 8)) {
    if (plan.worker.has_tiles() && plan.worker.shares_all() && plan.worker.checkpoint.every == 0) {
      types.insert(strategy_type(plan));
    }
  }
  CHECK(types == std::set<std::string>{"SpatialParallel<8, 1>", "SpatialParallel<4, 2>",
                                       "SpatialParallel<2, 4>", "SpatialParallel<1, 8>",
                                       "Hybrid<DataParallel<2>, SpatialParallel<4, 1>>",
                                       "Hybrid<DataParallel<2>, SpatialParallel<2, 2>>",
                                       "Hybrid<DataParallel<2>, SpatialParallel<1, 4>>",
                                       "Hybrid<DataParallel<4>, SpatialParallel<2, 1>>",
                                       "Hybrid<DataParallel<4>, SpatialParallel<1, 2>>"});
  Plan kept = best;  // perhaps with runs that are computed again
  kept.worker.checkpoint.every = 0;
  CHECK(types.count(strategy_type(kept)) == 1);
}

TEST_CASE("tiles are tried of images alone, and what does not divide says so once") {
  WorkerSteps const flat = tried_on<Flat>(dgx1_v100(), 8);
  for (WorkerSteps::One const& one : flat.all()) {
    CHECK(!one.strategy.has_tiles());
  }
  int tiles = 0;
  WorkerSteps const odd = tried_on<Odd>(dgx1_v100(), 8);
  for (WorkerSteps::One const& one : odd.all()) {
    tiles += one.strategy.has_tiles() ? 1 : 0;
    bool const refused = one.step.problem.starts_with("SpatialParallel<H, W>: ");
    CAPTURE(one.step.problem);
    CHECK(refused == one.strategy.has_tiles());
  }
  CHECK(tiles == 9);  // shapes of two, four and eight
  StrategyValue const sixteen = tiled(4, 4);
  Machine machine = dgx1_v100();
  machine.nodes = 2;
  CHECK(step_on(machine, sixteen, graph<Images>, 8).problem ==
        "devices that have tiles of images must divide a node's 8");
}

TEST_CASE("a search that simulates few workers finds the same tiles") {
  constexpr double memory = 12e6;
  Machine const machine = dgx1_v100();
  SearchTask const task{.machine = machine,
                        .batch_per_worker = 4,
                        .memory = memory,
                        .most_devices_a_worker = 16,
                        .wide = true,
                        .network = graph<Large>,
                        .computed = true};
  auto const costs = [&](int samples) {
    return static_costs(graph<Large>, machine, MathPrecision::fp32, samples);
  };
  EpochCurve const epochs = EpochCurve::measured({{1, 1}});
  WorkerSteps const steps{task, costs};
  Plan const best = search_plans(steps, epochs, 16).front();
  REQUIRE(best.feasible());
  CHECK(best.worker.has_tiles());
  SearchResult const found = search_bounded(task, costs, epochs, {16});
  CHECK(strategy_type(found.of[0].plans.front()) == strategy_type(best));
  CHECK(found.of[0].plans.front().time.seconds() == best.time.seconds());
  for (WorkerSteps::One const& one : steps.all()) {  // in a node of 8
    CHECK((!one.strategy.has_tiles() || one.strategy.tensor <= 8));
    if (one.strategy.has_tiles() && one.step.problem.empty()) {
      int const samples = 4 / one.strategy.batching.microbatches;
      CHECK(least_worker_seconds(one.strategy, costs(samples)) <= one.step.seconds);
    }
  }
}

TEST_CASE("replicas of a model in tiles have all of it, as their type has") {
  for (Sharding const shard : {Sharding::state, Sharding::gradients, Sharding::parameters}) {
    auto const refusal = [&](StrategyValue const& worker) {
      return detail::refusal_of(graph<Images>, detail::replicated(worker, 2, shard));
    };
    CHECK(refusal({.tensor = 2}) == "");
    CHECK(refusal(tiled(2, 1)) == detail::sentence_of(detail::Rule::tiles_state));
  }
}

TEST_CASE("where links are slow, what was best without tiles is") {
  Machine slow = two_cpus();
  slow.devices_per_node = 8;
  slow.inside.bandwidth = 1e7;
  Plan const best =
      search_plans(tried_on<Images>(slow, 64), EpochCurve::measured({{1, 1}}), 8).front();
  CHECK(!best.worker.has_tiles());
}

}  // namespace search_tiles_test
