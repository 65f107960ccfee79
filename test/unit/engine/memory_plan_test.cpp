// SPDX-License-Identifier: Apache-2.0
// The memory plan, by playing a step on it: buffers whose lives meet cannot overlap.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <rank_of.hpp>
#include <tiny_network.hpp>
#include <unit/engine/planned_memory.hpp>

namespace tandem {
namespace memory_plan_test {

using test::one_step;
using test::PlannedMemory;
using test::whole_graph;

using Random = std::mt19937;
int draw(Random& random, int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

template <GraphSize Size>
std::vector<OpNeeds> random_needs(Graph<Size> const& graph, Random& random) {
  std::vector<OpNeeds> needs(Size.nodes);
  for (int n = 1; n < Size.nodes; ++n) {
    Node const& node = graph.node[n];
    if (node.kind == NodeKind::layer && node.computes()) {
      Node const& source = graph.node[graph.source[node.first_edge]];
      bool const whole = node.fusion.home < 0 && node.fusion.width == 0 && source.fusion.home < 0 &&
                         source.fusion.width == 0;
      bool const in_place =
          whole && node.parameters == 0 && node.out == source.out && draw(random, 2) == 0;
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
    PlannedMemory memory{graph, needs, whole_graph(graph, 1 + draw(random, 3))};
    REQUIRE(memory.play(one_step()) == "");
    std::int64_t all = 0;
    for (int n = 1; n < graph.nodes; ++n) {
      all += graph.node[n].out.elements();
    }
    for (int n = 1; n < graph.nodes; ++n) {
      in_place += memory.plan().root[static_cast<std::size_t>(n)] != root_of(graph, n) ? 1 : 0;
    }
    shared += memory.plan().transient_bytes < 4 * all ? 1 : 0;
  }
  CHECK(shared > played / 2);    // memory is shared at all
  CHECK(in_place > played / 2);  // as it is by elementwise nodes
}

std::string plays(GraphView graph, std::vector<OpNeeds> needs, int batch) {
  return PlannedMemory{graph, std::move(needs), whole_graph(graph, batch)}.play(one_step());
}

// Of a graph without slices: whether a node, in one of its passes, touches memory while another may
// write it that runs at the same time.
int count_readers(GraphView graph, int n) {
  return static_cast<int>(std::count(graph.source, graph.source + graph.edges, n));
}
struct Access {
  int region;
  std::int64_t begin;
  std::int64_t bytes;
  bool writes;
};
std::vector<Access> accesses(GraphView graph, MemoryPlan const& plan, int n, bool forward) {
  std::vector<Access> list;
  auto const value = [&](int m, bool writes) {
    auto const r = static_cast<std::size_t>(plan.root[static_cast<std::size_t>(m)]);
    if (plan.value[r] >= 0) {
      list.push_back({static_cast<int>(plan.region[r]), plan.value[r], plan.bytes[r], writes});
    }
  };
  auto const gradient = [&](std::int64_t offset, int m, bool writes) {
    if (offset >= 0) {
      list.push_back({-1, offset, plan.bytes[static_cast<std::size_t>(m)], writes});
    }
  };
  Node const& node = graph.node[n];
  if (!node.computes()) {
    return list;
  }
  auto const i = static_cast<std::size_t>(n);
  if (forward) {
    value(n, true);
    if (!node.needs_gradient && plan.saved[i] >= 0) {
      list.push_back({static_cast<int>(MemoryRegion::transient), plan.saved[i], 1, true});
    }
  } else if (node.needs_gradient) {
    gradient(plan.node_gradient[i], n, count_readers(graph, n) > 1);
  }
  for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
    if (forward) {
      value(graph.source[e], false);
    } else if (node.needs_gradient) {
      gradient(plan.edge_gradient[static_cast<std::size_t>(e)], graph.source[e],
               node.kind != NodeKind::add);
    }
  }
  return list;
}
std::string shares(GraphView graph, std::vector<OpNeeds> const& needs, int streams, bool knows) {
  Branches const branches{graph, streams};
  PlanTask task = whole_graph(graph, 2);
  task.branches = knows ? &branches : nullptr;
  PlannedMemory memory{graph, needs, task};
  std::string fault = memory.play(one_step());
  for (int a = 0; a < graph.nodes; ++a) {
    for (int b = 0; b < graph.nodes; ++b) {
      if (!branches.apart(a, b)) {
        continue;
      }
      for (bool const forward : {true, false}) {
        for (Access const& x : accesses(graph, memory.plan(), a, forward)) {
          for (Access const& y : accesses(graph, memory.plan(), b, forward)) {
            if (x.writes && x.region == y.region && x.begin < y.begin + y.bytes &&
                y.begin < x.begin + x.bytes) {
              fault = "nodes " + std::to_string(a) + " and " + std::to_string(b);
            }
          }
        }
      }
    }
  }
  return fault;
}

TEST_CASE("branches that run at the same time share no memory") {
  Random random{4};
  Graph<GraphSize{12, 15, 0}> graph;
  int forked = 0;
  int faults = 0;
  while (forked < 300) {
    if (!random_graph(graph, random) || Branches{graph, 3}.count == 0) {
      continue;
    }
    ++forked;
    std::vector<OpNeeds> const needs = random_needs(graph, random);
    REQUIRE(shares(graph, needs, 3, true) == "");
    faults += shares(graph, needs, 3, false).empty() ? 0 : 1;
  }
  CHECK(faults > forked / 4);  // what a plan does that does not know of them
  auto const& googlenet = tandem::graph<models::GoogLeNet<10>>;
  std::vector<OpNeeds> const needs = random_needs(googlenet, random);
  CHECK(shares(googlenet, needs, 2, true) == "");
  CHECK(shares(googlenet, needs, 4, true) == "");
  CHECK(shares(googlenet, needs, 4, false) != "");
}

TEST_CASE("GoogLeNet and ResNet-20: buffers whose lives meet do not overlap") {
  Random random{2};
  auto const& googlenet = graph<models::GoogLeNet<10>>;
  auto const& resnet = graph<models::ResNet20<10>>;
  for (int i = 0; i < 10; ++i) {
    CHECK(plays(googlenet, random_needs(googlenet, random), 3) == "");
    CHECK(plays(resnet, random_needs(resnet, random), 2) == "");
  }
}

TEST_CASE("gradients of a residual block are gone when the next one's are added") {
  auto const gradient_bytes = [](GraphView graph) {
    std::vector<OpNeeds> needs(static_cast<std::size_t>(graph.nodes));
    for (int n = 0; n < graph.nodes; ++n) {
      needs[static_cast<std::size_t>(n)].in_place = graph.node[n].layer == LayerKind::relu;
    }
    return plan_memory(graph, needs, {.stages = {{.first = 0, .last = graph.nodes}}})
        .gradient_bytes;
  };
  std::int64_t const block = 16 * 32 * 32 * 4;  // of the largest
  CHECK(gradient_bytes(graph<models::ResNet20<10>>) == 3 * block);
  CHECK(gradient_bytes(graph<models::ResNet18<10>>) == 3 * 4 * block);
}

TEST_CASE("rewritten graphs: slices of one memory live together") {
  Random random{3};
  constexpr Rewrites all{
      .fuse_relu = true, .channels_last = true, .merge_pointwise = true, .place_concat = true};
  auto const googlenet = rewrite(graph<models::GoogLeNet<10>>, all);
  auto const inception = rewrite(graph<models::InceptionV3<10>>, all);
  for (int i = 0; i < 10; ++i) {
    CHECK(plays(googlenet, random_needs(googlenet, random), 3) == "");
    CHECK(plays(inception, random_needs(inception, random), 1) == "");
  }
}

TEST_CASE("what is planned is what is allocated") {
  Trainer<test::TinyNet, SingleDevice<Microbatches<4>, Reproducible<>>, Host> trainer{
      {.batch = 10, .optimizer = Adam{}, .threads_per_device = 2}};
  using Device = test::DeviceOf<decltype(trainer)>;
  std::vector<OpNeeds> const needs = test::rank_of(trainer).needs();
  PlannedMemory memory{Device::graph, needs, whole_graph(Device::graph, 3)};
  CHECK(memory.play(one_step()) == "");
  MemoryReport const report = trainer.memory();
  MemoryPlan const& plan = memory.plan();
  CHECK(report.kept == plan.kept_bytes[0]);
  CHECK(report.recomputed == 0);
  CHECK(report.transient == std::max(plan.transient_bytes, plan.gradient_bytes));
  CHECK(report.parameters == 4 * Device::layout.elements);
  CHECK(report.gradients == 4 * Device::layout.trained * 3);  // 1 + log2(4)
  CHECK(report.optimizer_state == 4 * Device::layout.trained * 2);
  CHECK(report.scratch > 0);
  std::int64_t packed = 0;
  for (OpNeeds const& need : needs) {
    packed += detail::aligned(need.packed_bytes);
  }
  CHECK(report.weights == packed);
  CHECK(report.logical == plan.logical_bytes);
  CHECK(report.total() == report.parameters + report.gradients + report.optimizer_state +
                              report.kept + report.transient + report.scratch + report.weights +
                              report.feed + report.tables);
}

}  // namespace memory_plan_test
}  // namespace tandem
