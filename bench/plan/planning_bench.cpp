// SPDX-License-Identifier: Apache-2.0
// How long planning takes: the search for up to 1,024 devices, memory included, and for 65,536; the
// list schedule of Inception-V3's graph (what a placement search calls for each move); the cut of a
// chain; a step of equal workers, all of them simulated and those that differ.
//   bench_planning --benchmark_repetitions=3

#include <benchmark/benchmark.h>

#include <numeric>
#include <vector>

#include <tandem/graph/lower.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/plan.hpp>

namespace td = tandem;

namespace {

td::CostGraph inception(int samples) {
  return td::static_costs(td::graph<td::models::InceptionV3<1000>>, td::dgx1_v100(),
                          td::MathPrecision::fp32, samples);
}

td::EpochCurve epochs_of_inception() {
  return td::EpochCurve::measured(td::parse_epoch_points("2048:4,4096:7,8192:12,16384:23"));
}

void search(benchmark::State& state) {
  td::SearchTask const task{.machine = td::dgx1_v100(),
                            .batch_per_worker = 64,
                            .samples = 1'281'167,
                            .network = td::graph<td::models::InceptionV3<1000>>};
  td::EpochCurve const epochs = epochs_of_inception();
  std::vector<int> devices(static_cast<std::size_t>(state.range(0)));
  std::iota(devices.begin(), devices.end(), 1);
  for ([[maybe_unused]] auto _ : state) {
    td::WorkerSteps const steps{task, inception};
    benchmark::DoNotOptimize(td::search_all(steps, epochs, devices));
  }
}
// Every number of devices up to so many.
BENCHMARK(search)->Arg(8)->Arg(1024)->Unit(benchmark::kMillisecond);

/// What plan tries on more devices than 1,024.
void search_bounded(benchmark::State& state) {
  td::SearchTask const task{.machine = td::dgx1_v100(),
                            .batch_per_worker = 64,
                            .samples = 1'281'167,
                            .most_devices_a_worker = 128,
                            .wide = true,
                            .network = td::graph<td::models::InceptionV3<1000>>,
                            .computed = true};
  td::EpochCurve const epochs = epochs_of_inception();
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        td::search_bounded(task, inception, epochs, {static_cast<int>(state.range(0))}));
  }
}
BENCHMARK(search_bounded)->Arg(65'536)->Unit(benchmark::kMillisecond);

void list_schedule(benchmark::State& state) {
  td::CostGraph const graph = inception(128);
  td::PlacementTask const task{.devices = static_cast<int>(state.range(0))};
  std::vector<int> device(graph.node.size());
  for (std::size_t n = 0; n < device.size(); ++n) {
    device[n] = static_cast<int>(n / 8) % task.devices;
  }
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(td::schedule_step(graph, task, device));
  }
}
BENCHMARK(list_schedule)->Arg(2)->Arg(8)->Unit(benchmark::kMicrosecond);

void moves(benchmark::State& state) {
  td::CostGraph const graph = inception(128);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(td::place_graph(graph, {}, {.moves = state.range(0)}));
  }
}
BENCHMARK(moves)->Arg(1000)->Unit(benchmark::kMillisecond);

void chain(benchmark::State& state) {
  std::vector<double> loads(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < loads.size(); ++i) {
    loads[i] = static_cast<double>(i * 2654435761 % 1000);
  }
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(td::partition_chain(loads, 16));
  }
}
BENCHMARK(chain)->Arg(300)->Unit(benchmark::kMicrosecond);

/// 1F1B with 24 microbatches on 12 devices a worker of nodes of 8: two workers on three nodes.
struct Workers {
  td::RuntimeMap map = td::make_map("one_f_one_b", 12);
  td::ActionRows table = td::lower(td::make_schedule("one_f_one_b", 12, 24), map);
  td::SimulatedCosts costs = td::chain_costs(map, inception(2));
};

void simulate_all(benchmark::State& state) {
  Workers const workers;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(td::simulate_on(td::dgx1_v100(), workers.table, workers.map,
                                             workers.costs,
                                             {.workers = static_cast<int>(state.range(0)) / 12}));
  }
}
BENCHMARK(simulate_all)->Arg(48)->Arg(192)->Arg(768)->Unit(benchmark::kMillisecond);

void simulate_symmetric(benchmark::State& state) {
  Workers const workers;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        td::simulate_symmetric(td::dgx1_v100(), workers.table, workers.map, workers.costs,
                               {.workers = static_cast<int>(state.range(0)) / 12}));
  }
}
BENCHMARK(simulate_symmetric)->Arg(48)->Arg(768)->Arg(65'536)->Unit(benchmark::kMillisecond);

void meshes(benchmark::State& state) {
  td::MeshTask const task{
      .sizes = {.layers = 128, .width = 25600, .heads = 160, .context = 2048, .vocabulary = 51200},
      .machine = td::dgx_h100(),
      .batch = 16'384};
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(td::search_meshes(task, static_cast<int>(state.range(0))));
  }
}
BENCHMARK(meshes)->Arg(1024)->Arg(65'536)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
