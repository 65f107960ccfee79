// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// simulate_worker: the step of workers that the search found, with every span and with what they
/// share; of one worker it is worker_step()'s.

#include <algorithm>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/search/gradient_buckets.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/search/worker_again.hpp>
#include <tandem/plan/search/worker_tensor.hpp>
#include <tandem/plan/simulate/chain.hpp>
#include <tandem/plan/simulate/placement.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>
#include <tandem/schedule/time/step_period.hpp>

namespace tandem {

/// The step of options.workers such workers, each with its own minibatch; of an asynchronous
/// pipeline, whose gradients are not summed, the steps in which worker_step() measures its period;
/// two steps where no barrier stands between them.
/// @param step   what worker_step() or placed_worker_step() made of the worker
/// @param graph  costs of one microbatch
/// @throws ContractError  @p step has a problem; else as simulate_on() and simulate_placement()
TANDEM_ONCE [[nodiscard]] SimulatedStep simulate_worker(StrategyValue const& worker,
                                                        WorkerStep const& step,
                                                        CostGraph const& graph,
                                                        Machine const& machine,
                                                        SimulationOptions const& options = {});

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE SimulatedStep simulate_worker(StrategyValue const& worker, WorkerStep const& step,
                                          CostGraph const& graph, Machine const& machine,
                                          SimulationOptions const& options) {
  if (!step.problem.empty()) {
    throw ContractError{"simulate_worker: it cannot run, " + step.problem};
  }
  expects(
      options.workers == 1 || !worker.asynchrony().on(),
      "simulate_worker(worker, step, graph, machine, options): an asynchronous pipeline has all "
      "devices; give one worker");
  expects(options.workers == 1 || !worker.post_validated,
          "simulate_worker(worker, step, graph, machine, options): workers sum their gradients "
          "between steps that have no barrier; give one worker");
  if (worker.cut == CutKind::placed) {
    return simulate_placement(machine, graph, network_order(graph, step.placement),
                              worker.replica_devices(), options);
  }
  detail::WorkerTable const made = detail::worker_table(worker);
  if (worker.rewrites()) {  // one of each group's devices
    SimulationOptions own = options;
    own.depth = std::max(own.depth, worker.batching.chunks);
    return simulate_on(detail::machine_of_groups(machine, worker.tensor), made.table, made.map,
                       detail::stage_costs(made.map, step.stages, worker.repeats_stages()), own);
  }
  CostGraph const own = detail::costs_again(graph, worker.checkpoint.every);
  SimulatedCosts costs =
      chain_costs(made.map, own, step.sizes, worker.repeats_stages(), worker.batching.microbatches);
  if (worker.replica_devices() == 1) {
    costs.stage[0].gradients = detail::gradient_buckets(own, worker.batching.microbatches);
  }
  if (worker.post_validated) {
    return simulate_on(machine, steps_in_a_row(made.table, worker.batching.microbatches, 2),
                       made.map, costs, options);
  }
  return simulate_on(machine, made.table, made.map, costs, options);
}

}  // namespace tandem

#endif
