// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StageModel: runs one stage of a cut network on this thread, with weights and input as given.
///
/// It has the memory, the ops and the passes of the device that has the stage, so that the bits are
/// those of an engine; and nothing else of one: no row of actions, no link, no second version.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <stage_interface.hpp>

namespace tandem::test {

/// What its passes run on: a StageHost that joins nothing with others.
template <class Own, class Backend>
struct StageModelParts : PhaseHost<typename Backend::Scalar> {
  using T = typename Backend::Master;
  using Device = typename Backend::Device;
  using PassType = tandem::Pass<Device>;
  using Memory = RankMemory<Backend>;
  using Table = typename Memory::Table;
  static constexpr LocalStage stage = Own::stages.stage[0];
  static constexpr bool has_branches = false;
  static constexpr bool has_slices = false;
  static constexpr bool uses_parameters = false;

  explicit StageModelParts(int largest)
      : device{DeviceSpec{.threads = 1}},
        ops{make_ops(program.tables, program.ops, largest, 1, {}, device)},
        needs{op_needs(ops)},
        criterion{program.criterion.make(Own::Program::network.output().out, largest)},
        memory{program.tables,
               device,
               needs,
               std::max(most_scratch(needs), criterion->scratch_bytes()),
               0,
               PlanTask{.batch = largest,
                        .element_bytes = sizeof(T),
                        .stages = {{.first = stage.first, .last = stage.last}}},
               1},
        passes{program.tables, ops} {
    device.scratch = memory.scratch();
    device.scratch_bytes = std::max(most_scratch(needs), criterion->scratch_bytes());
  }

  void gather_outgoing(int /*node*/, T const* const* forks, int count, std::int64_t elements,
                       T* to) {
    if (count > 1) {
      Verbs<Backend>::sum(device, forks, count, to, elements, Rounding::once);
    } else if (forks[0] != to) {
      Verbs<Backend>::copy(device, forks[0], to, elements);
    }
  }
  void bucket_ready(int /*bucket*/, int /*leaf*/) {}
  void finish_empty_bucket(int /*bucket*/, bool /*adds*/, int /*leaf*/) {}
  void join(std::span<double> /*data*/, int /*stage*/) final {}
  void gather(std::span<double> /*data*/) final {}
  void join_tiles(std::span<double> /*data*/) final {}
  void exchange_tiles(std::span<TileMessage<T> const> /*messages*/) final {}

  Device device;
  using LossType = DefaultLoss<typename Own::Program::Network>;
  static constexpr auto const& program =
      rank_program<Own, Backend, LossType, DefaultMetric<LossType>>;
  OpList<Backend> ops;
  std::vector<OpNeeds> needs;
  std::unique_ptr<Criterion<Backend, typename LossType::Target>> criterion;
  Memory memory;
  NodePasses<Backend> passes;
};

/// @tparam Own  the DeviceProgram of a device with one stage, whose input comes from one other at
///              most and whose output goes to one other at most; nothing is computed again
template <class Own, class Backend>
class StageModel final : public StageInterface<typename Backend::Master> {
 public:
  using T = typename Backend::Master;
  using Base = StageInterface<T>;
  using typename Base::Labels;
  using Parts = StageModelParts<Own, Backend>;
  using PassType = typename Parts::PassType;
  using Table = typename Parts::Table;
  static constexpr auto const& graph = Own::graph;
  static constexpr LocalStage stage = Own::stages.stage[0];
  static_assert(Own::stages.count == 1 && Own::segments.of[0] < 0 && !Own::batching.reproducible);

  StageModel(int largest, std::uint64_t seed) : parts_{largest}, state_{.seed = seed} {}

  std::vector<T> forward(std::vector<T> const& weights, std::vector<T> const& x,
                         Portion const& portion) override {
    take(weights);
    pass_forward(x, portion);
    std::vector<T> y;
    if (stage.has_result) {
      append(y, parts_.memory.table(0).output, portion.size * outputs(portion));
    }
    each(NodeKind::send, [&](int n) {
      T const* const sent =
          parts_.memory.table(0).operands[graph.source[graph.node[n].first_edge]].y;
      // A view of the samples has no memory of its own.
      append(y, sent != nullptr ? sent : x.data(), portion.size * elements(n, portion));
    });
    return y;
  }

  std::vector<T> backward(std::vector<T> const& activations, std::vector<T> const& weights,
                          std::vector<T> const& x, std::vector<T> const& dy, Portion const& portion,
                          std::vector<T>& gradient, bool adds) override {
    take(activations);
    pass_forward(x, portion);
    take(weights);
    Table const& table = parts_.memory.table(0);
    T const* next = dy.data();
    if (stage.has_result && stage.needs_gradient && !graph_of_all.output().criterion) {
      std::copy(next, next + portion.size * outputs(portion), table.loss_gradient);
    }
    each(NodeKind::send, [&](int n) {
      std::int64_t const count = portion.size * elements(n, portion);
      if (graph.node[n].needs_gradient) {
        std::copy(next, next + count, table.operands[n].dx[0]);
      }
      next += count;
    });
    std::copy(gradient.begin(), gradient.end(), parts_.memory.gradients());
    PassType pass = pass_of(portion);
    pass.accumulate = adds;
    if constexpr (stage.needs_gradient) {
      parts_.passes.backward(parts_, pass, table, stage, BackwardPart::whole, -1);
    }
    std::copy_n(parts_.memory.gradients(), gradient.size(), gradient.begin());
    std::vector<T> dx;
    each(NodeKind::receive, [&](int n) {
      if (graph.node[n].needs_gradient) {
        append(dx, parts_.memory.outgoing(0, n), portion.size * elements(n, portion));
      } else {  // nobody before has anything to train
        dx.resize(dx.size() + static_cast<std::size_t>(portion.size * elements(n, portion)));
      }
    });
    return dx;
  }

  double loss(std::vector<T> const& y, Labels labels, Portion const& portion,
              std::vector<T>& dy) override {
    PassType const pass = pass_of(portion);
    labels += std::ptrdiff_t{portion.first} * std::max(portion.time, 1);
    dy.resize(y.size());
    double sums[4] = {};  // the loss, and behind it the metrics
    parts_.criterion->sum(pass, y.data(), labels, sums);
    parts_.criterion->gradient(pass, y.data(), labels, 1.0 / portion.total, dy.data());
    return sums[0];
  }

  [[nodiscard]] StageWeights<T> initial(std::uint64_t seed, int states) const override {
    auto const trained = static_cast<std::size_t>(Own::layout.trained);
    StageWeights<T> weights{
        .values = std::vector<T>(static_cast<std::size_t>(Own::layout.elements)),
        .gradient = std::vector<T>(trained),
        .states = {static_cast<std::size_t>(states), std::vector<T>(trained)}};
    for (NamedParameter<T> const& own : named(weights)) {
      initialize<T>(Own::Program::network.parameter[own.index].parameter, own.index, seed,
                    detail::writable(own.value));
    }
    return weights;
  }
  [[nodiscard]] std::vector<UpdateRun> runs(
      std::vector<ParameterGroup> const& groups) const override {
    return parameter_runs(graph, Own::layout.offset, groups, Own::Program::map.parts());
  }
  [[nodiscard]] std::vector<NamedParameter<T>> named(StageWeights<T>& weights) const override {
    return named_parameters(device_tables<Own>, weights, static_cast<int>(weights.states.size()));
  }

 private:
  static constexpr auto const& graph_of_all = Own::Program::network;
  static std::int64_t outputs(Portion const& portion) {
    return graph_of_all.output().out.elements(portion.time);
  }
  static std::int64_t elements(int n, Portion const& portion) {
    return graph.node[n].out.elements(portion.time);
  }

  template <class F>
  static void each(NodeKind kind, F const& f) {
    for (int n = 0; n < graph.nodes; ++n) {
      if (graph.node[n].kind == kind) {
        f(n);
      }
    }
  }
  static void append(std::vector<T>& to, T const* from, std::int64_t count) {
    to.insert(to.end(), from, from + count);
  }

  void take(std::vector<T> const& weights) {
    std::copy(weights.begin(), weights.end(), parts_.memory.parameters());
  }

  void pass_forward(std::vector<T> const& x, Portion const& portion) {
    Table const& table = parts_.memory.table(0);
    if (stage.has_input) {
      if (graph_of_all.node[0].limit > 0) {
        tokens_.assign(x.begin(), x.end());
        parts_.memory.set_input(0, reinterpret_cast<T const*>(tokens_.data()), stage.id);
      } else {
        parts_.memory.set_input(0, x.data(), stage.id);
      }
    }
    T const* next = x.data();
    each(NodeKind::receive, [&](int n) {
      std::int64_t const count = portion.size * elements(n, portion);
      std::copy(next, next + count, table.operands[n].y);
      next += count;
    });
    parts_.passes.forward(parts_, pass_of(portion), table, stage);
  }

  [[nodiscard]] PassType pass_of(Portion const& portion) {
    state_.step = portion.step;
    state_.row_scale[0] = portion.row_scale;
    return {.device = parts_.device,
            .batch = portion.size,
            .first_sample = portion.first,
            .share = static_cast<double>(portion.size) / portion.total,
            .state = &state_,
            .time = portion.time,
            .lengths = portion.lengths,
            .criterion = {.targets = portion.targets, .row_scale = &state_.row_scale[0]}};
  }

  Parts parts_;
  StepState state_;
  std::vector<std::int32_t> tokens_{};  // of the pass at work
};

/// The stages of Net, cut as strategy S cuts it.
template <class Net, class S, class Backend>
auto stages_of(int largest, std::uint64_t seed) {
  using T = typename Backend::Master;
  using Whole = Program<Net, S, static_cast<int>(sizeof(T))>;
  StageList<T> stages;
  [&]<int... D>(std::integer_sequence<int, D...>) {
    (stages.push_back(
         std::make_unique<StageModel<typename Whole::template Device<D>, Backend>>(largest, seed)),
     ...);
  }
  (std::make_integer_sequence<int, Whole::devices>{});
  return stages;
}

}  // namespace tandem::test
