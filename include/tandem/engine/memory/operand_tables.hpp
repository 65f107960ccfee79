// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OperandTables: for each live microbatch, the table of pointers into a rank's arenas. Made once.
///
/// It knows a device's graph as a value, so that it is compiled for an element type and not for
/// each device of each strategy.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/insertion_sort.hpp>
#include <tandem/engine/prepare/arenas.hpp>
#include <tandem/engine/prepare/gradient_plan.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/operand_table.hpp>
#include <tandem/schedule/rules/weight_places.hpp>

namespace tandem {

/// Where the arenas of a MemoryPlan begin.
struct ArenaBases {
  std::byte* kept = nullptr;
  std::byte* recomputed = nullptr;
  std::byte* transient = nullptr;  ///< what is sent, then values and gradients
};

/// The parameters of a device's graph: one entry each, those of a place behind those of another.
template <class T, class P>
struct ParameterPointers {
  std::vector<P*> parameter{};
  std::vector<T const*> weight{};       ///< as products read them
  std::vector<P*> gradient{};           ///< null where frozen, and of GradientRows
  std::vector<GradientRows<P>> rows{};  ///< of those; empty where there are none
  std::vector<std::byte*> packed{};     ///< of each node
};

/// T: of activations and products; P: of parameters.
template <class T, class P>
class OperandTables {
 public:
  using Table = OperandTable<T, P>;

  /// @param plan, task  outlive this
  TANDEM_COLD OperandTables(GraphView graph, MemoryPlan const& plan, PlanTask const& task,
                            WeightPlaces const& places, ArenaBases const& bases,
                            ParameterPointers<T, P> parameters)
      : graph_{graph},
        plan_{plan},
        task_{task},
        arenas_{plan, task},
        places_{places},
        bases_{bases},
        parameters_{std::move(parameters)} {
    int const count = places_.rule.on() ? places_.tables() : arenas_.tables();
    for (int t = 0; t < count; ++t) {
      tables_.push_back(std::make_unique<Storage>());
      point_activations(t, *tables_.back());
    }
    for (int m = 0; m < std::max(count, task.microbatches); ++m) {
      of_microbatch_.push_back(tables_[static_cast<std::size_t>(m % count)].get());
    }
  }

  /// The operands for microbatch @p m; backward's weights may be others, see WeightPlaces.
  [[nodiscard]] Table const& forward(int m) const { return storage(m).table; }
  [[nodiscard]] Table const& backward(int m) const { return storage(m).backward; }

  /// Points the table of microbatch @p m to what each node's op hands on: carry(n) of node n.
  template <class Carry>
  void carry(int m, Carry const& carry) {
    Storage& own = storage(m);
    for (int n = 0; n < graph_.nodes; ++n) {
      auto const i = static_cast<std::size_t>(n);
      own.operands[i].sequence.carry = carry(n);
      if (!own.backward_operands.empty()) {
        own.backward_operands[i].sequence.carry = own.operands[i].sequence.carry;
      }
    }
  }

  /// What node @p n reads and writes for microbatch @p m, in a forward pass and where it is
  /// computed again.
  [[nodiscard]] Operands<T, P>& operands(int m, int n) const {
    return storage(m).operands[static_cast<std::size_t>(n)];
  }

  /// The values that edges carry.
  [[nodiscard]] T const** edge_values(int m) const { return storage(m).edge_value.data(); }
  void set_output(int m, T const* output) {
    storage(m).table.output = storage(m).backward.output = output;
  }

  /// The gradient of a received node, to be sent for microbatch @p m: of its reader @p reader where
  /// they are sent apart.
  [[nodiscard]] T* outgoing(int m, int node, int reader) const {
    std::int64_t const offset = plan_.outgoing[static_cast<std::size_t>(node)];
    return at(bases_.transient,
              arenas_.gradient_at(m, offset) + reader * plan_.bytes[static_cast<std::size_t>(node)],
              offset);
  }

 private:
  // One table, and the arrays that it points into.
  struct Storage {
    Table table{};
    Table backward{};  // the same, but for weights where these are others
    std::vector<T const*> edge_value{};
    std::vector<T*> edge_gradient{};
    std::vector<T const*> forks{};
    std::vector<std::size_t> first_fork{};
    std::vector<T*> gradient{};
    std::vector<Operands<T, P>> operands{};
    std::vector<Operands<T, P>> backward_operands{};
  };

  [[nodiscard]] Storage& storage(int m) const {
    return *of_microbatch_[static_cast<std::size_t>(m)];
  }
  static T* at(std::byte* arena, std::int64_t base, std::int64_t offset) {
    return offset < 0 ? nullptr : reinterpret_cast<T*>(arena + base + offset);
  }

  [[nodiscard]] T* gradient(int table, std::int64_t offset) const {
    return at(bases_.transient, arenas_.gradient_at(table, offset), offset);
  }
  [[nodiscard]] T* place(MemoryRegion region, int stage, int table, std::int64_t offset) const {
    switch (region) {
      case MemoryRegion::kept:
        return at(bases_.kept, arenas_.kept_at(stage, table), offset);
      case MemoryRegion::recomputed:
        return at(bases_.recomputed, 0, offset);
      case MemoryRegion::transient:
        return at(bases_.transient, arenas_.values_at(), offset);
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

  // Of a sum that a norm joins: the gradient that its other reader gives it.
  [[nodiscard]] T* other_gradient(int norm, int table) const {
    int const sum = graph_.node[norm].fusion.sums;
    for (int e = 0; sum >= 0 && graph_.node[sum].fusion.joined && e < graph_.edges; ++e) {
      if (graph_.source[e] == sum && e != graph_.node[norm].first_edge) {
        return gradient(table, plan_.edge_gradient[static_cast<std::size_t>(e)]);
      }
    }
    return nullptr;
  }
  [[nodiscard]] std::byte* saved_of(int node, int stage, int table) const {
    MemoryRegion const region = detail::saved_region(
        graph_.node[node], task_.segment != nullptr ? task_.segment[node] : -1);
    return reinterpret_cast<std::byte*>(
        place(region, stage, table, plan_.saved[static_cast<std::size_t>(node)]));
  }

  TANDEM_COLD void point_activations(int t, Storage& own) const {
    for (int e = 0; e < graph_.edges; ++e) {
      own.edge_value.push_back(value_of(graph_.source[e], t));
      own.edge_gradient.push_back(gradient(t, plan_.edge_gradient[static_cast<std::size_t>(e)]));
    }
    for (int s = 0; s < static_cast<int>(task_.stages.size()); ++s) {
      StageLife const& stage = task_.stages[static_cast<std::size_t>(s)];
      for (int n = stage.first; n < stage.last; ++n) {
        auto const i = static_cast<std::size_t>(n);
        Node const& node = graph_.node[n];
        int const activated_by = node.fusion.activated_by;
        int const sum = node.fusion.sums;
        point_forks(n, own);
        own.gradient.push_back(gradient(t, plan_.node_gradient[i]));
        own.operands.push_back(
            {.x = own.edge_value.data() + node.first_edge,
             .y = value_of(n, t),
             .dy = own.gradient.back(),
             .dx = own.edge_gradient.data() + node.first_edge,
             .parameter = parameters_.parameter.data() + first_parameter(n, places_.forward(t)),
             .weight = parameters_.weight.data() + first_parameter(n, places_.forward(t)),
             .gradient = parameters_.gradient.data() + node.first_parameter,
             .rows = parameters_.rows.empty() ? nullptr
                                              : parameters_.rows.data() + node.first_parameter,
             .saved = saved_of(n, s, t),
             .packed = packed_at(n, places_.forward(t)),
             .fused = {.activation = activated_by >= 0 ? saved_of(activated_by, s, t) : nullptr,
                       .summands =
                           sum >= 0 ? own.edge_value.data() + graph_.node[sum].first_edge : nullptr,
                       .sum = sum >= 0 ? value_of(sum, t) : nullptr,
                       .also = other_gradient(n, t)}});
      }
    }
    own.table = {.operands = own.operands.data(),
                 .forks = own.forks.data(),
                 .first_fork = own.first_fork.data(),
                 .gradient = own.gradient.data(),
                 .output = graph_.result >= 0 ? value_of(graph_.result, t) : nullptr,
                 .loss_gradient = gradient(t, plan_.loss_gradient)};
    own.backward = own.table;
    if (places_.predicts()) {
      point_backward(places_.backward(t), own);
    }
  }

  // The same, but for the weights.
  TANDEM_COLD void point_backward(int place, Storage& own) const {
    own.backward_operands = own.operands;
    for (int n = 0; n < graph_.nodes; ++n) {
      Operands<T, P>& operands = own.backward_operands[static_cast<std::size_t>(n)];
      operands.parameter = parameters_.parameter.data() + first_parameter(n, place);
      operands.weight = parameters_.weight.data() + first_parameter(n, place);
      operands.packed = packed_at(n, place);
    }
    own.backward.operands = own.backward_operands.data();
  }
  [[nodiscard]] int first_parameter(int n, int place) const {
    return place * graph_.parameters + graph_.node[n].first_parameter;
  }
  [[nodiscard]] std::byte* packed_at(int n, int place) const {
    return parameters_.packed[static_cast<std::size_t>(place * graph_.nodes + n)];
  }

  // The gradients of the edges that carry a node's output, in the order of the network's edges;
  // those of a named value in the opposite one, in which they come back from stage to stage.
  TANDEM_COLD void point_forks(int n, Storage& own) const {
    own.first_fork.push_back(own.forks.size());
    std::vector<std::pair<int, T const*>> forks;
    for (int m = n + 1; m < graph_.nodes; ++m) {
      for (int e = graph_.node[m].first_edge, end = e + graph_.node[m].edges; e < end; ++e) {
        if (graph_.source[e] == n && !graph_.node[m].fusion.merged) {
          forks.emplace_back(graph_.edge_origin[e], own.edge_gradient[static_cast<std::size_t>(e)]);
        }
      }
    }
    bool const named = graph_.node[n].named;
    insertion_sort(forks, [&](auto const& a, auto const& b) {
      return named ? a.first > b.first : a.first < b.first;
    });
    for (auto const& fork : forks) {
      own.forks.push_back(fork.second);
    }
  }

  GraphView graph_;
  MemoryPlan const& plan_;
  PlanTask const& task_;
  Arenas arenas_;
  WeightPlaces places_;
  ArenaBases bases_;
  ParameterPointers<T, P> parameters_;
  std::vector<std::unique_ptr<Storage>> tables_;
  std::vector<Storage*> of_microbatch_;
};

}  // namespace tandem
