// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DeviceMemory: how much memory the tensors of a device take at most, known to the compiler.
///
/// Logical sizes: each value and each gradient in memory of its own, though an engine lets many
/// share. Left out is what only a backend knows: scratch memory, packed weights, batches on their
/// way, and what layers of the user's own save; the start-up plan (MemoryReport) has all of it.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/averaging.hpp>
#include <tandem/strategy/checkpoint_rule.hpp>
#include <tandem/strategy/live_microbatches.hpp>
#include <tandem/strategy/local_stage.hpp>
#include <tandem/strategy/split.hpp>

namespace tandem {

/// Bytes; upper bounds.
struct DeviceMemory {
  std::int64_t parameters = 0;
  std::int64_t versions = 0;   ///< further copies of the trained ones, where gradients are late
  std::int64_t weights = 0;    ///< copies in the type of products, where that is another
  std::int64_t gradients = 0;  ///< 1 + log2(leaves of a copy of the model) buffers
  std::int64_t optimizer_state = 0;
  std::int64_t exchange = 0;              ///< averages of two models on their way
  std::int64_t kept = 0;                  ///< activations of all live microbatches
  std::int64_t recomputed = 0;            ///< of one run of layers: in its first pass, and again
  std::int64_t activation_gradients = 0;  ///< of one backward pass, or of those not yet retired

  [[nodiscard]] constexpr std::int64_t total() const {
    return parameters + versions + weights + gradients + optimizer_state + exchange + kept +
           recomputed + activation_gradients;
  }
};

namespace detail {

/// Sizes of the tensors of a device's graph.
template <GraphSize Size>
struct LogicalSizes {
  Graph<Size> const& graph;
  std::int64_t batch;
  std::int64_t element_bytes;
  int uses[Size.nodes] = {};  // edges that carry a node's output

  constexpr LogicalSizes(Graph<Size> const& g, std::int64_t b, std::int64_t bytes)
      : graph{g}, batch{b}, element_bytes{bytes} {
    for (int e = 0; e < Size.edges; ++e) {
      ++uses[graph.source[e]];
    }
  }

  static constexpr std::int64_t line(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

  [[nodiscard]] constexpr std::int64_t output(int n) const {
    return line(graph.node[n].out.elements() * batch * element_bytes);
  }
  /// Of a node: its output, and what its op saves: the winners of a pool, the statistics of a batch
  /// norm (a few numbers a channel).
  [[nodiscard]] constexpr std::int64_t value(int n) const {
    Node const& node = graph.node[n];
    bool const stored = node.kind == NodeKind::receive || (!node.is_end() && !node.view);
    std::int64_t const winners =
        node.layer == LayerKind::pool ? line(node.out.elements() * batch * 4) : 0;
    std::int64_t const statistics =
        node.layer == LayerKind::batch_norm ? line(64 * (node.in[0] + 2)) : 0;
    return (stored ? output(n) : 0) + winners + statistics;
  }
  /// One from each reader, and their sum; what is sent back has memory of its own.
  [[nodiscard]] constexpr std::int64_t gradient(int n) const {
    Node const& node = graph.node[n];
    if (!node.needs_gradient || node.kind == NodeKind::send) {
      return 0;
    }
    int const most = node.kind == NodeKind::receive ? 2 * uses[n] : uses[n] + 1;
    return output(n) * (uses[n] > 1 ? most : 1);
  }
};

/// Whether a value is kept under a CheckpointRule: it is read beyond its run of nodes.
template <GraphSize Size>
struct KeptNodes {
  bool of[Size.nodes] = {};

  constexpr KeptNodes(Graph<Size> const& graph, int const* segment) {
    for (int n = 0; n < Size.nodes; ++n) {
      bool const received = graph.node[n].kind == NodeKind::receive;
      of[n] = of[n] || segment[n] < 0 || received || n == graph.result;
      for (int e = graph.node[n].first_edge, end = e + graph.node[n].edges; e < end; ++e) {
        int const source = root_of(graph, graph.source[e]);
        bool const leaves = graph.node[n].kind == NodeKind::send;
        of[source] = of[source] || leaves || segment[source] != segment[n];
      }
    }
  }
};

/// Of device @p Device::device.
template <class Device, class Precision>
constexpr DeviceMemory device_memory(int batch, int states) {
  using Whole = typename Device::Program;
  using Master = typename Precision::Master;
  using Scalar = typename Precision::Scalar;
  constexpr auto const& graph = Device::graph;
  constexpr Batching const& batching = Whole::batching;
  constexpr int copies = Whole::map.copies;
  LogicalSizes const sizes{graph, largest_microbatch(batch, batching), sizeof(Scalar)};
  KeptNodes const kept{graph, Device::segments.of};

  int buffers = 1;
  for (int leaves = batching.leaves_of_copy(copies); leaves > 1; leaves /= 2) {
    ++buffers;
  }
  std::int64_t const trained = Device::layout.trained * std::int64_t{sizeof(Master)};
  std::int64_t const others = Device::layout.trained * (Device::places.count() - 1);
  DeviceMemory memory{
      .parameters = Device::layout.elements * std::int64_t{sizeof(Master)},
      .versions = others * std::int64_t{sizeof(Master)},
      .weights = std::is_same_v<Master, Scalar>
                     ? 0
                     : (Device::layout.elements + others) * std::int64_t{sizeof(Scalar)},
      .gradients = trained * buffers,
      .optimizer_state = trained * states};
  if (Whole::averaging.has_buffer()) {
    bool const with_state = Whole::averaging.what == Averaged::weights_and_state;
    memory.exchange = trained * (1 + (with_state ? states : 0));
  }
  int deferred = 1;
  std::int64_t segment = 0;
  for (LocalStage const& stage : Device::stages.stage) {
    int const live = Device::places.rule.on()
                         ? Device::places.live()
                         : live_microbatches(Whole::table, Whole::map, stage.id);
    deferred = std::max(deferred, deferred_microbatches(Whole::table, Whole::map, stage.id));
    for (int n = stage.first; n < stage.last; ++n) {
      bool const begins = n == stage.first || Device::segments.of[n] != Device::segments.of[n - 1];
      segment = begins ? 0 : segment;
      if (kept.of[n]) {
        memory.kept += live * sizes.value(n);
      }
      if (Device::segments.of[n] >= 0) {
        segment += sizes.value(n);
        memory.recomputed = std::max(memory.recomputed, 2 * segment);
      }
      memory.activation_gradients += sizes.gradient(n);
    }
  }
  memory.activation_gradients *= deferred;
  return memory;
}

}  // namespace detail

}  // namespace tandem
