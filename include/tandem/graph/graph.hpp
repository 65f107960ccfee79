// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Graph: a network as a plain constexpr value, nodes in topological order with their edges.
///
/// Everything that decides (cuts, buckets, schedules, memory, costs) reads this value. C arrays,
/// and no strings: constant evaluation of a network of 200 nodes stays far below the compilers'
/// limits.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/graph/neighbourhood.hpp>
#include <tandem/graph/spread/spread.hpp>

namespace tandem {

/// `send` and `receive` stand in the graph of one device, where a tensor leaves for another or
/// comes from there; `copy`, `reduce` and `bias` in that of a rank that has a slice of some layers:
/// where ranks add gradients, what half of a rank's slices reads of that, where ranks add values,
/// and a bias that is added behind such a sum; the others where they exchange rows, as Dealt says
/// of each, and `exchange` where ranks that have tiles of images exchange pixels.
enum class NodeKind : std::uint8_t {
  input,
  layer,
  concat,
  add,
  multiply,
  send,
  receive,
  copy,
  half,
  reduce,
  enter,
  leave,
  deal,
  collect,
  bias,
  exchange
};

/// Where a node stands in the network as the user wrote it: "3", "2.0.1", "4.body.0".
struct Path {
  static constexpr int body = -1;
  static constexpr int shortcut = -2;
  static constexpr int most = 12;
  std::int16_t depth = 0;
  std::int16_t part[most] = {};

  constexpr void push(int index) {
    expects(depth < most, "a network may be nested at most 12 deep");
    part[depth++] = static_cast<std::int16_t>(index);
  }
  constexpr void pop() { --depth; }

  friend constexpr bool operator==(Path const&, Path const&) = default;
};

/// A node's part for rewrites: ops that compute several nodes, and values in one memory.
struct Fusion {
  bool relu = false;      ///< the op also applies the ReLU that follows
  bool gelu = false;      ///< the op also applies the GeluTanh that follows
  bool merged = false;    ///< the op of `home` computes it, together with its own
  bool placed = false;    ///< its inputs are written where it has its output
  bool absorbed = false;  ///< training needs no bias: a batch norm takes it over
  bool joined = false;    ///< of a sum that a norm computes: the norm adds its two gradients, too
  int home = -1;          ///< whose memory the output is a slice of; -1: its own
  int first_channel = 0;  ///< of that slice
  int width = 0;          ///< channels of its own memory, where they are more than out's
  int absorbs = -1;       ///< whose bias a batch norm adds to its running mean
  /// The Linear that has applied an activation whose gradient this node's op computes: that
  /// activation's own, which has nothing else to do, or the next Linear's with its input gradient.
  int activated_by = -1;
  int sums = -1;  ///< of a norm: the sum that it computes first, whose value it reads
  /// The norm that computes this sum, or this dropout of a sum's first summand; forward has nothing
  /// to do then.
  int summed_by = -1;

  friend constexpr bool operator==(Fusion const&, Fusion const&) = default;
};

/// How ranks can share a node, and which part of it one of them has.
struct Sharing {
  Dealt dealt = Dealt::whole;
  int slices = 1;                 ///< in how many it is dealt out
  int slice = 0;                  ///< the first of a rank's slices that it has to do with …
  int span = 1;                   ///< … and how many
  Columns columns{};              ///< of a layer that needs no whole rows
  ColumnParts parts{};            ///< of one that is dealt out: what a whole row of its output is
  Neighbourhood neighbourhood{};  ///< of a layer that needs no whole images
  Extent2d tiles{};               ///< of one that is dealt out in tiles: rows and columns of these
  Halo halo{};                    ///< of an exchange: what its output has around a tile

  friend constexpr bool operator==(Sharing const&, Sharing const&) = default;
};

/// A node's part for sequences: its states from step to step and between chunks of time.
struct SequenceNode {
  CarriedState carried{};       ///< of one sample, from step to step
  CarriedState hands_on{};      ///< of one sample, from chunk to chunk
  std::int64_t hands_back = 0;  ///< of gradients alone, from the last chunk to the first
  int chunks = 1;               ///< of time, of which a pass has one, see in_chunks()
  bool in_chunks = false;       ///< its op has passes over chunks of time, see takes_chunks()

  friend constexpr bool operator==(SequenceNode const&, SequenceNode const&) = default;
};

/// One node: the input, one layer, the join of a Concat (concat), of a Residual (add) or of a
/// Multiply (multiply), or an end of a transfer.
struct Node {
  NodeKind kind = NodeKind::input;
  LayerKind layer = LayerKind::other;
  bool frozen = false;          ///< its parameters are constants
  bool needs_gradient = false;  ///< something at or before it is trained
  bool view = false;            ///< output is the input's memory under another shape
  bool normalizes = false;      ///< uses statistics of the microbatch, so one value is too few
  bool synchronizes = false;    ///< the statistics are those of all replicas' microbatches together
  bool criterion = false;       ///< its rows are losses, made with the targets
  bool named = false;           ///< a Let's: its gradient is added up from the last reader to the
                                ///< first, as it comes back from stage to stage
  Path path{};
  int limit = 0;   ///< of an input of indices, and of a criterion's targets: each is in [0, limit)
  int input = 0;   ///< of an input: which of the network's
  int leaf = -1;   ///< which layer type, in the order of the leaves
  int origin = 0;  ///< index of the node in the network's graph
  int stage = 0;   ///< whose pass it is part of
  int peer = -1;   ///< of a transfer: the stage at its other end
  int top = 0;     ///< index of its top-level part, what Split counts
  int first_edge = 0;  ///< its inputs are edges [first_edge, first_edge + edges)
  int edges = 0;
  int first_parameter = 0;
  int parameters = 0;
  Shape in{};  ///< of the first input
  Shape out{};
  double rate = 0.0;      ///< of a dropout
  std::int64_t macs = 0;  ///< of one sample's forward pass
  Kept kept{};            ///< of one sample's forward pass, for backward
  Fusion fusion{};
  Sharing sharing{};
  SequenceNode sequence{};
  std::string_view name{};
  void const* identity = nullptr;  ///< of a layer type: what Shares<> finds it by

  /// Whether it has an op.
  [[nodiscard]] constexpr bool computes() const {
    return !is_end() && !view && !fusion.merged && !fusion.placed;
  }
  /// Whether the ranks that share layers add or exchange something where it stands.
  [[nodiscard]] constexpr bool is_collective() const {
    return kind == NodeKind::copy || kind == NodeKind::reduce || exchanges_rows();
  }
  /// Whether its value or its input are a rank's rows, and the other is all of them.
  [[nodiscard]] constexpr bool exchanges_rows() const {
    return kind == NodeKind::enter || kind == NodeKind::leave || kind == NodeKind::deal ||
           kind == NodeKind::collect;
  }
  /// Whether a rank has its tile of its output, and so a part of its weights' gradients.
  [[nodiscard]] constexpr bool is_tile() const {
    return sharing.dealt == Dealt::tiled || sharing.dealt == Dealt::windowed;
  }
  /// Whether its statistics are those of all tiles.
  [[nodiscard]] constexpr bool joins_tiles() const {
    return sharing.dealt == Dealt::tiled && normalizes && layer == LayerKind::batch_norm;
  }
  /// Whether its inputs have the gradient of its output, as it is.
  [[nodiscard]] constexpr bool passes_gradient() const {
    return kind == NodeKind::add || kind == NodeKind::bias;
  }
  /// Whether nothing is computed because the tensor comes from elsewhere, or goes there.
  [[nodiscard]] constexpr bool is_end() const {
    return kind == NodeKind::input || kind == NodeKind::send || kind == NodeKind::receive;
  }

  friend constexpr bool operator==(Node const&, Node const&) = default;
};

/// Of a parameter that is dealt out: the axis along which, and its parts in whole.
struct ParameterSlices {
  int count = 1;
  int axis = 0;
  ColumnParts parts{};
  int own = 0;  ///< which of a rank's slices, of several one behind the other

  friend constexpr bool operator==(ParameterSlices const&, ParameterSlices const&) = default;
};

/// A parameter, the node it belongs to, and whether it is trained.
struct GraphParameter {
  Parameter parameter{};
  int node = 0;
  bool frozen = false;
  int origin = 0;   ///< index of the parameter in the network's graph
  int shared = -1;  ///< whose copy it is: that one's index in the network's graph; -1: nobody's
  Path path{};      ///< of the node that it is named after: its own, or its owner's
  char const* own_name = "";  ///< of one that is shared: what its own layer calls it
  ParameterSlices slices{};   ///< `parameter` is one of these
  int whole = 0;              ///< of such a graph: its index in that of the whole layers
  bool partial = false;       ///< its gradient is of a rank's rows: to be added up, once a step

  /// Index in the network's graph of the parameter whose values it has.
  [[nodiscard]] constexpr int owner() const { return shared >= 0 ? shared : origin; }

  friend constexpr bool operator==(GraphParameter const&, GraphParameter const&) = default;
};

/// Sizes of a Graph.
struct GraphSize {
  int nodes = 0;
  int edges = 0;
  int parameters = 0;
};

/// A network's dataflow graph, or that of the part of it that one device has. In a network's, node
/// 0 is the input, node 1 the second one if there are two, and the last node gives the output.
template <GraphSize Size>
struct Graph {
  static constexpr GraphSize size = Size;
  static constexpr int nodes = Size.nodes;
  static constexpr int edges = Size.edges;
  static constexpr int parameters = Size.parameters;

  Node node[static_cast<std::size_t>(Size.nodes)] = {};
  int source[static_cast<std::size_t>(Size.edges > 0 ? Size.edges : 1)] =
      {};  ///< of an edge: the node whose output it carries
  int edge_origin[static_cast<std::size_t>(Size.edges > 0 ? Size.edges : 1)] =
      {};  ///< its index in the network's graph
  GraphParameter parameter[static_cast<std::size_t>(Size.parameters > 0 ? Size.parameters : 1)] =
      {};
  int tops = 0;                 ///< top-level parts
  int result = Size.nodes - 1;  ///< the node that gives the network's output; -1: not here
  Fault fault = Fault::none;
  int fault_node = 0;
  int fault_a = 0;  ///< the numbers at fault, by the kind of fault
  int fault_b = 0;

  [[nodiscard]] constexpr Node const& output() const { return node[result]; }

  /// Elements of all weights (statistics are not counted, shared ones once).
  [[nodiscard]] constexpr std::int64_t parameter_elements() const {
    std::int64_t sum = 0;
    for (int p = 0; p < parameters; ++p) {
      bool const counts = parameter[p].parameter.role == Role::weight && parameter[p].shared < 0;
      sum += counts ? parameter[p].parameter.shape.elements() : 0;
    }
    return sum;
  }

  /// Multiply-accumulates of one sample's forward pass.
  [[nodiscard]] constexpr std::int64_t macs() const {
    std::int64_t sum = 0;
    for (int n = 0; n < nodes; ++n) {
      sum += node[n].macs;
    }
    return sum;
  }

  /// Elements of all the nodes' outputs for one sample; views count once.
  [[nodiscard]] constexpr std::int64_t activation_elements() const {
    std::int64_t sum = 0;
    for (int n = 1; n < nodes; ++n) {
      sum += node[n].view ? 0 : node[n].out.elements();
    }
    return sum;
  }

  [[nodiscard]] constexpr std::int64_t activation_bytes(std::int64_t element_bytes = 4) const {
    return activation_elements() * element_bytes;
  }
};

namespace detail {

/// Writes nodes and edges one behind another into a graph; without one it counts them.
class GraphWriter {
 protected:
  /// @return its index
  template <class G>
  constexpr int add(G* to, Node node, int edges) {
    node.first_edge = size_.edges;
    node.edges = edges;
    if (to != nullptr) {
      to->node[size_.nodes] = node;
    }
    return size_.nodes++;
  }
  template <class G>
  constexpr void add_edge(G* to, int source, int origin) {
    if (to != nullptr) {
      to->source[size_.edges] = source;
      to->edge_origin[size_.edges] = origin;
    }
    ++size_.edges;
  }

  GraphSize size_{};
};

}  // namespace detail

/// Whether backward calls the op of node @p n for the gradient of its inputs. Sums and views pass
/// theirs on in place; below the first trained layer none is wanted.
/// @param graph  a Graph, or a GraphView
template <class AnyGraph>
constexpr bool gives_input_gradient(AnyGraph const& graph, int n) {
  Node const& node = graph.node[n];
  bool wanted = false;
  for (int e = 0; e < node.edges; ++e) {
    wanted = wanted || graph.node[graph.source[node.first_edge + e]].needs_gradient;
  }
  return wanted && !node.passes_gradient() && node.computes();
}

/// A flag for each node of a graph.
template <int Nodes>
struct NodeFlags {
  bool of[static_cast<std::size_t>(Nodes)] = {};
};

/// The same of all nodes.
template <GraphSize Size>
constexpr NodeFlags<Size.nodes> input_gradients(Graph<Size> const& graph) {
  NodeFlags<Size.nodes> flags;
  for (int n = 0; n < Size.nodes; ++n) {
    flags.of[n] = gives_input_gradient(graph, n);
  }
  return flags;
}

/// "2.0.1", "4.body.0"; "" for the input.
TANDEM_ONCE std::string to_string(Path const& path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string to_string(Path const& path) {
  std::string text;
  for (int i = 0; i < path.depth; ++i) {
    text += i > 0 ? "." : "";
    text += path.part[i] == Path::body       ? "body"
            : path.part[i] == Path::shortcut ? "shortcut"
                                             : std::to_string(path.part[i]);
  }
  return text;
}

}  // namespace tandem

#endif
