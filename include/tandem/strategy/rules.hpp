// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rules on what goes together in a program: one list, of which come the compiler's sentences
/// for a strategy that is a type, the errors for one that is chosen at start, and the planner's
/// refusals.

#include <cstdint>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/graph/chunks.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/spread/plan.hpp>
#include <tandem/graph/spread/row_finder.hpp>
#include <tandem/graph/spread/tile_plan.hpp>
#include <tandem/graph/spread/wishes.hpp>

namespace tandem {

namespace detail {

/// What the rules ask of a network and a strategy.
struct RuleFacts {
  int slices = 1;        ///< ranks that share each layer
  int layer_slices = 1;  ///< in how many a layer is computed
  Extent2d tiles{};
  int copies = 1;  ///< of the model in a replica
  int microbatches = 1;
  int chunks = 1;
  bool asynchronous = false;
  bool post_validated = false;
  bool keeps_two = false;  ///< models, each with updates of its own
  bool reproducible = false;
  bool rounds = false;  ///< gradients on their way
  bool any_replicas = false;
  bool several_replicas = false;
  bool asks_sharded_state = false;  ///< even of one replica
  bool sharded_state = false;
  bool sharded_gradients = false;
  bool sequence_rows = false;
  bool ties_cross = false;  ///< devices share a parameter
  int widest_tie = 1;       ///< how many

  // What add_network() says of the network.
  bool row_gradients = false;
  bool shared_row_gradients = false;
  bool stateful = false;
  bool synchronizes = false;
  WishFault wish = WishFault::none;
  int wish_index = 0;     ///< at fault
  int shared_layers = 1;  ///< pairs, and tables of words
  bool keeps_pairs = true;
  int windows = 1;  ///< layers in tiles
  ChunkVerdict chunk{};
  int time = 0;        ///< rows of the input
  int dealt_time = 1;  ///< rows that ranks share; 0: there are no sequences

  [[nodiscard]] constexpr bool has_tiles() const { return tiles != Extent2d{}; }
  [[nodiscard]] constexpr bool sliced() const { return layer_slices > 1 || has_tiles(); }
  /// Whether a rank has several slices of a layer.
  [[nodiscard]] constexpr bool has_own_slices() const { return layer_slices > slices; }
};

constexpr bool synchronizes_statistics(GraphView graph) {
  bool any = false;
  for (int n = 0; n < graph.nodes; ++n) {
    any = any || graph.node[n].synchronizes;
  }
  return any;
}

/// Whether a layer of @p graph is Stateful.
constexpr bool carries_states(GraphView graph) {
  bool any = false;
  for (int n = 0; n < graph.nodes; ++n) {
    any = any || graph.node[n].sequence.carried.any();
  }
  return any;
}

/// Trained parameters whose gradients are GradientRows.
constexpr bool has_row_gradients(GraphView graph) {
  bool any = false;
  for (int p = 0; p < graph.parameters; ++p) {
    any = any || (graph.parameter[p].parameter.touched.sparse() && !graph.parameter[p].frozen);
  }
  return any;
}

/// Whether some layer shares one of these.
constexpr bool shares_row_gradients(GraphView graph) {
  bool any = false;
  for (int p = 0; p < graph.parameters; ++p) {
    int const owner = graph.parameter[p].shared;
    any = any || (owner >= 0 && !graph.parameter[p].frozen &&
                  (graph.parameter[p].parameter.touched.sparse() ||
                   graph.parameter[owner].parameter.touched.sparse()));
  }
  return any;
}

/// Whether so many devices may have @p count slices together: each has a branch of their tree.
constexpr bool slices_fit(int count, int devices) {
  int const own = count / devices;
  return count % devices == 0 && (devices == 1 || (own & (own - 1)) == 0);
}

/// The facts with those of a network.
/// @param network  a Graph or a RuntimeGraph
/// @param wishes   of its layers
/// @param part     of each node
template <class G>
constexpr RuleFacts add_network(RuleFacts facts, G const& network, GraphView view,
                                SpreadWishes const& wishes, std::int16_t const* part, int stages) {
  facts.row_gradients = has_row_gradients(view);
  facts.shared_row_gradients = shares_row_gradients(view);
  facts.stateful = carries_states(view);
  facts.synchronizes = synchronizes_statistics(view);
  facts.time = network.node[0].out[0];
  if (network.fault != Fault::none) {
    return facts;
  }
  if (facts.layer_slices > 1 && slices_fit(facts.layer_slices, facts.slices)) {
    int const misplaced = misplaced_wish(view, wishes);
    auto const plan = plan_spread(network, facts.layer_slices, wishes);
    facts.wish = misplaced >= 0 ? WishFault::place : plan.fault;
    facts.wish_index = misplaced >= 0 ? misplaced : plan.wish;
    facts.shared_layers = plan.pairs + plan.tables;
    if (stages > 1 && facts.wish == WishFault::none) {
      SpreadWishes const decided = decide_tables(network, facts.layer_slices, wishes);
      facts.keeps_pairs = keeps_pairs(network, facts.layer_slices, decided, part);
    }
  }
  if (facts.has_tiles()) {
    facts.windows = plan_tiles(network, facts.tiles).windows;
  }
  facts.chunk = check_chunks(network, facts.chunks);
  if (facts.sequence_rows) {
    facts.dealt_time = time_to_deal(network, facts.slices);
  }
  return facts;
}

// Each rule: its name, when it is broken, two numbers to be told (the compiler prints them as
// arguments of RuleHolds), and the sentence. The first one that is broken is said.
#define TANDEM_STRATEGY_RULES(RULE)                                                               \
  RULE(slices_divide, !f.has_tiles() && f.layer_slices % f.slices != 0, f.layer_slices, f.slices, \
       "Slices<L> with TensorParallel<N>: each device has as many slices, so L must be a "        \
       "multiple of N (RuleHolds names both)")                                                    \
  RULE(slices_power, !f.has_tiles() && !slices_fit(f.layer_slices, f.slices), f.layer_slices,     \
       f.slices,                                                                                  \
       "Slices<L> with TensorParallel<N>: L / N must be a power of two, so that slices are "      \
       "added in one order on any number of devices (RuleHolds names both)")                      \
  RULE(ties_asynchronous, f.ties_cross&& f.asynchronous, 0, 0,                                    \
       "Shares<W> between stages of an asynchronous pipeline: its stages update at different "    \
       "times, so that a shared weight would be another in each; give the layer a weight of "     \
       "its own, or take a synchronous schedule")                                                 \
  RULE(ties_order, f.ties_cross&& f.reproducible&& f.widest_tie > 2, 0, 0,                        \
       "Shares<W> with Reproducible<>: more than two devices hold this weight, whose gradients "  \
       "would be added in an order that their number changes; cut the network so that at most "   \
       "two do")                                                                                  \
  RULE(rows_shared, f.row_gradients&& f.shared_row_gradients, 0, 0,                               \
       "Shares<W> with RowGradient: the weight that both layers share has one gradient, and "     \
       "the other layer's is dense; leave RowGradient out")                                       \
  RULE(rows_asynchronous, f.row_gradients&& f.asynchronous, 0, 0,                                 \
       "RowGradient in an asynchronous pipeline: its stages keep several versions of all "        \
       "weights; leave RowGradient out, or take a synchronous schedule")                          \
  RULE(rows_two_copies, f.row_gradients&& f.copies > 1, 0, 0,                                     \
       "RowGradient where each device has parts of two copies of the model (Chimera, DualPipe, "  \
       "CrossModelParallel): whole arrays of gradients or weights are added there; leave "        \
       "RowGradient out, or take another schedule")                                               \
  RULE(state_any_replicas, f.asks_sharded_state&& f.any_replicas, 0, 0,                           \
       "DataParallel<by_world, ShardedState>: the compiler deals the optimizer's states, so "     \
       "write how many replicas there are, DataParallel<N, ShardedState>")                        \
  RULE(state_rows, f.sharded_state&& f.row_gradients, 0, 0,                                       \
       "ShardedState with RowGradient: a step changes the states of some rows only, wherever "    \
       "they are; leave RowGradient or ShardedState out")                                         \
  RULE(state_two_copies, f.sharded_state&& f.copies > 1, 0, 0,                                    \
       "ShardedState where a replica has two copies of the model (Chimera, DualPipe, "            \
       "CrossModelParallel): a device may have both of a part; leave ShardedState out, or take "  \
       "another schedule")                                                                        \
  RULE(gradients_rounded, f.sharded_gradients&& f.rounds, 0, 0,                                   \
       "ShardedGradients with Wire<E>: rounded gradients would take the memory that it spares; "  \
       "leave Wire out, or take ShardedState")                                                    \
  RULE(gradients_reordered, f.sharded_gradients&& f.reproducible&& f.microbatches > 1, 0, 0,      \
       "ShardedGradients with Reproducible<> and several microbatches a replica: each is added "  \
       "up over the replicas before the next, where Reproducible<> adds those of a replica "      \
       "first; take one microbatch a replica, or ShardedState")                                   \
  RULE(states_asynchronous, f.stateful&& f.asynchronous, 0, 0,                                    \
       "Stateful in an asynchronous pipeline: its stages are at different steps, so that there "  \
       "is no moment between two of them at which a state could be kept or begin anew; take a "   \
       "synchronous schedule, such as OneFOneB")                                                  \
  RULE(wish_place, f.wish == WishFault::place, f.wish_index, f.layer_slices,                      \
       "TensorParallel<N, SplitOutputs<...>, SplitInputs<...>, KeepWhole<...>>: no layer "        \
       "stands where one of these says; write its path as describe prints it, \"4.body.0\" or "   \
       "4 (RuleHolds names which of the layers, from 0)")                                         \
  RULE(wish_outputs, f.wish == WishFault::outputs, f.wish_index, f.layer_slices,                  \
       "TensorParallel<N, SplitOutputs<...>>: the outputs of this layer cannot be dealt out: "    \
       "they can of a Vocabulary over all words, and of a Linear of which another one on the "    \
       "same device reads, through layers that need no whole rows, as many columns, or heads, "   \
       "as N divides (RuleHolds names which of the layers)")                                      \
  RULE(wish_inputs, f.wish == WishFault::inputs, f.wish_index, f.layer_slices,                    \
       "TensorParallel<N, SplitInputs<...>>: the inputs of this layer cannot be dealt out: "      \
       "they can of an Embedding, and of a Linear that reads, on the same device and through "    \
       "layers that need no whole rows, what another one gives, as many columns, or heads, as "   \
       "N divides (RuleHolds names which of the layers)")                                         \
  RULE(wish_tied, f.wish == WishFault::tied, f.wish_index, f.layer_slices,                        \
       "TensorParallel<N, KeepWhole<...>>: layers that share a table of words have it whole or "  \
       "have slices of it together; name all of them, or one (RuleHolds names which of the "      \
       "layers)")                                                                                 \
  RULE(no_pairs, f.layer_slices > 1 && f.shared_layers == 0, f.layer_slices, f.slices,            \
       "TensorParallel<N>: this network has nothing that N devices could share: no Linear or "    \
       "Conv2d whose output goes to another one through layers alone that need no whole rows "    \
       "(Attention, activations, Dropout, BatchNorm2d, pools), with a number of columns, "        \
       "channels or heads that N (or L of Slices<L>) divides, and no large table of words; "      \
       "take DataParallel, another N or L, or SplitInputs or SplitOutputs for a smaller table "   \
       "(RuleHolds names the network and it)")                                                    \
  RULE(no_tiles, f.has_tiles() && f.windows == 0, f.tiles.height, f.tiles.width,                  \
       "SpatialParallel<H, W>: this network has nothing that could be computed tile by tile: "    \
       "no Conv2d or pool of images whose rows H divides and whose columns W does, before and "   \
       "behind it, with as many of both as its stride makes of them; take another H and W, or "   \
       "DataParallel (RuleHolds names the network, H and W)")                                     \
  RULE(tiles_reproducible, f.has_tiles() && f.reproducible, 0, 0,                                 \
       "Hybrid<..., SpatialParallel<H, W>> with Reproducible<>: sums over an image's pixels "     \
       "are cut in H W, so that the bits depend on these; leave Reproducible out")                \
  RULE(tiles_state, f.has_tiles() && f.asks_sharded_state, 0, 0,                                  \
       "Hybrid<DataParallel<D, ShardedState>, SpatialParallel<H, W>>: a device sums the "         \
       "gradients of all parameters over the tiles before they are shared; leave "                \
       "ShardedState out")                                                                        \
  RULE(pairs_cut, f.reproducible && !f.keeps_pairs, 0, 0,                                         \
       "Reproducible with Slices<L> or TensorParallel<N>: a part of the model ends between two "  \
       "Linears that are dealt out together where it is whole, so that the bits would depend "    \
       "on the cut; cut in front of the first of them, or behind the second")                     \
  RULE(sliced_rows, f.sliced() && f.row_gradients, 0, 0,                                          \
       "RowGradient with TensorParallel, or Slices: each device would gather the rows of all; "   \
       "leave RowGradient out")                                                                   \
  RULE(sliced_states, f.sliced() && f.stateful, 0, 0,                                             \
       "Stateful with TensorParallel, or Slices: the devices that share a layer would each "      \
       "keep the states of all samples; leave Stateful out, or take DataParallel")                \
  RULE(slices_asynchronous, f.has_own_slices() && f.asynchronous, 0, 0,                           \
       "Slices<L> in an asynchronous pipeline: its bits are its own anyway; leave Slices out")    \
  RULE(slices_two_models, f.has_own_slices() && f.keeps_two, 0, 0,                                \
       "Slices<L> with an averaging rule that keeps two models: leave Slices out, or average "    \
       "gradients")                                                                               \
  RULE(chunks_reproducible, f.chunks > 1 && f.reproducible, 0, 0,                                 \
       "Chunks<K> with Reproducible<>: gradients are added chunk by chunk, so that their bits "   \
       "depend on K; leave one of both out")                                                      \
  RULE(chunks_slices, f.chunks > 1 && f.has_own_slices(), 0, 0,                                   \
       "Chunks<K> with Slices<L>: gradients are added chunk by chunk, so that their bits "        \
       "depend on K; leave one of both out")                                                      \
  RULE(chunks_rows, f.chunks > 1 && f.sequence_rows, 0, 0,                                        \
       "Chunks<K> with SequenceRows: both deal out the rows of time; leave one of both out")      \
  RULE(chunks_gradients, f.chunks > 1 && f.sharded_gradients, 0, 0,                               \
       "Chunks<K> with ShardedGradients or ShardedParameters: a replica has room for the "        \
       "gradients of two buckets, but those of all are added up chunk by chunk; take "            \
       "ShardedState")                                                                            \
  RULE(chunks_no_sequence, f.chunk.fault == ChunkFault::no_sequence, 0, 0,                        \
       "Chunks<K>: this network's input is no sequence, which could come in chunks of time; "     \
       "leave Chunks out")                                                                        \
  RULE(chunks_two_inputs, f.chunk.fault == ChunkFault::two_inputs, 0, 0,                          \
       "Chunks<K>: a network on Inputs<A, B> has two times; leave Chunks out")                    \
  RULE(chunks_layer, f.chunk.fault == ChunkFault::layer, f.chunk.node, f.chunks,                  \
       "Chunks<K>: a layer of this network looks at rows that come later, or at all of them, "    \
       "or has no passes in chunks of time: these are those of rows alone, Embedding, "           \
       "Positions, RotaryPositions, Linear, LayerNorm, activations, Dropout and Vocabulary, an "  \
       "Attention that is Causal, and Lstm and Gru but Bidirectional; leave Chunks out "          \
       "(RuleHolds names the layer's index among the network's nodes)")                           \
  RULE(chunks_criterion, f.chunk.fault == ChunkFault::criterion, 0, 0,                            \
       "Chunks<K>: the loss must be a sum over rows, so the network's last layer must be a "      \
       "Vocabulary")                                                                              \
  RULE(chunks_divide, f.chunk.fault == ChunkFault::rows, f.time, f.chunks,                        \
       "Chunks<K>: K must divide the network's rows, the T of its Tokens<T, V> (RuleHolds "       \
       "names both)")                                                                             \
  RULE(sequence_rows_sharded, f.sequence_rows&& f.sharded_gradients, 0, 0,                        \
       "SequenceRows with ShardedGradients or ShardedParameters: gradients of a device's rows "   \
       "are added up whole, where a replica has a part of each bucket alone; take "               \
       "ShardedState, or leave SequenceRows out")                                                 \
  RULE(sequence_rows_none, f.sequence_rows&& f.dealt_time == 0, 0, 0,                             \
       "SequenceRows: this network has no sequences, whose rows of time could be dealt out; "     \
       "leave it out")                                                                            \
  RULE(sequence_rows_divide, f.sequence_rows&& f.dealt_time % f.slices != 0, f.dealt_time,        \
       f.slices,                                                                                  \
       "SequenceRows: the rows of this network's sequences are no multiple of TensorParallel's "  \
       "N; take an N that divides them, or leave SequenceRows out (RuleHolds names the "          \
       "network, the rows and N)")                                                                \
  RULE(sequence_rows_order, f.sequence_rows && (f.reproducible || f.has_own_slices()), 0, 0,      \
       "SequenceRows with Reproducible<>, or with several slices a device: gradients of what "    \
       "stands between are sums of each device's rows, whose bits depend on how many there "      \
       "are; leave one of both out")                                                              \
  RULE(ahead_state, f.post_validated&& f.sharded_state, 0, 0,                                     \
       "PostValidated<Schedule> with ShardedState: parameters are gathered from all replicas "    \
       "behind an update, which may have to be taken back; leave one of both out")                \
  RULE(ahead_sliced, f.post_validated&& f.sliced(), 0, 0,                                         \
       "PostValidated<Schedule> with TensorParallel, SpatialParallel or Slices: leave one of "    \
       "both out")                                                                                \
  RULE(ahead_states, f.post_validated&& f.stateful, 0, 0,                                         \
       "PostValidated<Schedule> with Stateful layers: their states would have to be taken back "  \
       "with an update; leave one of both out")                                                   \
  RULE(ahead_rows, f.post_validated&& f.row_gradients, 0, 0,                                      \
       "PostValidated<Schedule> with RowGradient: an update that is taken back would need the "   \
       "rows again, which the next step has overwritten; leave one of both out")                  \
  RULE(ahead_chunks, f.post_validated&& f.chunks > 1, 0, 0,                                       \
       "Pipeline<PostValidated<Schedule>, Count, Chunks<K>, ...>: leave one of both out")         \
  RULE(ahead_any_replicas, f.post_validated&& f.any_replicas, 0, 0,                               \
       "PostValidated<Schedule> in DataParallel<>: it runs in one process, whose replicas are "   \
       "known; name their number, DataParallel<N>")                                               \
  RULE(replicas_asynchronous, f.asynchronous&& f.several_replicas, 0, 0,                          \
       "Hybrid<DataParallel<N>, Pipeline<asynchronous schedule, ...>>: replicas would wait for "  \
       "each other at every update; take a synchronous schedule inside, or the asynchronous "     \
       "pipeline alone")                                                                          \
  RULE(statistics_reproducible, f.synchronizes&& f.reproducible, 0, 0,                            \
       "SyncBatchNorm2d with Reproducible<>: its statistics are sums over the replicas, whose "   \
       "bits depend on how many there are; use BatchNorm2d, or leave out Reproducible<>")         \
  RULE(statistics_copies, f.synchronizes&& f.several_replicas&& f.copies > 1, 0, 0,               \
       "SyncBatchNorm2d with Chimera: replicas of a stage run different microbatches at a "       \
       "time, so that they never meet; use another schedule, or BatchNorm2d")

enum class Rule {
#define TANDEM_RULE(name, broken, first, second, sentence) name,
  TANDEM_STRATEGY_RULES(TANDEM_RULE)
#undef TANDEM_RULE
      none
};

struct BrokenRule {
  Rule rule = Rule::none;
  int first = 0;
  int second = 0;
};

/// The first rule that is broken.
constexpr BrokenRule broken_rule(RuleFacts const& f) {
#define TANDEM_RULE(name, broken, first, second, sentence) \
  if (broken) {                                            \
    return {Rule::name, first, second};                    \
  }
  TANDEM_STRATEGY_RULES(TANDEM_RULE)
#undef TANDEM_RULE
  return {};
}

/// @param rule  not `none`
constexpr char const* sentence_of(Rule rule) {
  constexpr char const* sentences[] = {
#define TANDEM_RULE(name, broken, first, second, sentence) sentence,
      TANDEM_STRATEGY_RULES(TANDEM_RULE)
#undef TANDEM_RULE
  };
  return sentences[static_cast<int>(rule)];
}

/// What is said at run time: the sentence, and the numbers that it speaks of.
TANDEM_ONCE std::string sentence_of(BrokenRule const& broken);

/// The sentence of a rule that is broken where the strategy is a type.
template <Rule Broken, class Net, int First, int Second>
struct RuleHolds {
  static constexpr bool value = true;
#define TANDEM_RULE(name, broken, first, second, sentence) \
  static constexpr bool name = Broken != Rule::name;       \
  static_assert(name, sentence);
  TANDEM_STRATEGY_RULES(TANDEM_RULE)
#undef TANDEM_RULE
};

#undef TANDEM_STRATEGY_RULES

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string sentence_of(BrokenRule const& broken) {
  std::string text = sentence_of(broken.rule);
  if (std::size_t const at = text.rfind(" (RuleHolds"); at != std::string::npos) {
    text.resize(at);
    text += " (" + std::to_string(broken.first) + ", " + std::to_string(broken.second) + ")";
  }
  return text;
}

}  // namespace tandem::detail

#endif
