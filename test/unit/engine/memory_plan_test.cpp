// SPDX-License-Identifier: Apache-2.0
// The memory plan, by playing a step on it: every write marks its bytes, every read must find the
// marks of what it wants, so buffers whose lives meet cannot overlap.

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include <tandem/tandem.hpp>

#include <tiny_network.hpp>

namespace tandem {
namespace {

constexpr std::int64_t line = 64;  // what buffers are aligned to

/// A region of memory; each line of it remembers who wrote it last.
class Region {
 public:
  explicit Region(std::int64_t bytes) : mark_(static_cast<std::size_t>(bytes / line), -1) {}

  void write(std::int64_t offset, std::int64_t bytes, int mark) {
    for_lines(offset, bytes, [&](int& m) { m = mark; });
  }
  void read(std::int64_t offset, std::int64_t bytes, int mark) {
    for_lines(offset, bytes, [&](int& m) { ok = ok && m == mark; });
  }
  bool ok = true;

 private:
  template <class F>
  void for_lines(std::int64_t offset, std::int64_t bytes, F const& f) {
    std::int64_t const end = (offset + bytes + line - 1) / line;
    ok = ok && offset >= 0 && offset % line == 0 && end <= std::ssize(mark_);
    for (std::int64_t i = offset / line; ok && i < end; ++i) {
      f(mark_[static_cast<std::size_t>(i)]);
    }
  }
  std::vector<int> mark_;
};

/// Marks: a node's value n, what it saved n + N, its gradient n + 2 N, an edge's gradient e + 3 N.
template <GraphSize Size>
class Player {
 public:
  Player(Graph<Size> const& graph, std::vector<OpNeeds> const& needs, int batch)
      : graph_{graph},
        needs_{needs},
        batch_{batch},
        plan_{MemoryPlanner{graph, needs, batch, 4}.plan()},
        kept_{plan_.kept_bytes},
        transient_{plan_.transient_bytes} {}

  [[nodiscard]] bool plays() {
    for (int n = 1; n < Size.nodes; ++n) {
      forward(n);
    }
    value(Size.nodes - 1, &Region::read);
    transient_.write(plan_.loss_gradient, bytes(Size.nodes - 1), gradient_mark(Size.nodes - 1));
    for (int n = Size.nodes - 1; n > 0; --n) {
      if (graph_.node[n].needs_gradient) {
        backward(n);
      }
    }
    return kept_.ok && transient_.ok;
  }

  [[nodiscard]] MemoryPlan const& plan() const { return plan_; }

 private:
  using Access = void (Region::*)(std::int64_t, std::int64_t, int);
  [[nodiscard]] static auto at(int i) { return static_cast<std::size_t>(i); }
  // Of the whole memory that node n's output is a slice of.
  [[nodiscard]] std::int64_t bytes(int n) const {
    Node const& root = graph_.node[root_of(graph_, n)];
    int const wider = root.width > 0 ? root.width : root.out[0];
    return root.out.elements() / root.out[0] * wider * batch_ * 4;
  }
  [[nodiscard]] std::int64_t slice(int n) const { return first_channel_of(graph_, n) * 4; }
  [[nodiscard]] static bool passes(Node const& node) {
    return node.kind == NodeKind::add || node.view || node.placed;
  }

  void value(int n, Access access) {
    int const root = plan_.root[at(n)];
    if (root != 0) {  // the input is the caller's memory
      ((plan_.kept[at(root)] ? kept_ : transient_).*access)(plan_.value[at(root)], bytes(n), root);
    }
  }
  void gradient(std::int64_t offset, int n, int mark, Access access) {
    (transient_.*access)(offset - slice(n), bytes(n), mark);
  }
  void saved(int n, Access access) {
    if (needs_[at(n)].saved_bytes > 0) {
      (kept_.*access)(plan_.saved[at(n)], needs_[at(n)].saved_bytes, n + Size.nodes);
    }
  }
  void inputs(int n) {
    for (int e = graph_.node[n].first_edge, end = e + graph_.node[n].edges; e < end; ++e) {
      value(graph_.source[e], &Region::read);
    }
  }

  void forward(int n) {
    if (!graph_.node[n].computes()) {
      return;
    }
    inputs(n);
    value(n, &Region::write);
    saved(n, &Region::write);
    if (!needs_[at(n)].in_place) {
      inputs(n);  // y overlaps no x
    }
  }

  // A gradient has one mark, however many names: a sum's inputs have its own gradient.
  [[nodiscard]] int edge_mark(int edge) const {
    int n = 0;
    while (edge < graph_.node[n].first_edge ||
           edge >= graph_.node[n].first_edge + graph_.node[n].edges) {
      ++n;
    }
    if (passes(graph_.node[n])) {
      return gradient_mark(n);
    }
    Node const& source = graph_.node[graph_.source[edge]];
    int const leader = source.merged ? source.home : graph_.source[edge];
    return graph_.node[leader].width > 0 ? leader + 2 * Size.nodes : edge + 3 * Size.nodes;
  }
  [[nodiscard]] std::vector<int> users(int n) const {
    std::vector<int> list;
    for (int m = 1; m < Size.nodes; ++m) {
      Node const& node = graph_.node[m];
      for (int e = node.first_edge; e < node.first_edge + node.edges && !node.merged; ++e) {
        if (graph_.source[e] == n) {
          list.push_back(e);
        }
      }
    }
    return list;
  }
  [[nodiscard]] int gradient_mark(int n) const {
    std::vector<int> const list = users(n);
    return list.size() == 1 ? edge_mark(list.front()) : n + 2 * Size.nodes;
  }

  void backward(int n) {
    Node const& node = graph_.node[n];
    OpNeeds const& need = needs_[at(n)];
    std::vector<int> const list = users(n);
    for (int const e : list) {
      gradient(plan_.edge_gradient[at(e)], n, edge_mark(e), &Region::read);
    }
    if (list.size() > 1) {
      gradient(plan_.node_gradient[at(n)], n, gradient_mark(n), &Region::write);
    }
    auto const read = [&] {
      gradient(plan_.node_gradient[at(n)], n, gradient_mark(n), &Region::read);
      if (need.input) {
        inputs(n);
      }
      if (need.output) {
        value(n, &Region::read);
      }
      saved(n, &Region::read);
    };
    read();
    for (int e = node.first_edge; e < node.first_edge + node.edges && !node.merged; ++e) {
      int const source = graph_.source[e];
      bool const wanted = graph_.node[source].needs_gradient;
      transient_.ok = transient_.ok && (plan_.edge_gradient[at(e)] >= 0) == wanted;
      if (wanted && !passes(node)) {
        gradient(plan_.edge_gradient[at(e)], source, edge_mark(e), &Region::write);
      }
    }
    if (!need.in_place) {
      read();  // the weight gradient comes after the input gradient
    }
  }

  Graph<Size> const& graph_;
  std::vector<OpNeeds> const& needs_;
  std::int64_t batch_;
  MemoryPlan plan_;
  Region kept_;
  Region transient_;
};

using Random = std::mt19937;
int draw(Random& random, int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

template <GraphSize Size>
std::vector<OpNeeds> random_needs(Graph<Size> const& graph, Random& random) {
  std::vector<OpNeeds> needs(Size.nodes);
  for (int n = 1; n < Size.nodes; ++n) {
    Node const& node = graph.node[n];
    if (node.kind == NodeKind::layer && node.computes()) {
      Node const& source = graph.node[graph.source[node.first_edge]];
      bool const whole = node.home < 0 && node.width == 0 && source.home < 0 && source.width == 0;
      bool const in_place = whole && node.out == source.out && draw(random, 2) == 0;
      needs[static_cast<std::size_t>(n)] = {
          .input = !in_place && draw(random, 3) == 0,
          .output = draw(random, 3) == 0,
          .in_place = in_place,
          .saved_bytes = draw(random, 3) == 0 ? 1 + draw(random, 300) : 0};
    }
    needs[static_cast<std::size_t>(n)].in_place |= node.kind == NodeKind::add;
  }
  return needs;
}

/// Layers, views, concatenations and sums of earlier nodes, every one but the last used. Two edges
/// more than nodes are the joins'.
template <GraphSize Size>
bool random_graph(Graph<Size>& graph, Random& random) {
  graph = Graph<Size>{};
  graph.node[0].out = vector_shape(1 + draw(random, 40));
  std::vector<bool> used(Size.nodes);
  int edge = 0;
  int joins = Size.edges - (Size.nodes - 1);
  for (int n = 1; n < Size.nodes; ++n) {
    Node& node = graph.node[n];
    bool const join = draw(random, Size.nodes - n) < joins;
    joins -= join ? 1 : 0;
    node.first_edge = edge;
    node.edges = join ? 2 : 1;
    for (int i = 0; i < node.edges; ++i) {
      int source = draw(random, n);
      for (int tries = 0; tries < 8 && used[static_cast<std::size_t>(source)]; ++tries) {
        source = draw(random, n);
      }
      used[static_cast<std::size_t>(source)] = true;
      graph.source[edge++] = source;
      node.needs_gradient = node.needs_gradient || graph.node[source].needs_gradient;
    }
    Shape const a = graph.node[graph.source[node.first_edge]].out;
    Shape const b = graph.node[graph.source[edge - 1]].out;
    if (join) {
      node.kind = a == b ? NodeKind::add : NodeKind::concat;
      node.out = a == b ? a : vector_shape(a[0] + b[0]);
    } else {
      node.kind = NodeKind::layer;
      node.view = draw(random, 5) == 0;
      node.out = node.view || draw(random, 2) == 0 ? a : vector_shape(1 + draw(random, 40));
      node.needs_gradient = node.needs_gradient || (!node.view && draw(random, 3) == 0);
    }
  }
  for (int n = 0; n + 1 < Size.nodes; ++n) {
    if (!used[static_cast<std::size_t>(n)]) {
      return false;
    }
  }
  return joins == 0 && graph.node[Size.nodes - 1].needs_gradient;
}

TEST_CASE("random graphs: buffers whose lives meet do not overlap") {
  Random random{1};
  Graph<GraphSize{12, 15, 0}> graph;
  int played = 0;
  int shared = 0;
  int in_place = 0;
  while (played < 3000) {
    if (!random_graph(graph, random)) {
      continue;
    }
    ++played;
    std::vector<OpNeeds> const needs = random_needs(graph, random);
    Player player{graph, needs, 1 + draw(random, 3)};
    REQUIRE(player.plays());
    std::int64_t all = 0;
    for (int n = 1; n < graph.nodes; ++n) {
      all += graph.node[n].out.elements();
    }
    for (int n = 1; n < graph.nodes; ++n) {
      in_place += player.plan().root[static_cast<std::size_t>(n)] != root_of(graph, n) ? 1 : 0;
    }
    shared += player.plan().transient_bytes < 4 * all ? 1 : 0;
  }
  CHECK(shared > played / 2);    // memory is shared at all
  CHECK(in_place > played / 2);  // as it is by elementwise nodes
}

TEST_CASE("GoogLeNet and ResNet-20: buffers whose lives meet do not overlap") {
  Random random{2};
  auto const& googlenet = graph<models::GoogLeNet<10>>;
  auto const& resnet = graph<models::ResNet20<10>>;
  for (int i = 0; i < 10; ++i) {
    CHECK(Player{googlenet, random_needs(googlenet, random), 3}.plays());
    CHECK(Player{resnet, random_needs(resnet, random), 2}.plays());
  }
}

TEST_CASE("rewritten graphs: slices of one memory live together") {
  Random random{3};
  constexpr Rewrites all{
      .fuse_relu = true, .channels_last = true, .merge_pointwise = true, .place_concat = true};
  auto const googlenet = rewrite(graph<models::GoogLeNet<10>>, all);
  auto const inception = rewrite(graph<models::InceptionV3<10>>, all);
  for (int i = 0; i < 10; ++i) {
    CHECK(Player{googlenet, random_needs(googlenet, random), 3}.plays());
    CHECK(Player{inception, random_needs(inception, random), 1}.plays());
  }
}

TEST_CASE("what is planned is what is allocated") {
  Trainer<test::TinyNet, SingleDevice<Microbatches<4>, Reproducible<>>, Host> trainer{
      {.batch = 10, .optimizer = Adam{}, .threads_per_device = 2}};
  using ProgramType = decltype(trainer)::ProgramType;
  std::vector<OpNeeds> const needs = trainer.workers().rank(0).needs();
  Player player{ProgramType::graph, needs, 3};
  CHECK(player.plays());
  MemoryReport const report = trainer.memory();
  CHECK(report.kept == player.plan().kept_bytes);
  CHECK(report.transient == player.plan().transient_bytes);
  CHECK(report.parameters == 4 * ProgramType::layout.elements);
  CHECK(report.gradients == 4 * ProgramType::layout.trained * 3);  // 1 + log2(4)
  CHECK(report.optimizer_state == 4 * ProgramType::layout.trained * 2);
  CHECK(report.scratch > 0);
  std::int64_t packed = 0;
  for (OpNeeds const& need : needs) {
    packed += detail::aligned(need.packed_bytes);
  }
  CHECK(report.weights == packed);
  CHECK(report.logical == player.plan().logical_bytes);
  CHECK(report.total() == report.parameters + report.gradients + report.optimizer_state +
                              report.kept + report.transient + report.scratch + report.weights +
                              report.feed);
}

}  // namespace
}  // namespace tandem
