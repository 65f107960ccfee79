// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NodePasses: the passes over the nodes of a stage, each a loop over what NodeStep says.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/core/rounding.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/rank/op_list.hpp>
#include <tandem/engine/rank/slice_exchange.hpp>
#include <tandem/engine/step/source.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/spread/spread.hpp>
#include <tandem/ops/operand_table.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/cut/local_stage.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>

namespace tandem {

/// How the gradients of a node's output are added up. A named value's come back from stage to
/// stage, rounded at each; they are rounded alike within a stage, so that it does not matter where
/// the network is cut.
constexpr Rounding rounding_of(Node const& node) {
  return node.named ? Rounding::each : Rounding::once;
}

/// The passes of a node.
template <class Backend>
struct NodeStep {
  PreparedOp<Backend>* op = nullptr;  ///< null: the node computes nothing
  Wanted wanted = Wanted::nothing;    ///< gradients that its op computes
  bool adds_forks = false;            ///< the gradients of its output are added up, or sent
  bool collective = false;            ///< ranks that share layers add or exchange something there
  bool phased = false;                ///< its op is called for microbatches without samples, too
  bool of_source = false;   ///< it depends on an input that is whole where rows come in pieces
  bool dealt_rows = false;  ///< its op sees the rank's own rows
  bool needs_gradient = false;
  int clock = 0;
  int closes = -1;  ///< the bucket that is whole when its weights' gradients are, or -1
  int uses = 0;     ///< gradients that its output gets
  /// The Copy or Enter that gets its only gradient from this node, whose backward pass begins the
  /// sum of that over the ranks; or -1. Siblings that became one node give one together.
  int begins = -1;

  /// Whether there is no more to do forward than to call its op with the pass as it is.
  [[nodiscard]] bool plain() const {
    return op != nullptr && !collective && !of_source && !dealt_rows && clock == 0;
  }
};

/// A pass of a node that does something.
template <class Backend>
struct NodeCall {
  PreparedOp<Backend>* op;  ///< all there is to do is to call it; null: ask the NodeStep
  std::size_t operands;  ///< where the node's begin in a table, in bytes: to multiply takes longer
  int node;
  int closes;     ///< see NodeStep
  Wanted wanted;  ///< likewise

  [[nodiscard]] OperandsOf<Backend> const& of(OperandsOf<Backend> const* all) const {
    return *reinterpret_cast<OperandsOf<Backend> const*>(reinterpret_cast<std::byte const*>(all) +
                                                         operands);
  }
};

/// The nodes where a pass does something, in ascending order.
template <class Backend>
struct NodeCalls {
  std::vector<NodeCall<Backend>> call;
  std::vector<NodeCall<Backend> const*> first;  ///< of each node: its own, or those behind it

  TANDEM_COLD void add(NodeStep<Backend> const& step, int n, bool is_called, bool is_plain) {
    first.push_back(call.data() + call.size());
    if (is_called) {
      call.push_back({is_plain ? step.op : nullptr,
                      static_cast<std::size_t>(n) * sizeof(OperandsOf<Backend>), n, step.closes,
                      step.wanted});
    }
  }
};

/// The steps of all nodes of a device.
template <class Backend>
TANDEM_COLD std::vector<NodeStep<Backend>> node_steps(DeviceTables const& tables,
                                                      OpList<Backend> const& ops) {
  GraphView const& graph = tables.graph;
  std::vector<NodeStep<Backend>> steps(static_cast<std::size_t>(graph.nodes));
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    for (int e = 0; e < node.edges && !node.fusion.merged; ++e) {
      ++steps[static_cast<std::size_t>(graph.source[node.first_edge + e])].uses;
    }
  }
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    NodeStep<Backend>& step = steps[static_cast<std::size_t>(n)];
    bool const trains = node.parameters > 0 && !node.frozen;
    step.op = ops[static_cast<std::size_t>(n)].get();
    step.needs_gradient = node.needs_gradient;
    if (node.needs_gradient && node.computes()) {
      step.wanted = wanted_of(node, gives_input_gradient(graph, n));
    }
    step.adds_forks = node.needs_gradient &&
                      (node.kind == NodeKind::receive || (step.uses > 1 && !node.fusion.joined));
    step.collective = node.is_collective();
    step.phased = phase_rule(node, tables.several_replicas).joins();
    step.of_source = tables.reads_two && has_source_time(node);
    step.dealt_rows = spread_rule(node.sharing.dealt).out.value == Spread::rows;
    step.clock = node.in.clock;
    step.closes = node.needs_gradient && trains ? tables.layout.closes[n] : -1;
    if (node.needs_gradient && node.edges == 1 && !node.fusion.merged) {
      int const source = graph.source[node.first_edge];
      Node const& before = graph.node[source];
      bool const sums = before.kind == NodeKind::copy || before.kind == NodeKind::enter;
      step.begins =
          sums && before.needs_gradient && steps[static_cast<std::size_t>(source)].uses == 1
              ? source
              : -1;
    }
  }
  return steps;
}

/// What passes use and tell: RankCore, or a test's own. A PhaseHost.
///
/// bucket_ready(bucket, leaf): its gradients are whole; leaf as in NodePasses::backward().
/// use_parameters(node, direction): before they are read, where host.uses_parameters, as where a
///                        rank keeps its part of them alone.
/// finish_empty_bucket(bucket, adds, leaf): the same of a microbatch without samples.
/// gather_outgoing(node, forks, count, elements, to): the gradient of a received tensor is the sum
///                        of @p count forks, and goes to @p to, where it is sent from.
/// branches:              where Host::has_branches, BranchStreams.
/// slices:                where Host::has_slices, null or what SliceExchange calls.
template <class H>
concept StageHost = std::derived_from<H, PhaseHost<typename H::T>> &&
    requires(H& host, typename H::T const* const* forks, typename H::T* to, std::int64_t elements,
             int i) {
  typename H::PassType;
  typename H::Table;
  { H::has_branches&& H::has_slices } -> std::same_as<bool>;
  { host.uses_parameters } -> std::convertible_to<bool>;
  host.device;
  host.bucket_ready(i, i);
  host.finish_empty_bucket(i, true, i);
  host.gather_outgoing(i, forks, i, elements, to);
};

/// What a backward pass computes.
enum class BackwardPart { whole, input_gradient, weight_gradient };

/// Where statistics are added over the replicas, a replica without samples has its passes called,
/// too: it adds zeros, and takes part in every collective in the order of the others.
template <class Backend>
class NodePasses {
 public:
  using PassType = Pass<typename Backend::Device>;
  using Table = OperandTable<typename Backend::Scalar, typename Backend::Master>;

  TANDEM_COLD NodePasses(DeviceTables const& tables, OpList<Backend> const& ops)
      : tables_{tables}, steps_{node_steps(tables, ops)} {
    int const nodes = tables.graph.nodes;
    forward_.call.reserve(steps_.size());  // pointers to them stay
    backward_.call.reserve(steps_.size());
    for (int n = 0; n < nodes; ++n) {
      NodeStep<Backend> const& step = at(n);
      bool const sums = step.collective || step.adds_forks || step.begins >= 0;
      bool const closes = step.closes >= 0 && !has(step.wanted, Wanted::weight);
      forward_.add(step, n, step.op != nullptr || step.collective, step.plain());
      backward_.add(step, n, step.wanted != Wanted::nothing || sums || closes,
                    step.plain() && !sums && !closes);
    }
    forward_.add({}, nodes, false, false);
    backward_.add({}, nodes, false, false);
  }

  NodePasses(NodePasses const&) = delete;
  NodePasses& operator=(NodePasses const&) = delete;

  template <StageHost Host>
  void forward(Host& host, PassType const& pass, Table const& table,
               LocalStage const& stage) const {
    [[maybe_unused]] auto const scope = returning(host);
    forward_nodes(host, pass, table, stage);
  }

  /// What was not kept is computed again, run by run, and then goes backward, both gradients at
  /// once.
  /// @param leaf  the leaf that this microbatch finishes, or -1
  template <StageHost Host>
  void backward(Host& host, PassType const& pass, Table const& table, LocalStage const& stage,
                BackwardPart part, int leaf) const {
    [[maybe_unused]] auto const scope = returning(host);
    if (part == BackwardPart::input_gradient) {
      backward_nodes<BackwardPart::input_gradient>(host, pass, table, stage, leaf);
    } else if (part == BackwardPart::weight_gradient) {
      backward_nodes<BackwardPart::weight_gradient>(host, pass, table, stage, leaf);
    } else if (!tables_.recomputes || tables_.segments[stage.first] < 0) {
      backward_nodes<BackwardPart::whole>(host, pass, table, stage, leaf);
    } else {
      recompute_and_back(host, pass, table, stage, leaf);
    }
  }

  /// After parameters have changed.
  template <StageHost Host>
  void pack(Host& host, Table const& table, LocalStage const& stage) const {
    for (int n = stage.first; n < stage.last; ++n) {
      if (NodeStep<Backend> const& step = at(n); step.op != nullptr && step.op->packs) {
        if (!tables_.sharded_parameters) {  // of these none packs
          use_parameters(host, n, PassDirection::forward);
        }
        step.op->pack(table.operands[n], host.device);
      }
    }
    if constexpr (requires { Verbs<Backend>::finish_packing(host.device); }) {
      Verbs<Backend>::finish_packing(host.device);
    }
  }

 private:
  [[nodiscard]] NodeStep<Backend> const& at(int n) const { return steps_[index(n)]; }
  static constexpr std::size_t index(int n) { return static_cast<std::size_t>(n); }
  // Whether each node is to be told of, or none has samples.
  template <class Host>
  static bool tells(Host const& host, PassType const& pass) {
    if constexpr (Host::has_branches) {
      if (host.branches.plan() != nullptr) {
        return true;
      }
    }
    return host.uses_parameters || pass.batch == 0;
  }
  template <class Host>
  static void use_parameters(Host& host, int n, PassDirection direction) {
    if constexpr (requires { host.use_parameters(n, direction); }) {
      if (host.uses_parameters) {
        host.use_parameters(n, direction);
      }
    }
  }

  template <class Host>
  TANDEM_NOINLINE void forward_nodes(Host& host, PassType const& pass, Table const& table,
                                     LocalStage const& stage) const {
    if (tells(host, pass)) {
      tell_forward(host, pass, table, stage);
      return;
    }
    NodeCall<Backend> const* const end = forward_.first[index(stage.last)];
    for (auto call = forward_.first[index(stage.first)]; call != end; ++call) {
      if (call->op != nullptr) {
        call->op->forward(host, call->of(table.operands), pass);
      } else {
        forward_node(host, pass, table, call->node);
      }
    }
  }
  template <class Host>
  TANDEM_NOINLINE void tell_forward(Host& host, PassType const& pass, Table const& table,
                                    LocalStage const& stage) const {
    for (int n = stage.first; n < stage.last; ++n) {
      forward_node(host, pass, table, n);
    }
  }
  template <class Host>
  TANDEM_NOINLINE void tell_backward(Host& host, PassType const& pass, Table const& table,
                                     LocalStage const& stage, BackwardPart part, int leaf) const {
    for (int n = stage.last - 1; n >= stage.first; --n) {
      tell_and_back(host, pass, table, n, part, leaf);
    }
  }
  template <class Host>
  TANDEM_NOINLINE void forward_node(Host& host, PassType const& pass, Table const& table,
                                    int n) const {
    NodeStep<Backend> const& step = at(n);
    use_parameters(host, n, PassDirection::forward);
    if constexpr (Host::has_branches) {
      host.branches.begin_forward(host.device, n);
    }
    if (step.of_source && pass.sequence.position > 0) {
      return;  // what came with the first row still holds
    }
    if (step.op != nullptr && !is_idle(step, pass)) {
      step.op->forward(host, table.operands[n], seen(host, pass, step));
    }
    if constexpr (Host::has_slices) {
      if (step.collective && host.slices) {
        exchange(host, all_rows(pass, step), table, n).forward();
      }
    }
    if constexpr (Host::has_branches) {
      host.branches.end_forward(host.device, n);
    }
  }

  // Nodes in descending order.
  template <BackwardPart Part, class Host>
  TANDEM_NOINLINE void backward_nodes(Host& host, PassType const& pass, Table const& table,
                                      LocalStage const& stage, int leaf) const {
    if (tells(host, pass)) {
      tell_backward(host, pass, table, stage, Part, leaf);
      return;
    }
    NodeCall<Backend> const* const end = backward_.first[index(stage.first)];
    for (auto call = backward_.first[index(stage.last)]; call != end;) {
      --call;
      if (call->op == nullptr) {
        backward_node(host, pass, table, call->node, Part, leaf);
        continue;
      }
      Wanted const wanted =
          Part == BackwardPart::whole ? call->wanted : call->wanted & of_part(Part);
      if (Part == BackwardPart::whole || wanted != Wanted::nothing) {
        call->op->backward(host, call->of(table.operands), pass, wanted);
      }
      if (Part != BackwardPart::input_gradient && call->closes >= 0) {
        host.bucket_ready(call->closes, leaf);
      }
    }
  }
  template <class Host>
  TANDEM_NOINLINE void recompute_and_back(Host& host, PassType const& pass, Table const& table,
                                          LocalStage const& stage, int leaf) const {
    for (LocalStage run = stage; run.last > stage.first; run.last = run.first) {
      run.first = run.last - 1;
      while (run.first > stage.first &&
             tables_.segments[run.first - 1] == tables_.segments[run.last - 1]) {
        --run.first;
      }
      forward_nodes(host, pass, table, run);
      backward_nodes<BackwardPart::whole>(host, pass, table, run, leaf);
    }
  }
  template <class Host>
  TANDEM_NOINLINE void tell_and_back(Host& host, PassType const& pass, Table const& table, int n,
                                     BackwardPart part, int leaf) const {
    if (tables_.sharded_parameters) {
      use_parameters(host, n, PassDirection::backward);
    }
    if constexpr (Host::has_branches) {
      host.branches.begin_backward(host.device, n);
    }
    backward_node(host, pass, table, n, part, leaf);
    if constexpr (Host::has_branches) {
      // A bucket of which a part is a branch's is whole when all branches are.
      if (host.branches.end_backward(host.device, n) && part != BackwardPart::input_gradient) {
        for (int m = host.branches.last(n); m >= n; --m) {
          close_bucket(host, pass, leaf, at(m).closes);
        }
      }
    }
  }
  template <class Host>
  TANDEM_NOINLINE void backward_node(Host& host, PassType const& pass, Table const& table, int n,
                                     BackwardPart part, int leaf) const {
    NodeStep<Backend> const& step = at(n);
    if (!step.needs_gradient) {
      return;
    }
    bool const idle = step.op == nullptr || is_idle(step, pass);
    auto const compute = [&](Wanted wanted) {
      if (!idle && wanted != Wanted::nothing) {
        step.op->backward(host, table.operands[n], seen(host, pass, step), wanted);
      }
    };
    Wanted wanted = step.wanted & of_part(part);
    if (part != BackwardPart::weight_gradient) {
      if (step.adds_forks && pass.batch > 0) {
        add_forks(host, seen(host, pass, step), table, n);
      }
      if constexpr (Host::has_slices) {
        if (step.collective && host.slices) {
          exchange(host, all_rows(pass, step), table, n)
              .backward(step.uses, has(step.wanted, Wanted::input));
        }
        if (step.begins >= 0 && host.slices) {
          bool const at_once = wanted == Wanted::both && step.op->gives_both;
          compute(at_once ? wanted : wanted & Wanted::input);
          wanted = at_once ? Wanted::nothing : wanted & Wanted::weight;
          exchange(host, all_rows(pass, step), table, step.begins).begin();
        }
      }
    }
    compute(wanted);
    if (part != BackwardPart::input_gradient) {
      if constexpr (Host::has_branches) {
        if (host.branches.inside(n)) {
          return;
        }
      }
      close_bucket(host, pass, leaf, step.closes);
    }
  }

  template <class Host>
  static void close_bucket(Host& host, PassType const& pass, int leaf, int bucket) {
    if (bucket < 0) {
      return;
    }
    if (pass.batch == 0) {
      host.finish_empty_bucket(bucket, pass.accumulate, leaf);
    } else {
      host.bucket_ready(bucket, leaf);
    }
  }

  // The gradient of a node's output from those that its readers gave it.
  template <class Host>
  void add_forks(Host& host, PassType const& pass, Table const& table, int n) const {
    Node const& node = tables_.graph.node[n];
    auto const* const forks = table.forks + table.first_fork[n];
    std::int64_t const elements = pass.elements(node.out);
    if (node.kind == NodeKind::receive) {
      host.gather_outgoing(n, forks, at(n).uses, elements, table.gradient[n]);
    } else {
      Verbs<Backend>::sum(pass.device, forks, at(n).uses, table.gradient[n], elements,
                          rounding_of(node));
    }
  }

  static constexpr Wanted of_part(BackwardPart part) {
    return part == BackwardPart::whole            ? Wanted::both
           : part == BackwardPart::input_gradient ? Wanted::input
                                                  : Wanted::weight;
  }

  // Whether a microbatch has no samples for an op that joins nothing with other ranks.
  static bool is_idle(NodeStep<Backend> const& step, PassType const& pass) {
    return pass.batch == 0 && !step.phased;
  }

  // As a node's op sees it: with the time of its own clock, a source that is whole, a rank's rows.
  template <class Host>
  static PassType seen([[maybe_unused]] Host& host, PassType const& pass,
                       NodeStep<Backend> const& step) {
    if constexpr (Host::has_slices) {
      if (step.dealt_rows && host.slices) {
        return all_rows(pass, step).on_rows(host.slice());
      }
    }
    return all_rows(pass, step);
  }
  // As the ranks that share layers see it where each has all rows.
  static PassType all_rows(PassType const& pass, NodeStep<Backend> const& step) {
    if (step.clock != 0) {
      return pass.on_clock(step.clock);
    }
    return step.of_source ? pass.whole() : pass;
  }

  template <class Host>
  SliceExchange<Host> exchange(Host& host, PassType const& pass, Table const& table, int n) const {
    return {host, tables_.graph.node[n], n, pass, table};
  }

  template <class Host>
  static auto returning([[maybe_unused]] Host& host) {
    if constexpr (Host::has_branches) {
      return typename Host::Branching::Return{host.device};
    } else {
      return 0;
    }
  }

  DeviceTables const& tables_;
  std::vector<NodeStep<Backend>> steps_;
  NodeCalls<Backend> forward_;
  NodeCalls<Backend> backward_;
};

}  // namespace tandem
