// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stage: the passes over the nodes of one stage, straight-line code without a look-up.
///
/// Each pass is a function of its own, made of blocks of at most longest_period nodes; a rank's
/// loop over its actions calls it with the microbatch as a run-time number. Nodes that are
/// repeated, as a Transformer's blocks, are a loop, and count once.

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/engine/rank/node_runs.hpp>
#include <tandem/engine/rank/op_passes.hpp>
#include <tandem/engine/rank/slice_exchange.hpp>
#include <tandem/engine/step/source.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/ops/operand_table.hpp>
#include <tandem/ops/phases.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>

namespace tandem {

/// Whether one of nodes [first, last) of a device joins statistics with those of other replicas.
template <class Program>
constexpr bool synchronizes(int first, int last) {
  bool any = false;
  for (int n = first; n < last; ++n) {
    any = any || (Program::several_replicas && Program::graph.node[n].synchronizes);
  }
  return any;
}

/// What a stage's passes use and tell: RankParts, or a test's own.
///
/// ops.get<I>(n): the op of node n, which has the type of node I's.
/// bucket_ready(bucket, leaf): its gradients are whole; leaf as in Stage::backward().
/// use_parameters(node, direction): before they are read, where Host::uses_parameters, as where a
///                        rank keeps its part of them alone.
/// finish_empty_bucket(bucket, adds, leaf): the same of a microbatch without samples.
/// join<axis, how>(data, stage): a collective phase of an op of a local stage.
/// gather<axis>(data):    one in which ranks bring numbers together.
/// gather_outgoing(node, forks, count, elements, to): the gradient of a received tensor is the sum
///                        of @p count forks, and goes to @p to, where it is sent from.
/// Where ranks share layers, what SliceExchange calls.
/// exchange_tiles(messages), join_tiles(data): where several ranks have tiles of images, what they
///                        send each other, and what becomes its sum over them.
template <class H>
concept StageHost = requires(H& host, std::span<double> sums, typename H::T const* const* forks,
                             typename H::T* to, std::int64_t elements, int i) {
  typename H::PassType;
  typename H::Table;
  host.ops;  // get<I>(n) is there for nodes that compute
  host.device;
  host.bucket_ready(i, i);
  host.finish_empty_bucket(i, true, i);
  host.template join<Axis::data, Joined::sum>(sums, i);
  host.gather_outgoing(i, forks, i, elements, to);
};

/// What a backward pass computes.
enum class BackwardPart { whole, input_gradient, weight_gradient };

/// Nodes [First, Last) of a device's graph.
///
/// Where statistics are added over the replicas, a replica without samples has its passes called,
/// too: it adds zeros, and takes part in every collective in the order of the others.
template <StageHost Host, class Program, class Backend, int First, int Last>
struct Stage {
  using PassType = typename Host::PassType;
  using Table = typename Host::Table;
  static constexpr auto const& graph = Program::graph;
  static constexpr auto uses = count_uses(graph);
  static constexpr auto keys = node_keys<Program>(detail::op_groups<Program>, uses);
  static constexpr bool synchronizes = tandem::synchronizes<Program>(First, Last);

  /// Whether branches may run at the same time.
  static constexpr bool branches = [] {
    if constexpr (requires { Host::has_branches; }) {
      return Host::has_branches;
    } else {
      return false;
    }
  }();

  /// Whether it says so before a node's parameters are read.
  static constexpr bool uses_parameters = [] {
    if constexpr (requires { Host::uses_parameters; }) {
      return Host::uses_parameters;
    } else {
      return false;
    }
  }();

  TANDEM_NOINLINE static void forward(Host& host, PassType const& pass, Table const& table) {
    [[maybe_unused]] auto const scope = returning(host);
    forward_nodes<First, Last>(host, pass, table);
  }

  /// What was not kept is computed again, run by run, and then goes backward, both gradients at
  /// once.
  /// @param leaf  the leaf that this microbatch finishes, or -1
  template <BackwardPart P = BackwardPart::whole>
  TANDEM_NOINLINE static void backward(Host& host, PassType const& pass, Table const& table,
                                       int leaf) {
    [[maybe_unused]] auto const scope = returning(host);
    if constexpr (Program::segments.of[First] < 0) {
      backward_nodes<P, First, Last>(host, pass, table, leaf);
    } else {
      static_assert(P == BackwardPart::whole);
      recompute_and_back<Last>(host, pass, table, leaf);
    }
  }

  /// After parameters have changed.
  TANDEM_NOINLINE static void pack(Host& host, Table const& table) {
    each_block<First, Last>([&](auto block) { pack_block<block>(host, table); });
    if constexpr (requires { Verbs<Backend>::finish_packing(host.device); }) {
      Verbs<Backend>::finish_packing(host.device);
    }
  }

 private:
  static constexpr int local = [] {
    int index = 0;
    while (Program::stages.stage[index].first != First) {
      ++index;
    }
    return index;
  }();
  /// How node I's op is run.
  template <int I>
  using ComputingPasses = std::conditional_t<
      graph.node[I].dealt == Dealt::vocabulary, PhasedPasses<Backend, local, true, true, false>,
      std::conditional_t<
          tandem::synchronizes<Program>(I, I + 1) || graph.node[I].joins_tiles(),
          PhasedPasses<Backend, local, false, tandem::synchronizes<Program>(I, I + 1),
                       graph.node[I].joins_tiles()>,
          WholePasses<synchronizes>>>;
  template <int I>
  using OpPasses = std::conditional_t<graph.node[I].kind == NodeKind::exchange,
                                      ExchangePasses<synchronizes>, ComputingPasses<I>>;

  template <int Begin, int End>
  static constexpr auto runs = find_runs<Begin, End>(keys);
  template <int Begin, int End>
  static constexpr auto blocks = block_runs(runs<Begin, End>);

  // f(b) of each block of nodes [Begin, End), in order.
  template <int Begin, int End, class F>
  static void each_block(F const& f) {
    [&]<int... B>(std::integer_sequence<int, B...>) { (f(std::integral_constant<int, B>{}), ...); }
    (std::make_integer_sequence<int, blocks<Begin, End>.count>{});
  }

  template <int Begin, int End>
  static void forward_nodes(Host& host, PassType const& pass, Table const& table) {
    each_block<Begin, End>([&](auto b) { forward_block<Begin, End, b>(host, pass, table); });
  }
  template <int Begin, int End, int B>
  static void forward_block(Host& host, PassType const& pass, Table const& table) {
    constexpr int from = blocks<Begin, End>.first[B];
    constexpr int to = blocks<Begin, End>.first[B + 1];
    each_node<runs<Begin, End>, from, to>([&](auto at, auto n) {
      if constexpr (uses_parameters) {
        host.use_parameters(n, PassDirection::forward);
      }
      if constexpr (branches) {
        host.branches.begin_forward(host.device, n);
      }
      if constexpr (is_of_source<Program>(at)) {
        if (pass.position > 0) {
          return;  // what came with the first row still holds
        }
      }
      if constexpr (graph.node[at].computes()) {
        OpPasses<at>::forward(host, host.ops.template get<at>(n), table.operands[n],
                              pass_of<at>(host, pass));
      }
      if constexpr (graph.node[at].is_collective()) {
        SliceExchange<Program, at>::forward(host, all_rows<at>(pass), table.operands[n], n);
      }
      if constexpr (branches) {
        host.branches.end_forward(host.device, n);
      }
    });
  }

  // Blocks and nodes in descending order.
  template <BackwardPart P, int Begin, int End>
  static void backward_nodes(Host& host, PassType const& pass, Table const& table, int leaf) {
    each_block<Begin, End>([&](auto b) {
      constexpr int last = blocks<Begin, End>.count - 1;
      backward_block<P, Begin, End, last - b>(host, pass, table, leaf);
    });
  }
  template <BackwardPart P, int Begin, int End, int B>
  static void backward_block(Host& host, PassType const& pass, Table const& table, int leaf) {
    constexpr int from = blocks<Begin, End>.first[B];
    constexpr int to = blocks<Begin, End>.first[B + 1];
    each_node_back<runs<Begin, End>, from, to>([&](auto node, auto n) {
      if constexpr (Program::sharded_parameters) {
        host.use_parameters(n, PassDirection::backward);
      }
      if constexpr (branches) {
        host.branches.begin_backward(host.device, n);
      }
      backward_node<P, node>(host, pass, table, leaf, n);
      if constexpr (branches) {
        end_backward<P>(host, pass, leaf, n);
      }
    });
  }

  static constexpr int segment_begin(int end) {
    int begin = end - 1;
    while (begin > First && Program::segments.of[begin - 1] == Program::segments.of[end - 1]) {
      --begin;
    }
    return begin;
  }
  template <int End>
  static void recompute_and_back(Host& host, PassType const& pass, Table const& table, int leaf) {
    if constexpr (End > First) {
      constexpr int begin = segment_begin(End);
      forward_nodes<begin, End>(host, pass, table);
      backward_nodes<BackwardPart::whole, begin, End>(host, pass, table, leaf);
      recompute_and_back<begin>(host, pass, table, leaf);
    }
  }

  // As node I sees it: with the time of its own clock, a source that is whole, a rank's rows.
  template <int I>
  static decltype(auto) pass_of([[maybe_unused]] Host& host, PassType const& pass) {
    if constexpr (spread_rule(graph.node[I].dealt).out.value == Spread::rows) {
      return all_rows<I>(pass).on_rows(host.slices.slice());
    } else {
      return all_rows<I>(pass);
    }
  }
  // The same where ranks that share layers have all rows.
  template <int I>
  static decltype(auto) all_rows(PassType const& pass) {
    if constexpr (graph.node[I].in.clock != 0) {
      return pass.on_clock(graph.node[I].in.clock);
    } else if constexpr (is_of_source<Program>(I)) {
      return pass.whole();
    } else {
      return (pass);
    }
  }

  // Where nothing is joined with other ranks no such pass is called.
  static bool is_empty(PassType const& pass) { return synchronizes && pass.batch == 0; }

  template <int B>
  static void pack_block(Host& host, Table const& table) {
    constexpr int from = blocks<First, Last>.first[B];
    constexpr int to = blocks<First, Last>.first[B + 1];
    each_node<runs<First, Last>, from, to>([&](auto at, auto n) {
      if constexpr (graph.node[at].computes()) {
        auto& op = host.ops.template get<at>(n);
        if constexpr (requires { op.pack(table.operands[n], host.device); }) {
          if constexpr (uses_parameters && !Program::sharded_parameters) {  // of these none packs
            host.use_parameters(n, PassDirection::forward);
          }
          op.pack(table.operands[n], host.device);
        }
      }
    });
  }

  // Whether node I's op computes both gradients at once.
  template <BackwardPart P, int I>
  static constexpr bool gives_both() {
    constexpr Node const& node = graph.node[I];
    if constexpr (P == BackwardPart::whole && Program::gives_input_gradient.of[I] &&
                  node.parameters > 0 && !node.frozen && node.computes()) {
      return requires(Host & host, PassType const& pass, Table const& table) {
        OpPasses<I>::both_gradients(host, host.ops.template get<I>(0), table.operands[0], pass);
      };
    } else {
      return false;
    }
  }

  template <BackwardPart P, int I, class N>
  static void backward_node(Host& host, PassType const& pass, Table const& table, int leaf, N n) {
    constexpr Node const& node = graph.node[I];
    constexpr bool both = gives_both<P, I>();
    auto const& operands = table.operands[n];
    if constexpr (node.needs_gradient && P != BackwardPart::weight_gradient) {
      if (!is_empty(pass)) {
        add_forks<I>(host, pass_of<I>(host, pass), table, n);
      }
      if constexpr (node.is_collective()) {
        SliceExchange<Program, I, uses.of[I]>::backward(host, all_rows<I>(pass), table, n);
      }
      if constexpr (both) {
        OpPasses<I>::both_gradients(host, host.ops.template get<I>(n), operands,
                                    pass_of<I>(host, pass));
      } else if constexpr (Program::gives_input_gradient.of[I]) {
        OpPasses<I>::input_gradient(host, host.ops.template get<I>(n), operands,
                                    pass_of<I>(host, pass));
      }
      if constexpr (begun_sum(graph, uses, I) != NodeKind::layer) {
        SliceExchange<Program, graph.source[node.first_edge]>::begin(
            host, all_rows<I>(pass), table, graph.source[graph.node[n].first_edge]);
      }
    }
    if constexpr (node.needs_gradient && P != BackwardPart::input_gradient) {
      if constexpr (node.parameters > 0 && !node.frozen && node.computes() && !both) {
        OpPasses<I>::weight_gradient(host, host.ops.template get<I>(n), operands,
                                     pass_of<I>(host, pass));
      }
      if constexpr (node.parameters > 0 && !node.frozen) {
        if (!is_open(host, n)) {
          close_bucket(host, pass, leaf, Program::layout.closes[n]);
        }
      }
    }
  }

  // A bucket of which a part is a branch's is whole when all branches are.
  template <BackwardPart P>
  static void end_backward(Host& host, PassType const& pass, int leaf, int n) {
    if (host.branches.end_backward(host.device, n) && P != BackwardPart::input_gradient) {
      for (int m = host.branches.last(n); m >= n; --m) {
        close_bucket(host, pass, leaf, Program::layout.closes[m]);
      }
    }
  }
  static auto returning([[maybe_unused]] Host& host) {
    if constexpr (branches) {
      return typename Host::Branching::Return{host.device};
    } else {
      return 0;
    }
  }
  static bool is_open(Host const& host, int n) {
    if constexpr (branches) {
      return host.branches.inside(n);
    } else {
      return false;
    }
  }

  static void close_bucket(Host& host, PassType const& pass, int leaf, int bucket) {
    if (bucket < 0) {
      return;
    }
    if (is_empty(pass)) {
      host.finish_empty_bucket(bucket, pass.accumulate, leaf);
    } else {
      host.bucket_ready(bucket, leaf);
    }
  }

  // The gradient of a node's output from those that its readers gave it.
  template <int I, class N>
  static void add_forks(Host& host, PassType const& pass, Table const& table, N n) {
    constexpr Node const& node = graph.node[I];
    auto const* const forks = table.forks + table.first_fork[n];
    std::int64_t const elements = pass.elements(graph.node[n].out);
    if constexpr (node.kind == NodeKind::receive) {
      host.gather_outgoing(I, forks, uses.of[I], elements, table.gradient[n]);
    } else if constexpr (adds_gradients(node, uses.of[I])) {
      Verbs<Backend>::sum(pass.device, forks, uses.of[n], table.gradient[n], elements,
                          rounding_of(graph.node[n]));
    }
  }
};

}  // namespace tandem
