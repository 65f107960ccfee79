// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/profiled_step.hpp>
#include <tandem/plan/search/simulate_worker.hpp>
#include <tandem/plan/search/worker_placed.hpp>
#include <tandem/plan/search/worker_strategies.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <unit/plan/simulator_cases.hpp>

namespace tandem::test {
namespace worker_step_test {

using namespace simulator_cases;

CostGraph inception(Machine const& machine, int samples) {
  return static_costs(graph<models::InceptionV3<1000>>, machine, MathPrecision::fp32, samples);
}

/// Nodes of two devices each, as many as are wanted: every other message leaves one.
Machine pairs() {
  Machine machine = dgx1_v100();
  machine.devices_per_node = machine.adapters = 2;
  return machine;
}

LinkSpeed link_of(Machine const& machine, int from, int to) {
  LinkSpeed link = machine.inside;
  if (from / machine.devices_per_node != to / machine.devices_per_node) {  // a node's, an adapter's
    link = machine.between;
    link.bandwidth *= machine.devices_per_node;
    link.bandwidth /= machine.adapters;
  }
  return link;
}

TEST_CASE("a worker's step is the simulator's, of every schedule, on every machine") {
  bool shared = false;
  for (Machine const& machine : {dgx1_v100(), pcie_box(), pairs()}) {
    CAPTURE(machine.name);
    CAPTURE(machine.devices_per_node);
    for (int const devices : {2, 4, 8, 16}) {
      for (StrategyValue const& worker : detail::worker_strategies(devices, 64)) {
        CAPTURE(worker.schedule);
        CAPTURE(worker.replica_devices());
        CAPTURE(worker.batching.microbatches);
        CostGraph const graph = inception(machine, 64 / worker.batching.microbatches);
        WorkerStep const step = worker.cut == CutKind::placed
                                    ? placed_worker_step(worker, graph, machine, 3)
                                    : worker_step(worker, graph, machine, 3);
        if (!step.problem.empty()) {
          CHECK((worker.stages_a_device * devices > 21 || worker.cut == CutKind::placed));
          continue;
        }
        SimulatedStep const one = simulate_worker(worker, step, graph, machine);
        SimulatedStep const alone =
            simulate_worker(worker, step, graph, machine, {.shares_links = false});
        CHECK(alone.last_pass <= one.last_pass * (1 + 1e-12));
        if (worker.asynchrony().on()) {
          CHECK(step.seconds < one.last_pass);
          CHECK(step.done == std::vector<double>(step.done.size(), step.seconds));
          continue;
        }
        CHECK(step.seconds == one.last_pass);
        CHECK((worker.cut != CutKind::placed || step.seconds < graph.time()));
        double idle = 0;
        for (int d = 0; d < devices; ++d) {
          SimulatedDevice const& device = one.device[static_cast<std::size_t>(d)];
          idle += 1 - device.busy / one.last_pass;
          double last = 0;
          for (SimulatedAction const& each : device.action) {
            last = is_compute(each.action.kind) ? std::max(last, each.span.end) : last;
          }
          CHECK(step.done[static_cast<std::size_t>(d)] == last);
        }
        CHECK(step.idle == doctest::Approx(idle / devices).epsilon(1e-9));
        shared = shared || alone.last_pass < 0.999 * step.seconds;
        bool const pair =
            devices * worker.stages_a_device == 2 && !detail::has_two_copies(worker.schedule);
        if (pair || (worker.cut == CutKind::balanced &&
                     worker.schedule == "sequential")) {  // one message each way at a time
          CHECK(alone.last_pass == doctest::Approx(step.seconds).epsilon(1e-12));
        }
        if (devices <= 8) {  // a second worker shares no port with this one
          SimulatedStep const two = simulate_worker(worker, step, graph, machine, {.workers = 2});
          CHECK(two.last_pass == doctest::Approx(step.seconds).epsilon(1e-12));
        }
      }
    }
  }
  CHECK(shared);
}

TEST_CASE("one microbatch goes through all stages and back, each message over its own link") {
  for (Machine const& machine : {dgx1_v100(), pcie_box(), pairs()}) {
    for (int const devices : {2, 4, 8, 16}) {
      CAPTURE(machine.name);
      CAPTURE(devices);
      CostGraph const graph = inception(machine, 64);
      WorkerStep const step =
          worker_step(detail::chain_worker("sequential", devices), graph, machine, 3);
      std::vector<detail::ChainStage> const stages = detail::chain_stages(graph, step.sizes);
      double seconds = graph.time();
      for (int d = 0; d + 1 < devices; ++d) {
        double const bytes = stages[static_cast<std::size_t>(d)].sent_bytes;
        seconds += 2 * link_of(machine, d, d + 1).seconds(bytes);
      }
      CHECK(step.seconds == doctest::Approx(seconds).epsilon(1e-12));
      CHECK(step.done[0] == doctest::Approx(seconds).epsilon(1e-12));
      double forward = 0;
      for (CostNode const& node : graph.node) {
        forward += node.forward;
      }
      double const there = forward + (seconds - graph.time()) / 2;
      CHECK(step.done.back() == doctest::Approx(there + stages.back().backward).epsilon(1e-12));
    }
  }
}

TEST_CASE("over links of latency only: the schedule's own simulation, and its period") {
  Machine machine = one_node(16, std::numeric_limits<double>::infinity(), 3e-4);
  CostGraph const graph = chain_graph(37);
  for (int const devices : {2, 4, 8, 16}) {
    for (StrategyValue const& worker : detail::worker_strategies(devices, 64)) {
      if (worker.cut == CutKind::placed) {
        continue;
      }
      CAPTURE(worker.schedule);
      CAPTURE(worker.replica_devices());
      CAPTURE(worker.batching.microbatches);
      WorkerStep const step = worker_step(worker, graph, machine, 3);
      REQUIRE(step.problem.empty());
      std::vector<detail::ChainStage> const stages = detail::chain_stages(graph, step.sizes);
      RuntimeMap const map = make_map(worker.schedule, devices, worker.stages_a_device);
      std::vector<ActionCosts> of_stage;
      double longest = 0;
      for (std::size_t s = 0; s < map.device.size(); ++s) {
        detail::ChainStage const& stage = stages[s % stages.size()];
        double const again = worker.repeats_stages() ? stage.forward : 0;
        of_stage.push_back({.forward = detail::nanoseconds(stage.forward),
                            .input_gradient = detail::nanoseconds(stage.backward / 2),
                            .weight_gradient = detail::nanoseconds(stage.backward / 2),
                            .backward = detail::nanoseconds(stage.backward + again)});
        longest = std::max(longest,
                           (stage.forward + stage.backward + again) * worker.batching.microbatches);
      }
      ActionCosts const costs{.transfer = 300'000, .of_stage = of_stage.data()};
      auto const makespan = [&](int steps) {
        ActionRows const table =
            lower(make_schedule(worker.schedule, devices, worker.batching.microbatches,
                                worker.stages_a_device, steps),
                  map);
        return static_cast<double>(simulate(table, map, costs).makespan) * 1e-9;
      };
      if (worker.asynchrony().on()) {
        int const most = most_unrolled_steps;
        CHECK(step.seconds ==
              doctest::Approx((makespan(most) - makespan(most - 100)) / 100).epsilon(0.005));
        CHECK(step.seconds >= longest * (1 - 1e-9));
      } else {
        CHECK(step.seconds == doctest::Approx(makespan(0)).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("a worker on two nodes waits for the network only where a message goes over it") {
  Machine const machine = dgx1_v100();
  Machine whole = machine;
  whole.devices_per_node = 16;
  Machine apart = machine;
  apart.inside = apart.between;
  StrategyValue const worker = detail::chain_worker("gpipe", 16, 16);
  CostGraph const graph = inception(machine, 4);
  WorkerStep const step = worker_step(worker, graph, machine, 3);
  CHECK(worker_step(worker, graph, whole, 3).seconds < step.seconds);
  CHECK(step.seconds < 0.5 * worker_step(worker, graph, apart, 3).seconds);
  // The one edge between the nodes carries every microbatch, one way and then the other.
  double const bytes = detail::chain_stages(graph, step.sizes)[7].sent_bytes;
  CHECK(step.seconds > 2 * 16 * bytes / machine.between.bandwidth);
}

TEST_CASE("a machine with fewer devices than the worker") {
  CostGraph const graph = chain_graph(8);
  CHECK(worker_step(detail::chain_worker("sequential", 4), graph, two_cpus(), 3).problem ==
        "the machine has fewer than 4 devices");
  CHECK(placed_worker_step(detail::placed_worker(4), graph, two_cpus(), 3).problem ==
        "the machine has fewer than 4 devices");
  CHECK(worker_step(detail::chain_worker("sequential", 2), graph, two_cpus(), 3).problem.empty());
}

}  // namespace worker_step_test
}  // namespace tandem::test
