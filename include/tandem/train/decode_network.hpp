// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which networks a Decoder can write with, and what it must know of one.

#include <algorithm>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/step/source.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/train/decode.hpp>
#include <tandem/train/options/default_metric.hpp>
#include <tandem/train/ranks/program_facts.hpp>

namespace tandem::detail {

/// Whether a network reads a sentence and, in its second input, what is said of it so far: rows of
/// tokens all, none of the first depends on the second, and its results are words.
template <GraphSize Size>
constexpr bool translates(Graph<Size> const& graph) {
  bool fits = graph.node[1].kind == NodeKind::input && graph.node[0].limit > 0 &&
              graph.node[1].limit > 0 && graph.output().criterion && graph.output().out.clock == 1;
  for (int n = 0; n < graph.nodes && fits; ++n) {
    Node const& node = graph.node[n];
    fits = node.out.timed;
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      fits = fits && graph.node[graph.source[e]].out.clock <= node.out.clock;
    }
  }
  return fits;
}

template <bool Fits>
struct Translates {
  static constexpr bool value = Fits;
  static_assert(Fits,
                "translate(data): the network must be on Inputs<Tokens, Tokens>, its second input "
                "what is written so far, whose rows end in a Vocabulary, all values rows of one of "
                "both; of one input take generate(prompt) or search(prompts)");
};

/// What search() asks of a network: of two inputs that it translates, of one what generate() does.
template <class Net, bool WritesTokens, class Program>
constexpr bool searches() {
  if constexpr (reads_two<Program>()) {
    return Translates<translates(Program::network)>::value || true;  // said there
  } else {
    return Generates<WritesTokens, looks_back_only(Leaves<typename Net::body>{})>::value;
  }
}
template <class Net, bool WritesTokens, class Program>
struct Searches {
  static constexpr bool value = searches<Net, WritesTokens, Program>();
};

/// @throws ContractError  the rows of the network come in chunks of time
TANDEM_ONCE void check_row_by_row(Batching const& batching);

/// @param most  samples of a step
/// @throws ContractError  check_row_by_row() does
TANDEM_ONCE DecodeSizes decode_sizes(ProgramFacts const& facts, int most, Batching const& batching);

/// @p call as a step's batch.
template <class Batch>
Batch step_of(DecodeCall const& call) {
  Batch batch{.x = call.x,
              .size = call.size,
              .time = call.time,
              .lengths = call.lengths,
              .position = call.position,
              .parents = call.parents,
              .scores = call.scores.data(),
              .coverage = call.coverage.empty() ? nullptr : call.coverage.data()};
  if (call.second != nullptr) {
    batch.second = {call.second, 1, nullptr};
  }
  return batch;
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void check_row_by_row(Batching const& batching) {
  expects(
      batching.chunks == 1,
      "generate(prompt), search(task): rows come in Chunks<K> of time, not one by one; load the "
      "weights in a Predictor, or in a Trainer of another strategy");
}

TANDEM_ONCE DecodeSizes decode_sizes(ProgramFacts const& facts, int most,
                                     Batching const& batching) {
  GraphView const graph = facts.tables().network;
  bool const two = facts.tables().reads_two;
  check_row_by_row(batching);
  int attentions = 0;  // nodes that read rows of both inputs
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    attentions += static_cast<int>(
        std::any_of(graph.source + node.first_edge, graph.source + node.first_edge + node.edges,
                    [&](int source) { return graph.node[source].out.clock != node.in.clock; }));
  }
  return {.source = graph.node[0].out[0],
          .target = graph.node[two ? 1 : 0].out[0],
          .vocabulary = graph.node[graph.result].limit,
          .two = two,
          .attentions = attentions,
          .most = most,
          .copies = facts.tables().map.copies,
          .batching = batching};
}

}  // namespace tandem::detail

#endif
