// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What two V100 gain on GNMT and BigLSTM where costs were measured on such, by the simulator: of
/// GNMT each operation (PipeDream's profile), of BigLSTM the whole step (f-lm's README).

#include <cstddef>
#include <string>
#include <utility>

#include <tandem/core/contract.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/search/worker.hpp>
#include <tandem/plan/search/worker_strategies.hpp>
#include <tandem/plan/simulate/chain.hpp>
#include <tandem/plan/simulate/simulator.hpp>
#include <tandem/schedule/orders/gpipe.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/orders/one_f_one_b.hpp>
#include <tandem/schedule/table/chunked.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/strategy/value_text.hpp>

namespace two_way {

/// Pal et al. 2019, as ../shared/reference/parallelism.md recalls them.
inline constexpr double published_gnmt = 1.15;
inline constexpr double published_big_lstm = 1.22;

struct Gain {
  std::string how{};  ///< the pipeline of two
  double one = 0;     ///< seconds of a step of one device
  double two = 0;
  [[nodiscard]] double speedup() const { return one / two; }
};

/// A DGX-1's, each pair of which has one NVLink or more: one is taken.
inline tandem::Machine two_v100() {
  tandem::Machine machine = tandem::dgx1_v100();
  machine.inside.bandwidth = 25e9;
  return machine;
}

/// GPipe is what there was in 2019.
enum class Tried { gpipe, all };

/// The fastest synchronous pipeline with one copy of the model that does so many @p pieces of a
/// minibatch one behind the other; one device takes @p one.
inline Gain best_pipeline(tandem::CostGraph const& piece, int pieces, double one, Tried tried) {
  Gain best{.one = one, .two = 1e30};
  for (tandem::StrategyValue const& worker : tandem::detail::worker_strategies(2, pieces)) {
    bool const usable =
        worker.batching.microbatches == pieces && worker.cut != tandem::CutKind::placed &&
        !tandem::detail::has_two_copies(worker.schedule) && !worker.asynchrony().on() &&
        !worker.repeats_stages() && (tried == Tried::all || worker.schedule == tandem::GPipe::name);
    if (!usable) {
      continue;
    }
    tandem::WorkerStep const step = tandem::worker_step(worker, piece, two_v100(), 3);
    if (step.problem.empty() && step.seconds < best.two) {
      best.two = step.seconds;
      std::string const type = tandem::type_text(worker);
      best.how = type.substr(0, type.find("Auto<")) + "…>";
    }
  }
  return best;
}

/// Four microbatches of the size that was measured; one device does the same four.
inline Gain gnmt(tandem::CostGraph const& profile, Tried tried = Tried::all) {
  return best_pipeline(profile, 4, 4 * profile.time(), tried);
}

/// The profile's times stand in part at a neighbour's: its backward pass divided as the forward.
inline tandem::CostGraph with_even_backward(tandem::CostGraph graph) {
  double forward = 0;
  for (tandem::CostNode const& node : graph.node) {
    forward += node.forward;
  }
  double const ratio = graph.time() / forward - 1;
  for (tandem::CostNode& node : graph.node) {
    node.backward = ratio * node.forward;
  }
  return graph;
}

/// f-lm's README: 33.8 k words a second on four V100, 256 sequences of 20 words a device.
inline constexpr int sequences = 256;
inline constexpr int words = 20;
inline constexpr double big_lstm_step = 4 * sequences * words / 33.8e3;

/// Computed costs, scaled so that a step of 256 sequences takes what was measured.
inline tandem::CostGraph big_lstm_costs(tandem::GraphView network, int of) {
  auto const costs = [&](int samples) {
    return tandem::static_costs(network, two_v100(), tandem::MathPrecision::fp32, samples);
  };
  double const scale = big_lstm_step / costs(sequences).time();
  tandem::CostGraph graph = costs(of);
  for (tandem::CostNode& node : graph.node) {
    node.forward *= scale;
    node.backward *= scale;
  }
  return graph;
}

/// Microbatches of 64 sequences.
inline Gain big_lstm_microbatches(tandem::GraphView network, Tried tried = Tried::all) {
  return best_pipeline(big_lstm_costs(network, sequences / 4), 4, big_lstm_step, tried);
}

/// The minibatch whole, in so many chunks of time, of which a recurrent layer takes as much less
/// and all else what as many rows do.
inline Gain big_lstm_chunks(tandem::GraphView network, int chunks) {
  tandem::expects(words % chunks == 0, "big_lstm_chunks(network, chunks): chunks must divide 20");
  tandem::CostGraph const whole = big_lstm_costs(network, sequences);
  tandem::CostGraph piece = big_lstm_costs(network, sequences / chunks);
  double one = 0;
  for (std::size_t n = 0; n < piece.node.size(); ++n) {
    if (whole.node[n].name.ends_with("Lstm")) {
      piece.node[n].forward = whole.node[n].forward / chunks;
      piece.node[n].backward = whole.node[n].backward / chunks;
    }
    piece.node[n].output_bytes = whole.node[n].output_bytes / chunks;
    one += whole.node[n].time();
  }
  tandem::RuntimeMap const map = tandem::make_map(tandem::OneFOneB::name, 2);
  tandem::ActionRows const table = tandem::lower(
      tandem::chunked(tandem::make_schedule(tandem::OneFOneB::name, 2, 1), chunks), map);
  tandem::SimulatedStep const step =
      tandem::simulate_on(two_v100(), table, map, tandem::chain_costs(map, piece));
  return {.how = "Pipeline<OneFOneB, 1, Chunks<" + std::to_string(chunks) + ">, …>",
          .one = one,
          .two = step.last_pass};
}

}  // namespace two_way
