// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/program.hpp>

#include <tiny_network.hpp>

namespace device_graph_test {

using namespace tandem;

using Tiny = test::TinyNet;

/// The input is read by two branches, an output by several readers on another device, and a branch
/// has no node.
struct Wide : Network<Image<3, 4, 4>,
                      Sequential<Concat<Conv2d<4>, Conv2d<3>, Sequential<>>, Residual<Conv2d<10>>,
                                 Concat<Conv2d<4>, Conv2d<3>, Conv2d<2>>, Frozen<BatchNorm2d<>>,
                                 GlobalAvgPool, Linear<5>>> {};

inline constexpr auto tiny = place<Tiny>({{"4.0", 1}, {"4.2", 1}, {"5", 1}});
inline constexpr auto wide =
    place<Wide>({{"0.1", 1}, {"1.body", 2}, {"2.0", 1}, {"2.1", 1}, {"2.2", 2}});

/// What a device's graph must have of each node.
template <class P, int D>
void check_nodes(std::vector<int>& nodes, std::vector<int>& parameters, int& results) {
  constexpr auto const& whole = P::network;
  constexpr auto const& own = P::template Device<D>::graph;
  for (int n = 0; n < own.nodes; ++n) {
    Node const& node = own.node[n];
    Node const& origin = whole.node[node.origin];
    REQUIRE(P::map.device[node.stage] == D);
    REQUIRE(node.top == origin.top);
    REQUIRE(node.out == origin.out);
    REQUIRE(to_string(node.path) == to_string(origin.path));
    REQUIRE(node.needs_gradient == origin.needs_gradient);
    for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
      int const carried = own.edge_origin[e];
      REQUIRE(own.source[e] < n);
      REQUIRE(own.node[own.source[e]].origin == whole.source[carried]);
    }
    if (node.is_end()) {
      continue;
    }
    ++nodes[static_cast<std::size_t>(node.origin)];
    REQUIRE(node.stage % P::map.parts() == P::partition.part[node.origin]);
    REQUIRE(node.name == origin.name);
    REQUIRE(node.edges == origin.edges);
    REQUIRE(node.parameters == origin.parameters);
    for (int e = 0; e < node.edges; ++e) {
      REQUIRE(own.edge_origin[node.first_edge + e] == origin.first_edge + e);
    }
    for (int p = 0; p < node.parameters; ++p) {
      GraphParameter const& parameter = own.parameter[node.first_parameter + p];
      REQUIRE(parameter.origin == origin.first_parameter + p);
      REQUIRE(parameter.node == n);
      REQUIRE(parameter_name(own, node.first_parameter + p) ==
              parameter_name(whole, parameter.origin));
      ++parameters[static_cast<std::size_t>(parameter.origin)];
    }
  }
  results += own.result >= 0 ? 1 : 0;
  REQUIRE((own.result < 0 || own.node[own.result].origin == whole.nodes - 1));
}

using Ends = std::vector<std::string>;

/// "stage-stage:node" of each end of a transfer, in the order of the graph.
template <class P, int D>
void list_ends(Ends& sends, Ends& receives) {
  constexpr auto const& own = P::template Device<D>::graph;
  std::pair<int, int> last{-1, -1};  // stage and origin of the receive before
  for (Node const& node : own.node) {
    bool const sends_it = node.kind == NodeKind::send;
    if (!sends_it && node.kind != NodeKind::receive) {
      continue;
    }
    int const from = sends_it ? node.stage : node.peer;
    int const to = sends_it ? node.peer : node.stage;
    REQUIRE(from < to);
    REQUIRE(P::map.device[from] != P::map.device[to]);
    (sends_it ? sends : receives)
        .push_back(std::to_string(from) + "-" + std::to_string(to) + ":" +
                   std::to_string(node.origin));
    if (!sends_it) {
      REQUIRE((node.stage != last.first || node.origin > last.second));
      last = {node.stage, node.origin};
    }
  }
}

template <class P>
void check() {
  std::vector<int> nodes(P::network.nodes);
  std::vector<int> parameters(P::network.parameters);
  int results = 0;
  Ends sends;
  Ends receives;
  [&]<int... D>(std::integer_sequence<int, D...>) {
    (check_nodes<P, D>(nodes, parameters, results), ...);
    (list_ends<P, D>(sends, receives), ...);
  }
  (std::make_integer_sequence<int, P::devices>{});
  for (int n = 1; n < P::network.nodes; ++n) {
    REQUIRE(nodes[static_cast<std::size_t>(n)] == P::map.copies);
  }
  for (int const count : parameters) {
    REQUIRE(count == P::map.copies);
  }
  REQUIRE(results == P::map.copies);
  std::sort(sends.begin(), sends.end());
  std::sort(receives.begin(), receives.end());
  REQUIRE(sends == receives);
  int crossing = 0;  // an edge of the map is one message
  for (StageEdge const& edge : P::map.edge) {
    crossing += P::map.device[edge.from] != P::map.device[edge.to] ? 1 : 0;
  }
  REQUIRE(std::ssize(sends) == crossing);
}

using R = Reproducible<>;

TEST_CASE("each node and parameter is on one device of each copy; sends meet receives") {
  check<Program<Tiny, ModelParallel<Split<4>, Split<5>>, 4>>();
  check<Program<Tiny, Pipeline<Interleaved<2>, 4, Auto<4>>, 4>>();
  check<Program<Tiny, Pipeline<Chimera, 4, Auto<4>, R>, 4>>();
  check<Program<Tiny, ModelParallel<Placed<tiny>>, 4>>();
  check<Program<Wide, ModelParallel<Placed<wide>>, 4>>();
  check<Program<Wide, ModelParallel<Placed<wide>, R>, 4>>();
}

/// "Input Conv2d>2 …" with the stages that ends lead to or come from.
template <class Graph>
std::string text(Graph const& graph) {
  std::string all;
  for (Node const& node : graph.node) {
    std::string const end = node.kind == NodeKind::send      ? ">"
                            : node.kind == NodeKind::receive ? "<"
                                                             : "";
    all += end.empty() ? std::string{node.name} : end + std::to_string(node.peer);
    all += "@" + std::to_string(node.stage) + " ";
  }
  return all;
}

TEST_CASE("ends stand where tensors come and leave") {
  using P = Program<Wide, ModelParallel<Placed<wide>>, 4>;
  CHECK(text(P::Device<0>::graph) ==
        "Input@0 Conv2d@0 <1@2 Concat@2 >3@2 <3@4 Add@4 >5@4 >7@4 <5@8 <6@8 <7@8 Concat@8 "
        "BatchNorm2d@8 GlobalAvgPool@8 Linear@8 ");
  CHECK(text(P::Device<1>::graph) == "Input@1 Conv2d@1 >2@1 <4@5 Conv2d@5 >8@5 Conv2d@6 >8@6 ");
  CHECK(text(P::Device<2>::graph) == "<2@3 Conv2d@3 >4@3 <4@7 Conv2d@7 >8@7 ");
}

TEST_CASE("gradients of several readers: one message, or one each") {
  using Sum = Program<Wide, ModelParallel<Placed<wide>>, 4>::Device<0>;
  using Apart = Program<Wide, ModelParallel<Placed<wide>, R>, 4>::Device<0>;
  std::vector<int> sum;
  std::vector<int> apart;
  for (Node const& node : Sum::graph.node) {
    if (node.kind == NodeKind::send) {
      sum.push_back(node.edges);
    }
  }
  for (Node const& node : Apart::graph.node) {
    if (node.kind == NodeKind::send) {
      apart.push_back(node.edges);
    }
  }
  CHECK(sum == std::vector{1, 1, 1});
  CHECK(apart == std::vector{1, 2, 1});
}

TEST_CASE("a device that has all of the network has its graph") {
  using P = Program<Tiny, DataParallel<2>, 4>;
  CHECK(&P::Device<0>::graph == &graph<Tiny>);
}

TEST_CASE("stages of a device, and which of them go backward") {
  using P = Program<Wide, ModelParallel<Placed<wide>>, 4>;
  constexpr auto const& stages = P::Device<0>::stages;
  REQUIRE(stages.count == 4);
  for (int s = 1; s < stages.count; ++s) {
    CHECK(stages.stage[s].first == stages.stage[s - 1].last);
    CHECK(stages.stage[s].needs_gradient);
  }
  using F = Program<Wide, ModelParallel<Split<3>, Split<1>, Split<2>>, 4>;
  CHECK(F::Device<1>::stages.stage[0].needs_gradient);  // what comes before is trained
  struct Cold : Network<Vector<4>, Sequential<Frozen<Linear<4>>, Linear<3>>> {};
  using C = Program<Cold, ModelParallel<Split<1>, Split<1>>, 4>;
  CHECK_FALSE(C::Device<0>::stages.stage[0].needs_gradient);
  CHECK(C::Device<1>::stages.stage[0].needs_gradient);
}

template <class D>
std::string segments() {
  std::string all;
  for (int const segment : D::segments.of) {
    all += std::to_string(segment) + " ";
  }
  return all;
}

TEST_CASE("runs that are computed again: of top-level layers, never over a stage's end") {
  using None = Program<Tiny, ModelParallel<Split<4>, Split<5>>, 4>;
  CHECK(segments<None::Device<0>>() == "-1 -1 -1 -1 -1 -1 -1 -1 ");
  using Whole = Program<Tiny, ModelParallel<Split<4>, Split<5>, Checkpoint<Boundaries>>, 4>;
  CHECK(segments<Whole::Device<0>>() == "0 0 0 0 0 0 0 0 ");
  CHECK(segments<Whole::Device<1>>() == "0 0 0 0 0 0 0 0 0 0 ");
  using Two = Program<Tiny, ModelParallel<Split<4>, Split<5>, Checkpoint<Every<2>>>, 4>;
  CHECK(segments<Two::Device<0>>() == "0 0 0 1 1 1 1 1 ");      // 0 1 | 2 3, and a send
  CHECK(segments<Two::Device<1>>() == "0 0 0 0 0 0 0 1 1 2 ");  // a receive, 4 5 | 6 7 | 8
  using Both = Program<
      Tiny,
      Pipeline<Interleaved<2>, 2, Split<2>, Split<2>, Split<2>, Split<3>, Checkpoint<Boundaries>>,
      4>;
  CHECK(segments<Both::Device<0>>() == "0 0 0 0 1 1 1 1 1 1 1 1 ");
}

}  // namespace device_graph_test
