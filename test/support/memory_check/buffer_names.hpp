// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BufferNames: which buffers a device's graph has, one name for all nodes and edges that share one
/// by what they are (views, sums, slices) and not by where a plan has put them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/insertion_sort.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem::test {

/// A buffer of one microbatch: what it is, of which node or edge, and of which reader's gradient.
struct MarkedBuffer {
  enum class Kind : std::uint8_t { value, saved, node_gradient, edge_gradient, outgoing };

  Kind kind = Kind::value;
  int index = 0;
  int reader = 0;
  std::int64_t microbatch = 0;

  friend bool operator==(MarkedBuffer const&, MarkedBuffer const&) = default;
};

/// Addresses [begin, end).
struct Stretch {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] bool meets(Stretch const& other) const {
    return begin < other.end && other.begin < end;
  }
};

/// What a stretch has.
struct Content {
  Stretch where{};
  MarkedBuffer buffer{};
  Action writer{};
};

/// A message that may not have left.
struct MarkedMessage {
  Stretch from{};
  int node = 0;
  MarkedBuffer buffer{};
  Action sender{};
};

/// Cost: a look-up for each read and write; a write moves the stretches behind it.
class MarkedMemory {
 public:
  void write(Stretch where, MarkedBuffer const& buffer, Action writer) {
    auto const first = first_behind(where.begin);
    auto const last = std::partition_point(
        first, contents_.end(), [&](Content const& c) { return c.where.begin < where.end; });
    Content pieces[3];  // what is left before, the new one, what is left behind
    std::ptrdiff_t count = 0;
    if (first != last && first->where.begin < where.begin) {
      pieces[count] = *first;
      pieces[count++].where.end = where.begin;
    }
    pieces[count++] = {where, buffer, writer};
    if (first != last && (last - 1)->where.end > where.end) {
      pieces[count] = *(last - 1);
      pieces[count++].where.begin = where.end;
    }
    std::ptrdiff_t const over = std::min(count, last - first);
    auto const rest = std::copy(pieces, pieces + over, first);
    contents_.insert(contents_.erase(rest, last), pieces + over, pieces + count);  // one of both
  }

  /// Whether all of it has @p buffer; else @p other is what the first byte that has not has, or
  /// null.
  bool has(Stretch where, MarkedBuffer const& buffer, Content const*& other) const {
    other = nullptr;
    auto at = first_behind(where.begin);
    for (std::uintptr_t next = where.begin; next < where.end; next = at++->where.end) {
      if (at == contents_.end() || at->where.begin > next) {
        return false;
      }
      if (at->buffer != buffer) {
        other = &*at;
        return false;
      }
    }
    return true;
  }

  void send(MarkedMessage const& message) { messages_.push_back(message); }

  /// Messages of @p node have left, up to a microbatch's.
  void sent(int node, std::int64_t last_microbatch) {
    std::erase_if(messages_, [&](MarkedMessage const& message) {
      return message.node == node && message.buffer.microbatch <= last_microbatch;
    });
  }

  /// Messages of @p node have left, of chunk @p chunk of each microbatch's @p chunks.
  void left(int node, int chunk, int chunks) {
    std::erase_if(messages_, [&](MarkedMessage const& message) {
      return message.node == node && message.buffer.microbatch % chunks == chunk;
    });
  }

  /// A message that is sent from there, or null.
  [[nodiscard]] MarkedMessage const* leaving(Stretch where) const {
    for (MarkedMessage const& message : messages_) {
      if (message.from.meets(where)) {
        return &message;
      }
    }
    return nullptr;
  }

 private:
  // The first stretch that ends behind an address.
  [[nodiscard]] std::vector<Content>::const_iterator first_behind(std::uintptr_t address) const {
    return std::partition_point(contents_.begin(), contents_.end(), [&](Content const& content) {
      return content.where.end <= address;
    });
  }
  [[nodiscard]] std::vector<Content>::iterator first_behind(std::uintptr_t address) {
    return contents_.begin() + (std::as_const(*this).first_behind(address) - contents_.cbegin());
  }

  std::vector<Content> contents_;  // in ascending order, none of them meeting another
  std::vector<MarkedMessage> messages_;
};

class BufferNames {
 public:
  using Kind = MarkedBuffer::Kind;

  explicit BufferNames(GraphView graph)
      : graph_{graph},
        readers_(at(graph.nodes)),
        reader_of_edge_(at(graph.edges)),
        first_writer_(at(graph.nodes), -1),
        node_gradient_(at(graph.nodes)),
        edge_gradient_(at(graph.edges)) {
    find_readers();
    name_gradients();
  }

  /// The edges that give node @p n a gradient, in the network's order.
  [[nodiscard]] std::vector<int> const& readers(int n) const { return readers_[at(n)]; }

  [[nodiscard]] MarkedBuffer value(int n) const {
    return {.kind = Kind::value, .index = root_of(graph_, n)};
  }
  /// Whether others have written slices of it before node @p n does.
  [[nodiscard]] bool is_continued_by(int n) const {
    int const first = first_writer_[at(root_of(graph_, n))];
    return first >= 0 && first != n;
  }
  [[nodiscard]] static MarkedBuffer saved(int n) { return {.kind = Kind::saved, .index = n}; }
  [[nodiscard]] MarkedBuffer const& node_gradient(int n) const { return node_gradient_[at(n)]; }
  [[nodiscard]] MarkedBuffer const& edge_gradient(int e) const { return edge_gradient_[at(e)]; }
  [[nodiscard]] static MarkedBuffer outgoing(int n, int reader) {
    return {.kind = Kind::outgoing, .index = n, .reader = reader};
  }

  /// Whether its inputs' gradients are its output's.
  [[nodiscard]] static bool passes_on(Node const& node) {
    return node.passes_gradient() || node.view || node.fusion.placed;
  }

  /// Whether it writes the whole gradient of its input, which another node reads as well.
  [[nodiscard]] bool joins(Node const& node) const {
    return node.fusion.sums >= 0 && graph_.node[node.fusion.sums].fusion.joined;
  }

  /// "the value of node 3 (ReLU 0.2), microbatch 1".
  [[nodiscard]] std::string text(MarkedBuffer const& buffer) const {
    static constexpr char const* kinds[] = {"the value of ", "what was saved by ",
                                            "the gradient of ", "the gradient for ",
                                            "the gradient to be sent of "};
    std::string text = kinds[static_cast<int>(buffer.kind)];
    if (buffer.kind == Kind::edge_gradient) {
      text += of_node(graph_.source[buffer.index]) + " from ";
    }
    int const n =
        buffer.kind == Kind::edge_gradient ? reader_of_edge_[at(buffer.index)] : buffer.index;
    return text + of_node(n) + ", microbatch " + std::to_string(buffer.microbatch);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  [[nodiscard]] std::string of_node(int n) const {
    Node const& node = graph_.node[n];
    std::string const path = to_string(node.path);
    return "node " + std::to_string(n) + " (" + std::string{node.name} +
           (path.empty() || node.name.empty() ? "" : " ") + path + ")";
  }

  void find_readers() {
    for (int n = 0; n < graph_.nodes; ++n) {
      Node const& node = graph_.node[n];
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        reader_of_edge_[at(e)] = n;
        if (!node.fusion.merged) {
          readers_[at(graph_.source[e])].push_back(e);
        }
      }
      int& first = first_writer_[at(root_of(graph_, n))];
      first = first < 0 && node.computes() ? n : first;
    }
    for (int n = 0; n < graph_.nodes; ++n) {  // as their gradients are added
      bool const named = graph_.node[n].named;
      insertion_sort(readers_[at(n)], [&](int a, int b) {
        return named ? graph_.edge_origin[a] > graph_.edge_origin[b]
                     : graph_.edge_origin[a] < graph_.edge_origin[b];
      });
    }
  }

  void name_gradients() {
    for (int n = graph_.nodes - 1; n >= 0; --n) {
      Node const& node = graph_.node[n];
      std::vector<int> const& edges = readers_[at(n)];
      node_gradient_[at(n)] = edges.size() == 1
                                  ? edge_gradient_[at(edges.front())]
                                  : MarkedBuffer{.kind = Kind::node_gradient, .index = n};
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        edge_gradient_[at(e)] =
            passes_on(node) ? node_gradient_[at(n)]
            : joins(node)   ? MarkedBuffer{.kind = Kind::node_gradient, .index = node.fusion.sums}
                            : written_gradient(e);
      }
    }
  }
  // Those of merged nodes are slices of one.
  [[nodiscard]] MarkedBuffer written_gradient(int e) const {
    Node const& source = graph_.node[graph_.source[e]];
    int const leader = source.fusion.merged ? source.fusion.home : graph_.source[e];
    return graph_.node[leader].fusion.width > 0
               ? MarkedBuffer{.kind = Kind::node_gradient, .index = leader}
               : MarkedBuffer{.kind = Kind::edge_gradient, .index = e};
  }

  GraphView graph_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> reader_of_edge_;
  std::vector<int> first_writer_;  // of a root
  std::vector<MarkedBuffer> node_gradient_;
  std::vector<MarkedBuffer> edge_gradient_;
};

}  // namespace tandem::test
