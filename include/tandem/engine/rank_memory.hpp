// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMemory: the arenas of one rank, allocated once, and the tables of pointers into them.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <tandem/engine/arenas.hpp>
#include <tandem/engine/gradient_plan.hpp>
#include <tandem/engine/memory_report.hpp>
#include <tandem/engine/parameter_memory.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/operand_table.hpp>

namespace tandem {

/// All memory of a rank. What a node reads and writes for a microbatch stands in one of several
/// tables, table(m) for the replica's microbatch m; microbatches that are live at once have
/// different ones.
template <class Program, class Backend>
class RankMemory : public ParameterMemory<Program, Backend> {
  using Base = ParameterMemory<Program, Backend>;

 public:
  using Base::graph;
  using Base::layout;
  using Base::places;
  using typename Base::Buffer;
  using typename Base::Device;
  using typename Base::P;
  using typename Base::T;

  /// What a rank computes at a time: the operands of each node for one microbatch.
  using Table = OperandTable<T, P>;

  /// @param ops     have needs() and scratch_bytes(), as PreparedOps
  /// @param task    what is planned for
  /// @param leaves  of one replica
  template <class Ops>
  RankMemory(Device& device, Ops const& ops, int states, PlanTask const& task, int leaves)
      : Base{device, states, leaves},
        task_{task},
        plan_{plan_memory(graph, ops.needs(), task)},
        arenas_{plan_, task_},
        kept_{device, static_cast<std::size_t>(arenas_.kept_bytes())},
        recomputed_{device, static_cast<std::size_t>(plan_.recomputed_bytes)},
        transient_{device, static_cast<std::size_t>(arenas_.transient_bytes())},
        scratch_{device, static_cast<std::size_t>(ops.scratch_bytes())},
        packed_{device, packed_bytes(ops.needs()) * static_cast<std::size_t>(places.count())} {
    for (int place = 0; place < places.count(); ++place) {
      point_parameters(place);
      point_packed(ops.needs(), place);
    }
    int const count = places.rule.on() ? places.tables() : arenas_.tables();
    tables_.reserve(static_cast<std::size_t>(count));
    for (int t = 0; t < count; ++t) {
      tables_.push_back(std::make_unique<Storage>());
      point_activations(t, *tables_.back());
    }
    for (int m = 0; m < std::max(count, task.microbatches); ++m) {
      of_microbatch_.push_back(tables_[static_cast<std::size_t>(m % count)].get());
    }
  }

  [[nodiscard]] std::byte* scratch() const { return scratch_.data(); }

  /// The operands for microbatch @p m of the replica; in an asynchronous pipeline those of F(m),
  /// for m up to places.tables().
  [[nodiscard]] Table const& table(int m) const { return storage(m).table; }
  /// The same for B(m), whose weights are others only where F's are predicted.
  [[nodiscard]] Table const& backward_table(int m) const {
    return places.predicts() ? storage(m).backward : storage(m).table;
  }

  /// Points every edge that carries the network's input to @p x, for microbatch @p m.
  void set_input(int m, T const* x) {
    Storage& own = storage(m);
    for (int i = 0; i < input_edges; ++i) {
      *own.input_edge[i] = x;
    }
    if constexpr (result_is_input) {
      own.table.output = x;
    }
  }

  /// The gradient of a received node, to be sent: of its reader @p reader where they are sent
  /// apart.
  [[nodiscard]] T* outgoing(int node, int reader = 0) const {
    return at(transient_, reader * plan_.bytes[static_cast<std::size_t>(node)],
              plan_.outgoing[static_cast<std::size_t>(node)]);
  }

  [[nodiscard]] MemoryReport report() const {
    return {.parameters = Base::parameter_bytes(),
            .gradients = Base::gradient_bytes(),
            .optimizer_state = Base::state_bytes(),
            .kept = Base::size(kept_),
            .recomputed = Base::size(recomputed_),
            .transient = Base::size(transient_),
            .scratch = Base::size(scratch_),
            .versions = Base::version_bytes(),
            .weights = Base::weight_bytes() + Base::size(packed_),
            .logical = plan_.logical_bytes};
  }

 private:
  static constexpr bool is_input(int node) {
    return graph.node[root_of(graph, node)].kind == NodeKind::input;
  }
  static constexpr int input_edges = [] {
    int count = 0;
    for (int e = 0; e < graph.edges; ++e) {
      count += is_input(graph.source[e]) ? 1 : 0;
    }
    return count;
  }();

  // One table, and the arrays that it points into.
  struct Storage {
    Table table;
    T const** input_edge[input_edges > 0 ? input_edges : 1] = {};
    std::vector<T const*> edge_value;
    std::vector<T*> edge_gradient;
    std::vector<T const*> forks;
    std::vector<std::size_t> first_fork;
    std::vector<T*> gradient;
    std::vector<Operands<T, P>> operands;
    Table backward{};  // where its weights are others
    std::vector<Operands<T, P>> backward_operands{};
  };
  static constexpr bool result_is_input = graph.result >= 0 && is_input(graph.result);

  static T* at(Buffer const& arena, std::int64_t base, std::int64_t offset) {
    return offset < 0 ? nullptr : reinterpret_cast<T*>(arena.data() + base + offset);
  }

  [[nodiscard]] Storage& storage(int m) const {
    return *of_microbatch_[static_cast<std::size_t>(m)];
  }

  [[nodiscard]] T* gradient(int table, std::int64_t offset) const {
    return at(transient_, arenas_.gradient_at(table, offset), offset);
  }
  [[nodiscard]] T* place(MemoryRegion region, int stage, int table, std::int64_t offset) const {
    switch (region) {
      case MemoryRegion::kept:
        return at(kept_, arenas_.kept_at(stage, table), offset);
      case MemoryRegion::recomputed:
        return at(recomputed_, 0, offset);
      case MemoryRegion::transient:
        return at(transient_, arenas_.values_at(), offset);
      case MemoryRegion::none:
        break;
    }
    return nullptr;
  }
  [[nodiscard]] T* value_of(int node, int table) const {
    auto const n = static_cast<std::size_t>(node);
    auto const root = static_cast<std::size_t>(plan_.root[n]);
    return plan_.value[root] < 0 ? nullptr
                                 : place(plan_.region[root], plan_.stage[root], table,
                                         plan_.value[root] + plan_.slice[n]);
  }

  void point_parameters(int place) {
    for (int p = 0; p < graph.parameters; ++p) {
      parameter_.push_back(this->parameter(p, place));
      weight_.push_back(this->weight(p, place));
      gradient_.push_back(graph.parameter[p].frozen ? nullptr
                                                    : this->gradients() + layout.offset[p]);
    }
  }

  void point_activations(int t, Storage& own) const {
    for (int e = 0; e < graph.edges; ++e) {
      own.edge_value.push_back(value_of(graph.source[e], t));
      own.edge_gradient.push_back(gradient(t, plan_.edge_gradient[static_cast<std::size_t>(e)]));
    }
    for (int e = 0, i = 0; e < graph.edges; ++e) {
      if (is_input(graph.source[e])) {
        own.input_edge[i++] = &own.edge_value[static_cast<std::size_t>(e)];
      }
    }
    for (int s = 0; s < static_cast<int>(task_.stages.size()); ++s) {
      StageLife const& stage = task_.stages[static_cast<std::size_t>(s)];
      for (int n = stage.first; n < stage.last; ++n) {
        auto const i = static_cast<std::size_t>(n);
        Node const& node = graph.node[n];
        point_forks(n, own);
        own.gradient.push_back(gradient(t, plan_.node_gradient[i]));
        MemoryRegion const saved = task_.segment != nullptr && task_.segment[n] >= 0
                                       ? MemoryRegion::recomputed
                                       : MemoryRegion::kept;
        own.operands.push_back(
            {.x = own.edge_value.data() + node.first_edge,
             .y = value_of(n, t),
             .dy = own.gradient.back(),
             .dx = own.edge_gradient.data() + node.first_edge,
             .parameter = parameter_.data() + first_parameter(n, places.forward(t)),
             .weight = weight_.data() + first_parameter(n, places.forward(t)),
             .gradient = gradient_.data() + node.first_parameter,
             .saved = reinterpret_cast<std::byte*>(place(saved, s, t, plan_.saved[i])),
             .packed = packed_at(n, places.forward(t))});
      }
    }
    own.table = {.operands = own.operands.data(),
                 .forks = own.forks.data(),
                 .first_fork = own.first_fork.data(),
                 .gradient = own.gradient.data(),
                 .output = graph.result >= 0 ? value_of(graph.result, t) : nullptr,
                 .loss_gradient = gradient(t, plan_.loss_gradient)};
    if constexpr (places.predicts()) {
      point_backward(places.backward(t), own);
    }
  }

  // The same, but for the weights.
  void point_backward(int place, Storage& own) const {
    own.backward_operands = own.operands;
    for (int n = 0; n < graph.nodes; ++n) {
      Operands<T, P>& operands = own.backward_operands[static_cast<std::size_t>(n)];
      operands.parameter = parameter_.data() + first_parameter(n, place);
      operands.weight = weight_.data() + first_parameter(n, place);
      operands.packed = packed_at(n, place);
    }
    own.backward = own.table;
    own.backward.operands = own.backward_operands.data();
  }
  static int first_parameter(int n, int place) {
    return place * graph.parameters + graph.node[n].first_parameter;
  }
  [[nodiscard]] std::byte* packed_at(int n, int place) const {
    return packed_at_[static_cast<std::size_t>(place * graph.nodes + n)];
  }

  // The gradients of the edges that carry a node's output, in the order of the network's edges.
  void point_forks(int n, Storage& own) const {
    own.first_fork.push_back(own.forks.size());
    std::vector<std::pair<int, T const*>> forks;
    for (int m = n + 1; m < graph.nodes; ++m) {
      for (int e = graph.node[m].first_edge, end = e + graph.node[m].edges; e < end; ++e) {
        if (graph.source[e] == n && !graph.node[m].merged) {
          forks.emplace_back(graph.edge_origin[e], own.edge_gradient[static_cast<std::size_t>(e)]);
        }
      }
    }
    std::stable_sort(forks.begin(), forks.end(),
                     [](auto const& a, auto const& b) { return a.first < b.first; });
    for (auto const& fork : forks) {
      own.forks.push_back(fork.second);
    }
  }

  static std::size_t packed_bytes(std::vector<OpNeeds> const& needs) {
    std::int64_t sum = 0;
    for (OpNeeds const& need : needs) {
      sum += detail::aligned(need.packed_bytes);
    }
    return static_cast<std::size_t>(sum);
  }
  void point_packed(std::vector<OpNeeds> const& needs, int place) {
    std::byte* next = packed_.data() + static_cast<std::size_t>(place) * packed_bytes(needs);
    for (OpNeeds const& need : needs) {
      packed_at_.push_back(next);
      next += detail::aligned(need.packed_bytes);
    }
  }

  PlanTask task_;
  MemoryPlan plan_;
  Arenas arenas_;
  Buffer kept_;
  Buffer recomputed_;
  Buffer transient_;  // what is sent, then values and gradients
  Buffer scratch_;
  Buffer packed_;
  std::vector<P*> parameter_;  // of one of the places behind those of another
  std::vector<T const*> weight_;
  std::vector<P*> gradient_;
  std::vector<std::byte*> packed_at_;
  std::vector<std::unique_ptr<Storage>> tables_;
  std::vector<Storage*> of_microbatch_;
};

}  // namespace tandem
