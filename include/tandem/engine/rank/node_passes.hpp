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

/// A pass that does more than call a node's op goes a slower way, by the flags that are not plain.
template <class Backend>
struct NodeStep {
  PreparedOp<Backend>* op = nullptr;  ///< null: the node computes nothing
  bool plain_forward = false;         ///< forward only calls the op, with the pass as it is
  bool idle_forward = false;          ///< forward does nothing
  bool plain_backward = false;   ///< backward only calls the op, once for each gradient, likewise
  bool input_gradient = false;   ///< backward wants the gradients of its inputs
  bool weight_gradient = false;  ///< its op computes the gradients of its parameters
  bool both = false;             ///< its op computes both kinds of gradients at once
  bool adds_forks = false;       ///< the gradients of its output are added up, or sent
  bool collective = false;       ///< ranks that share layers add or exchange something there
  bool phased = false;           ///< its op is called for microbatches without samples, too
  bool of_source = false;        ///< it depends on an input that is whole where rows come in pieces
  bool dealt_rows = false;       ///< its op sees the rank's own rows
  bool needs_gradient = false;
  int clock = 0;
  int closes = -1;  ///< the bucket that is whole when its weights' gradients are, or -1
  int uses = 0;     ///< gradients that its output gets
  /// The Copy or Enter that gets its only gradient from this node, whose backward pass begins the
  /// sum of that over the ranks; or -1. Siblings that became one node give one together.
  int begins = -1;
};

/// The steps of all nodes of a device.
template <class Backend>
TANDEM_COLD std::vector<NodeStep<Backend>> node_steps(DeviceTables const& tables,
                                                      OpList<Backend> const& ops) {
  GraphView const& graph = tables.graph;
  std::vector<NodeStep<Backend>> steps(static_cast<std::size_t>(graph.nodes));
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    for (int e = 0; e < node.edges && !node.merged; ++e) {
      ++steps[static_cast<std::size_t>(graph.source[node.first_edge + e])].uses;
    }
  }
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    NodeStep<Backend>& step = steps[static_cast<std::size_t>(n)];
    bool const trains = node.parameters > 0 && !node.frozen;
    step.op = ops[static_cast<std::size_t>(n)].get();
    step.needs_gradient = node.needs_gradient;
    step.input_gradient = node.needs_gradient && gives_input_gradient(graph, n);
    step.weight_gradient = node.needs_gradient && trains && node.computes();
    step.both = step.input_gradient && step.weight_gradient && step.op->gives_both;
    step.adds_forks =
        node.needs_gradient && (node.kind == NodeKind::receive || (step.uses > 1 && !node.joined));
    step.collective = node.is_collective();
    step.phased = phase_rule(node, tables.several_replicas).joins();
    step.of_source = tables.reads_two && has_source_time(node);
    step.dealt_rows = spread_rule(node.dealt).out.value == Spread::rows;
    step.clock = node.in.clock;
    step.closes = node.needs_gradient && trains ? tables.layout.closes[n] : -1;
    if (node.needs_gradient && node.edges == 1 && !node.merged) {
      int const source = graph.source[node.first_edge];
      Node const& before = graph.node[source];
      bool const sums = before.kind == NodeKind::copy || before.kind == NodeKind::enter;
      step.begins =
          sums && before.needs_gradient && steps[static_cast<std::size_t>(source)].uses == 1
              ? source
              : -1;
    }
    bool const as_it_is = !step.of_source && !step.dealt_rows && step.clock == 0;
    step.plain_forward = as_it_is && !step.collective && step.op != nullptr;
    step.idle_forward = !step.collective && step.op == nullptr;
    step.plain_backward = as_it_is && !step.collective && !step.adds_forks && !step.both &&
                          step.begins < 0 && (step.closes < 0 || step.weight_gradient);
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
      : tables_{tables}, steps_{node_steps(tables, ops)} {}

  template <StageHost Host>
  void forward(Host& host, PassType const& pass, Table const& table,
               LocalStage const& stage) const {
    [[maybe_unused]] auto const scope = returning(host);
    forward_nodes(host, pass, table, stage.first, stage.last);
  }

  /// What was not kept is computed again, run by run, and then goes backward, both gradients at
  /// once.
  /// @param leaf  the leaf that this microbatch finishes, or -1
  template <StageHost Host>
  void backward(Host& host, PassType const& pass, Table const& table, LocalStage const& stage,
                BackwardPart part, int leaf) const {
    [[maybe_unused]] auto const scope = returning(host);
    if (part == BackwardPart::input_gradient) {
      backward_nodes<BackwardPart::input_gradient>(host, pass, table, stage.first, stage.last,
                                                   leaf);
    } else if (part == BackwardPart::weight_gradient) {
      backward_nodes<BackwardPart::weight_gradient>(host, pass, table, stage.first, stage.last,
                                                    leaf);
    } else if (tables_.segments[stage.first] < 0) {
      backward_nodes<BackwardPart::whole>(host, pass, table, stage.first, stage.last, leaf);
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
  [[nodiscard]] NodeStep<Backend> const& at(int n) const {
    return steps_[static_cast<std::size_t>(n)];
  }
  [[nodiscard]] int number(NodeStep<Backend> const* step) const {
    return static_cast<int>(step - steps_.data());
  }
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
  void forward_nodes(Host& host, PassType const& pass, Table const& table, int first,
                     int last) const {
    if (tells(host, pass)) {
      tell_forward(host, pass, table, first, last);
      return;
    }
    NodeStep<Backend> const* const end = steps_.data() + last;
    auto const* operands = table.operands + first;
    for (NodeStep<Backend> const* step = steps_.data() + first; step != end; ++step, ++operands) {
      if (step->plain_forward) {
        step->op->forward(host, *operands, pass);
      } else if (!step->idle_forward) {
        forward_node(host, pass, table, number(step));
      }
    }
  }
  template <class Host>
  TANDEM_NOINLINE void tell_forward(Host& host, PassType const& pass, Table const& table, int first,
                                    int last) const {
    for (int n = first; n < last; ++n) {
      forward_node(host, pass, table, n);
    }
  }
  template <class Host>
  TANDEM_NOINLINE void tell_backward(Host& host, PassType const& pass, Table const& table,
                                     int first, int last, BackwardPart part, int leaf) const {
    for (int n = last - 1; n >= first; --n) {
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
    if (step.of_source && pass.position > 0) {
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
  void backward_nodes(Host& host, PassType const& pass, Table const& table, int first, int last,
                      int leaf) const {
    if (tells(host, pass)) {
      tell_backward(host, pass, table, first, last, Part, leaf);
      return;
    }
    NodeStep<Backend> const* const end = steps_.data() + first;
    auto const* operands = table.operands + last;
    for (NodeStep<Backend> const* step = steps_.data() + last; step != end;) {
      --step;
      --operands;
      if (!step->plain_backward) {
        backward_node(host, pass, table, number(step), Part, leaf);
        continue;
      }
      if (Part != BackwardPart::weight_gradient && step->input_gradient) {
        step->op->input_gradient(host, *operands, pass);
      }
      if (Part != BackwardPart::input_gradient && step->weight_gradient) {
        step->op->weight_gradient(host, *operands, pass);
        if (step->closes >= 0) {
          host.bucket_ready(step->closes, leaf);
        }
      }
    }
  }
  template <class Host>
  TANDEM_NOINLINE void recompute_and_back(Host& host, PassType const& pass, Table const& table,
                                          LocalStage const& stage, int leaf) const {
    for (int end = stage.last; end > stage.first;) {
      int begin = end - 1;
      while (begin > stage.first && tables_.segments[begin - 1] == tables_.segments[end - 1]) {
        --begin;
      }
      forward_nodes(host, pass, table, begin, end);
      backward_nodes<BackwardPart::whole>(host, pass, table, begin, end, leaf);
      end = begin;
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
    bool const both = step.both && part == BackwardPart::whole;
    bool const idle = step.op == nullptr || is_idle(step, pass);
    if (part != BackwardPart::weight_gradient) {
      if (step.adds_forks && pass.batch > 0) {
        add_forks(host, seen(host, pass, step), table, n);
      }
      if constexpr (Host::has_slices) {
        if (step.collective && host.slices) {
          exchange(host, all_rows(pass, step), table, n).backward(step.uses, step.input_gradient);
        }
      }
      if (both && !idle) {
        step.op->both_gradients(table.operands[n], seen(host, pass, step));
      } else if (step.input_gradient && !idle) {
        step.op->input_gradient(host, table.operands[n], seen(host, pass, step));
      }
      if constexpr (Host::has_slices) {
        if (step.begins >= 0 && host.slices) {
          exchange(host, all_rows(pass, step), table, step.begins).begin();
        }
      }
    }
    if (part != BackwardPart::input_gradient) {
      if (step.weight_gradient && !both && !idle) {
        step.op->weight_gradient(host, table.operands[n], seen(host, pass, step));
      }
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
};

}  // namespace tandem
