// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMemory: the arenas of one rank, allocated once, and the tables of pointers into them.

#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <tandem/engine/memory_plan.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// Bytes of each arena of a rank; together they are all that it ever allocates for tensors.
struct MemoryReport {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;  ///< 1 + log2(leaves of the replica) buffers
  std::int64_t optimizer_state = 0;
  std::int64_t kept = 0;       ///< activations that backward reads, for each live microbatch
  std::int64_t transient = 0;  ///< other activations and their gradients, sharing memory
  std::int64_t scratch = 0;
  std::int64_t weights = 0;  ///< parameters as products read them, where that is another form
  std::int64_t wire = 0;     ///< gradients rounded for the way, where the strategy asks for that
  std::int64_t feed =
      0;  ///< batches and results on their way, where the device has a memory of its own
  std::int64_t tables = 0;   ///< of the update, and sums of losses, likewise
  std::int64_t logical = 0;  ///< what kept and transient would be if nothing shared memory

  [[nodiscard]] std::int64_t total() const {
    return parameters + gradients + optimizer_state + kept + transient + scratch + weights + wire +
           feed + tables;
  }
};

/// Whether a backend's ops keep parameters in layouts of their own.
template <class Backend>
inline constexpr bool packs_weights = [] {
  if constexpr (requires { Backend::packs_weights; }) {
    return bool{Backend::packs_weights};
  } else {
    return false;
  }
}();

template <class Program, class Backend>
class RankMemory {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Buffer = typename Backend::Buffer;
  using Device = typename Backend::Device;
  /// Whether products read parameters of another type than the optimizer keeps, and no op packs
  /// them.
  static constexpr bool mixed = !std::is_same_v<T, P> && !packs_weights<Backend>;
  static constexpr auto const& graph = Program::graph;
  static constexpr auto const& layout = Program::layout;
  /// Sums of finished leaves that wait for their sibling in the tree.
  static constexpr int waiting_leaves =
      std::bit_width(static_cast<unsigned>(Program::batching.leaves)) - 1;

  /// @param ops  have plan(), needs() and scratch_bytes(), as PreparedOps
  template <class Ops>
  RankMemory(Device& device, Ops const& ops, int states)
      : plan_{ops.plan()},
        parameters_{device, bytes(layout.elements)},
        weights_{device, mixed ? static_cast<std::size_t>(layout.elements) * sizeof(T) : 0},
        gradients_{device, bytes(layout.trained) * (1 + waiting_leaves)},
        states_{device, bytes(layout.trained) * static_cast<std::size_t>(states)},
        kept_{device, static_cast<std::size_t>(plan_.kept_bytes)},
        transient_{device, static_cast<std::size_t>(plan_.transient_bytes)},
        scratch_{device, static_cast<std::size_t>(ops.scratch_bytes())},
        packed_{device, packed_bytes(ops.needs())} {
    point_parameters();
    point_activations();
    point_packed(ops.needs());
  }

  [[nodiscard]] P* parameters() const { return parameters_.template as<P>(); }
  /// The parameters as products read them; where the types agree, the parameters themselves. Null
  /// where ops pack them.
  [[nodiscard]] T* weights() const {
    if constexpr (mixed) {
      return weights_.template as<T>();
    } else if constexpr (std::is_same_v<T, P>) {
      return parameters();
    } else {
      return nullptr;
    }
  }
  /// Buffer 0 takes the gradients of the leaf at work, the others wait in the tree.
  [[nodiscard]] P* gradients(int buffer = 0) const {
    return gradients_.template as<P>() + buffer * layout.trained;
  }
  [[nodiscard]] P* state(int s) const { return states_.template as<P>() + s * layout.trained; }
  [[nodiscard]] std::byte* scratch() const { return scratch_.data(); }

  [[nodiscard]] Operands<T, P> const& operands(int node) const {
    return operands_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] T* gradient_of(int node) const {
    return at(transient_, plan_.node_gradient[static_cast<std::size_t>(node)]);
  }
  /// The gradients of the edges that carry a node's output, in the order of the edges.
  [[nodiscard]] T const* const* forks(int node) const {
    return forks_.data() + first_fork_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] T* loss_gradient() const { return at(transient_, plan_.loss_gradient); }
  [[nodiscard]] T const* output() const { return output_; }

  /// Points every edge that carries the network's input to @p x.
  void set_input(T const* x) {
    for (int i = 0; i < input_edges; ++i) {
      *input_edge_[i] = x;
    }
    if constexpr (is_input(graph.nodes - 1)) {
      output_ = x;
    }
  }

  [[nodiscard]] MemoryReport report() const {
    auto const size = [](Buffer const& b) { return static_cast<std::int64_t>(b.bytes()); };
    return {.parameters = size(parameters_),
            .gradients = size(gradients_),
            .optimizer_state = size(states_),
            .kept = size(kept_),
            .transient = size(transient_),
            .scratch = size(scratch_),
            .weights = size(weights_) + size(packed_),
            .logical = plan_.logical_bytes};
  }

 private:
  // Whether a node's output is the network's input, perhaps under another shape.
  static constexpr bool is_input(int node) { return root_of(graph, node) == 0; }
  static constexpr int input_edges = [] {
    int count = 0;
    for (int e = 0; e < graph.edges; ++e) {
      count += is_input(graph.source[e]) ? 1 : 0;
    }
    return count;
  }();

  static std::size_t bytes(std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(P);
  }
  static T* at(Buffer const& arena, std::int64_t offset) {
    return offset < 0 ? nullptr : reinterpret_cast<T*>(arena.data() + offset);
  }
  [[nodiscard]] T* value_of(int node) const {
    auto const n = static_cast<std::size_t>(node);
    auto const root = static_cast<std::size_t>(plan_.root[n]);
    return plan_.value[root] < 0
               ? nullptr
               : at(plan_.kept[root] ? kept_ : transient_, plan_.value[root] + plan_.slice[n]);
  }

  void point_parameters() {
    for (int p = 0; p < graph.parameters; ++p) {
      parameter_.push_back(parameters() + layout.offset[p]);
      weight_.push_back(weights() != nullptr ? weights() + layout.offset[p] : nullptr);
      gradient_.push_back(graph.parameter[p].frozen ? nullptr : gradients() + layout.offset[p]);
    }
  }

  void point_activations() {
    for (int e = 0; e < graph.edges; ++e) {
      edge_value_.push_back(value_of(graph.source[e]));
      edge_gradient_.push_back(at(transient_, plan_.edge_gradient[static_cast<std::size_t>(e)]));
    }
    for (int e = 0, i = 0; e < graph.edges; ++e) {
      if (is_input(graph.source[e])) {
        input_edge_[i++] = &edge_value_[static_cast<std::size_t>(e)];
      }
    }
    for (int n = 0; n < graph.nodes; ++n) {
      Node const& node = graph.node[n];
      first_fork_.push_back(forks_.size());
      for (int m = n + 1; m < graph.nodes; ++m) {
        for (int e = graph.node[m].first_edge, end = e + graph.node[m].edges; e < end; ++e) {
          if (graph.source[e] == n && !graph.node[m].merged) {
            forks_.push_back(edge_gradient_[static_cast<std::size_t>(e)]);
          }
        }
      }
      operands_.push_back({.x = edge_value_.data() + node.first_edge,
                           .y = value_of(n),
                           .dy = gradient_of(n),
                           .dx = edge_gradient_.data() + node.first_edge,
                           .parameter = parameter_.data() + node.first_parameter,
                           .weight = weight_.data() + node.first_parameter,
                           .gradient = gradient_.data() + node.first_parameter,
                           .saved = reinterpret_cast<std::byte*>(
                               at(kept_, plan_.saved[static_cast<std::size_t>(n)]))});
    }
    output_ = value_of(graph.nodes - 1);
  }

  static std::size_t packed_bytes(std::vector<OpNeeds> const& needs) {
    std::int64_t sum = 0;
    for (OpNeeds const& need : needs) {
      sum += detail::aligned(need.packed_bytes);
    }
    return static_cast<std::size_t>(sum);
  }
  void point_packed(std::vector<OpNeeds> const& needs) {
    std::byte* next = packed_.data();
    for (std::size_t n = 0; n < needs.size(); ++n) {
      operands_[n].packed = next;
      next += detail::aligned(needs[n].packed_bytes);
    }
  }

  MemoryPlan plan_;
  Buffer parameters_;
  Buffer weights_;
  Buffer gradients_;
  Buffer states_;
  Buffer kept_;
  Buffer transient_;
  Buffer scratch_;
  Buffer packed_;
  std::vector<P*> parameter_;
  std::vector<T const*> weight_;
  std::vector<P*> gradient_;
  std::vector<T const*> edge_value_;
  std::vector<T*> edge_gradient_;
  T const** input_edge_[input_edges > 0 ? input_edges : 1] = {};
  std::vector<T const*> forks_;
  std::vector<std::size_t> first_fork_;
  std::vector<Operands<T, P>> operands_;
  T const* output_ = nullptr;
};

}  // namespace tandem
