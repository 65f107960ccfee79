// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterLayout: where each parameter stands in the flat arrays of values, gradients and
/// optimizer state, and which runs of it are reduced together.
///
/// Trained parameters come first, in the order in which the backward pass finishes their gradients,
/// so that a bucket is one contiguous run and nothing is copied; behind them those whose gradients
/// are GradientRows, which stand elsewhere. Frozen ones come last and have no gradient. Cost: one
/// walk over the nodes, at compile time.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/numbered.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/runtime_graph.hpp>

namespace tandem {

/// Every parameter starts at a multiple of this many elements; the gaps stay zero.
inline constexpr int parameter_alignment = 16;

template <int Nodes, int Parameters>
struct ParameterLayout {
  std::int64_t offset[static_cast<std::size_t>(Parameters > 0 ? Parameters : 1)] =
      {};                     ///< of a graph's parameter, in elements
  std::int64_t dense = 0;     ///< elements that have a gradient in the flat array, gaps included
  std::int64_t trained = 0;   ///< these and the elements of parameters with GradientRows
  std::int64_t elements = 0;  ///< all of them
  int buckets = 0;
  std::int64_t bucket_begin[static_cast<std::size_t>(Nodes + 1)] =
      {};  ///< bucket b is [bucket_begin[b], bucket_begin[b + 1])
  int bucket_stage[static_cast<std::size_t>(Nodes)] =
      {};  ///< whose parameters the bucket has: of one stage only
  std::int16_t closes[static_cast<std::size_t>(Nodes)] =
      {};                 ///< bucket that is whole after this node's backward, or -1
  int row_gradients = 0;  ///< parameters with GradientRows
  int row_parameter[static_cast<std::size_t>(Parameters > 0 ? Parameters : 1)] =
      {};  ///< of each of these: its index in the graph
  int row_bucket[static_cast<std::size_t>(Parameters > 0 ? Parameters : 1)] =
      {};  ///< with which bucket it is reduced
};

/// A ParameterLayout of a graph whose size is known at run time only.
struct RuntimeLayout {
  detail::Numbered<std::int64_t> offset{};
  std::int64_t dense = 0;
  std::int64_t trained = 0;
  std::int64_t elements = 0;
  int buckets = 0;
  detail::Numbered<std::int64_t> bucket_begin{};
  detail::Numbered<int> bucket_stage{};
  detail::Numbered<std::int16_t> closes{};
  int row_gradients = 0;
  detail::Numbered<int> row_parameter{};
  detail::Numbered<int> row_bucket{};

  /// As lay_out_parameters().
  TANDEM_ONCE RuntimeLayout(GraphView graph, std::int64_t element_bytes, std::int64_t first,
                            std::int64_t rest, int shares = 1, bool in_slots = false);
};

/// Refers to a ParameterLayout of any size, which must outlive it.
struct LayoutView {
  std::int64_t const* offset;
  std::int64_t dense;
  std::int64_t trained;
  std::int64_t elements;
  int buckets;
  std::int64_t const* bucket_begin;
  int const* bucket_stage;
  std::int16_t const* closes;
  int row_gradients;
  int const* row_parameter;
  int const* row_bucket;

  template <int Nodes, int Parameters>
  constexpr LayoutView(ParameterLayout<Nodes, Parameters> const& of)
      : offset{of.offset},
        dense{of.dense},
        trained{of.trained},
        elements{of.elements},
        buckets{of.buckets},
        bucket_begin{of.bucket_begin},
        bucket_stage{of.bucket_stage},
        closes{of.closes},
        row_gradients{of.row_gradients},
        row_parameter{of.row_parameter},
        row_bucket{of.row_bucket} {}
  LayoutView(RuntimeLayout const& of)
      : offset{of.offset.data()},
        dense{of.dense},
        trained{of.trained},
        elements{of.elements},
        buckets{of.buckets},
        bucket_begin{of.bucket_begin.data()},
        bucket_stage{of.bucket_stage.data()},
        closes{of.closes.data()},
        row_gradients{of.row_gradients},
        row_parameter{of.row_parameter.data()},
        row_bucket{of.row_bucket.data()} {}
};

/// Elements [begin, end) of the flat arrays.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] constexpr std::int64_t count() const { return end - begin; }
  [[nodiscard]] constexpr bool has(std::int64_t element) const {
    return begin <= element && element < end;
  }
};

/// Elements whose optimizer states, and perhaps gradients, a rank has, where it has some only.
struct OwnedRange {
  ElementRange range{};
  std::int64_t lag = 0;  ///< how far before them in their arrays these stand

  [[nodiscard]] constexpr std::int64_t state_begin() const { return range.begin - lag; }
};

/// What of @p range is in @p owned; of no elements where nothing is.
constexpr OwnedRange within(OwnedRange const& owned, ElementRange range) {
  std::int64_t const begin = range.begin > owned.range.begin ? range.begin : owned.range.begin;
  std::int64_t const end = range.end < owned.range.end ? range.end : owned.range.end;
  return {{begin, end > begin ? end : begin}, owned.lag};
}

template <class Layout>
constexpr ElementRange bucket_range(Layout const& layout, int bucket) {
  return {layout.bucket_begin[bucket], layout.bucket_begin[bucket + 1]};
}

/// Elements of the largest bucket.
template <class Layout>
constexpr std::int64_t largest_bucket(Layout const& layout) {
  std::int64_t most = 0;
  for (int bucket = 0; bucket < layout.buckets; ++bucket) {
    std::int64_t const count = bucket_range(layout, bucket).count();
    most = count > most ? count : most;
  }
  return most;
}

/// Which bucket has @p element, or -1: it is frozen, or its gradient is of rows.
constexpr int bucket_of(LayoutView const& layout, std::int64_t element) {
  if (element >= layout.dense) {
    return -1;
  }
  int bucket = 0;
  while (layout.bucket_begin[bucket + 1] <= element) {
    ++bucket;
  }
  return bucket;
}

/// Which of a bucket's @p shares equal parts is part @p share: what one of as many ranks updates,
/// where each has the states of its own part alone.
constexpr ElementRange bucket_share(LayoutView const& layout, int bucket, int share, int shares) {
  ElementRange const whole = bucket_range(layout, bucket);
  std::int64_t const count = whole.count() / shares;
  return {whole.begin + share * count, whole.begin + (share + 1) * count};
}

/// Where the trained parameters of a stage are: its buckets are neighbours.
constexpr ElementRange trained_range(LayoutView const& layout, int stage) {
  ElementRange range;
  for (int bucket = layout.buckets - 1; bucket >= 0; --bucket) {
    if (layout.bucket_stage[bucket] == stage) {
      range.end = range.count() == 0 ? layout.bucket_begin[bucket + 1] : range.end;
      range.begin = layout.bucket_begin[bucket];
    }
  }
  return range;
}

/// Of each bucket of a device that has both copies of its parts of the model: the one with the
/// other copy's same parameters.
template <int Nodes>
struct TwinOf {
  int of[static_cast<std::size_t>(Nodes)] = {};
};

/// The copies are cut alike, so they have as many buckets each, in the same order.
/// @param parts  of the model: stage s is of part s % parts
/// @param twin   of each bucket, to be filled
constexpr void find_twins(LayoutView const& layout, int parts, int* twin) {
  for (int bucket = 0; bucket < layout.buckets; ++bucket) {
    int const stage = layout.bucket_stage[bucket];
    int before = 0;  // of its stage
    while (before < bucket && layout.bucket_stage[bucket - before - 1] == stage) {
      ++before;
    }
    for (int other = 0; other + before < layout.buckets; ++other) {
      bool const is_first =
          other == 0 || layout.bucket_stage[other - 1] != layout.bucket_stage[other];
      if (is_first && layout.bucket_stage[other] != stage &&
          layout.bucket_stage[other] % parts == stage % parts) {
        twin[bucket] = other + before;
      }
    }
  }
}
template <int Nodes, int Parameters>
constexpr TwinOf<Nodes> twin_buckets(ParameterLayout<Nodes, Parameters> const& layout, int parts) {
  TwinOf<Nodes> twins;
  find_twins(layout, parts, twins.of);
  return twins;
}

namespace detail {

/// What lay_out_parameters() does, of a graph of any size.
/// @param layout  as a ParameterLayout that is new, with room for the graph
template <class G, class Layout>
constexpr void fill_layout(Layout& layout, G const& graph, std::int64_t element_bytes,
                           std::int64_t first, std::int64_t rest, int shares, bool in_slots) {
  auto const place = [&](int p) {
    layout.offset[p] = layout.elements;
    std::int64_t const elements = graph.parameter[p].parameter.shape.elements();
    layout.elements +=
        (elements + parameter_alignment - 1) / parameter_alignment * parameter_alignment;
  };
  int last_trained = -1;
  bool has_rows = false;  // the bucket that is open
  auto const close = [&](int n) {
    std::int64_t const whole = std::int64_t{parameter_alignment} * shares;
    layout.elements = (layout.elements + whole - 1) / whole * whole;
    layout.closes[n] = static_cast<std::int16_t>(layout.buckets);
    layout.bucket_stage[layout.buckets++] = graph.node[n].stage;
    layout.bucket_begin[layout.buckets] = layout.elements;
    has_rows = false;
  };
  auto const is_open = [&] {
    return has_rows || layout.elements > layout.bucket_begin[layout.buckets];
  };
  int whole = graph.nodes;  // the node from which on the gradients placed so far are all there
  for (int n = graph.nodes - 1; n >= 0; --n) {
    Node const& node = graph.node[n];
    layout.closes[n] = -1;
    if (node.parameters == 0 || node.frozen) {
      continue;
    }
    if (is_open() && graph.node[last_trained].stage != node.stage) {
      close(last_trained);
    }
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      if (graph.parameter[p].parameter.touched.sparse()) {
        layout.row_bucket[layout.row_gradients] = layout.buckets;
        layout.row_parameter[layout.row_gradients++] = p;
        has_rows = true;
      } else {
        place(p);
      }
    }
    last_trained = n;
    whole = node.fusion.merged && node.fusion.home < whole ? node.fusion.home : whole;
    // A norm has the bias of the convolution before it where a backend rewrites the graph so; then
    // slots are as large on all backends.
    if (in_slots && node.layer == LayerKind::batch_norm && node.edges == 1) {
      int const source = graph.source[node.first_edge];
      Node const& before = graph.node[source];
      bool const biased = is_convolution(before.layer) && before.parameters == 2;
      whole = biased && source < whole ? source : whole;
    }
    whole = in_slots && node.fusion.absorbs >= 0 && node.fusion.absorbs < whole
                ? node.fusion.absorbs
                : whole;
    std::int64_t const bytes =
        (layout.elements - layout.bucket_begin[layout.buckets]) * element_bytes;
    bool const is_first =
        layout.buckets == 0 || layout.bucket_stage[layout.buckets - 1] != node.stage;
    if (n <= whole && (has_rows || bytes >= (is_first ? first : rest))) {
      close(n);
    }
  }
  if (is_open()) {  // what is left
    close(last_trained);
  }
  layout.dense = layout.elements;
  for (int r = 0; r < layout.row_gradients; ++r) {
    place(layout.row_parameter[r]);
  }
  layout.trained = layout.elements;
  for (int p = 0; p < graph.parameters; ++p) {
    if (graph.parameter[p].frozen) {
      place(p);
    }
  }
}

}  // namespace detail

/// @param first, rest  a bucket closes when it has at least so many bytes: the first of a stage,
///                     its others; or GradientRows
/// @param shares       each bucket can be dealt in as many equal parts, all of them aligned
/// @param in_slots     there is room for two buckets: what a node reads and writes of another's
///                     parameters is in its own bucket
template <GraphSize Size>
constexpr auto lay_out_parameters(Graph<Size> const& graph, std::int64_t element_bytes,
                                  std::int64_t first, std::int64_t rest, int shares = 1,
                                  bool in_slots = false) {
  ParameterLayout<Size.nodes, Size.parameters> layout;
  detail::fill_layout(layout, graph, element_bytes, first, rest, shares, in_slots);
  return layout;
}

}  // namespace tandem

#if TANDEM_BODIES

#include <algorithm>

namespace tandem {

TANDEM_ONCE RuntimeLayout::RuntimeLayout(GraphView graph, std::int64_t element_bytes,
                                         std::int64_t first, std::int64_t rest, int shares,
                                         bool in_slots) {
  for (detail::Numbered<int>* const list : {&bucket_stage, &row_parameter, &row_bucket}) {
    detail::make_room(*list, std::max(graph.nodes, graph.parameters));
  }
  detail::make_room(offset, graph.parameters);
  detail::make_room(bucket_begin, graph.nodes + 1);
  detail::make_room(closes, graph.nodes);
  detail::fill_layout(*this, graph, element_bytes, first, rest, shares, in_slots);
}

}  // namespace tandem

#endif
