// SPDX-License-Identifier: Apache-2.0
// Layers dealt out over ranks: which are, what a rank's graph is, and that no other graph passes.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <tandem/graph/lower.hpp>
#include <tandem/graph/spread/check.hpp>
#include <tandem/graph/spread/rewrite.hpp>
#include <tandem/graph/spread/rows.hpp>
#include <tandem/graph/spread/volume.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/group_norm.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/rotary_positions.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/gpt.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/models/resnet_imagenet.hpp>
#include <tandem/models/vgg.hpp>

namespace tandem {
namespace spread_test {

struct Two : models::Gpt<11, 6, 8, 2, 2, Percent<20>> {};
struct Mlp : Network<Vector<6>, Sequential<Linear<6>, ReLU, Dropout<>, Linear<4>, Linear<3>>> {};
template <class... Parts>
struct Body : Network<Tokens<5, 7>, Sequential<Embedding<7, 8>, Parts..., Vocabulary<7>>> {};
struct Grouped : Body<Linear<32>, RotaryPositions<4, KeyHeads<2>>,
                      Attention<4, Causal, KeyHeads<2>>, Linear<8>, Linear<12>, SwiGlu, Linear<8>> {
};
struct Forked : Body<Linear<8>, Residual<ReLU>, Linear<8>> {};
struct Normed : Body<Linear<8>, LayerNorm<>, Linear<8>> {};

template <class Net, int N>
constexpr int pairs = plan_spread(graph<Net>, N).pairs;

// Two a block: what has whole rows between, forks, or is not to be divided stays whole.
static_assert(pairs<Two, 2> == 4 && pairs<Two, 4> == 2);  // the other two have two heads
static_assert(pairs<Mlp, 2> == 1 && pairs<Mlp, 6> == 1 && pairs<Mlp, 3> == 1 && pairs<Mlp, 5> == 0);
static_assert(pairs<Mlp, 4> == 1);  // of the last two
static_assert(pairs<Grouped, 2> == 2 && pairs<Grouped, 3> == 1);
static_assert(pairs<Grouped, 4> == 1);  // not the heads, of whose keys there are two
static_assert(pairs<Forked, 2> == 0 && pairs<Normed, 2> == 0);

// Of words: large tables, and those that a wish names, with all layers that share them.
constexpr SpreadWishes wishes(std::initializer_list<SpreadWish> list) {
  SpreadWishes all;
  for (SpreadWish const& one : list) {
    all.add(one.place, one.wish);
  }
  return all;
}
template <class Net>
constexpr auto plan_of(std::initializer_list<SpreadWish> list) {
  return plan_spread(graph<Net>, 2, wishes(list));
}
struct Large : Network<Tokens<5, 4096>, Sequential<Embedding<4096, 256>, Vocabulary<4095>>> {};
static_assert(plan_of<Large>({}).tables == 1);  // 2^20 numbers; the criterion's are 256 fewer
static_assert(plan_of<Large>({{0, Wish::whole}}).tables == 0);
static_assert(plan_of<Large>({{1, Wish::outputs}}).tables == 2);
static_assert(plan_of<Two>({}).tables == 0 && plan_of<Two>({{"0", Wish::inputs}}).tables == 2);
static_assert(plan_of<Two>({{"0", Wish::inputs}}).pairs == 4);
static_assert(plan_of<Two>({{0, Wish::inputs}, {4, Wish::whole}}).fault == WishFault::tied);
static_assert(plan_of<Two>({{0, Wish::outputs}}).fault == WishFault::outputs);
static_assert(plan_of<Two>({{4, Wish::inputs}}).fault == WishFault::inputs);

// Of pairs: which Linear begins one, which ends one, and which stays whole.
struct Three : Network<Vector<6>, Sequential<Linear<6>, ReLU, Linear<4>, Sequential<Linear<8>>>> {};
constexpr auto dealt_of(std::initializer_list<SpreadWish> list, int layer) {
  return plan_of<Three>(list).dealt[layer];
}
static_assert(dealt_of({}, 1) == Dealt::columns && dealt_of({}, 3) == Dealt::rows);
static_assert(dealt_of({{2, Wish::outputs}}, 1) == Dealt::whole &&
              dealt_of({{2, Wish::outputs}}, 3) == Dealt::columns);
static_assert(dealt_of({{"3.0", Wish::inputs}}, 3) == Dealt::columns &&
              dealt_of({{"3.0", Wish::inputs}}, 4) == Dealt::rows);
static_assert(plan_of<Three>({{2, Wish::whole}}).pairs == 0);
static_assert(plan_of<Three>({{0, Wish::inputs}}).fault == WishFault::inputs);
static_assert(plan_of<Three>({{"3.0", Wish::outputs}}).fault == WishFault::outputs);
static_assert(plan_of<Three>({{0, Wish::outputs}, {"3.0", Wish::outputs}}).wish == 1);

// Places are as describe prints them.
static_assert(misplaced_wish(graph<Three>, wishes({{0, Wish::outputs}, {3, Wish::whole}})) == -1);
static_assert(misplaced_wish(graph<Three>, wishes({{0, Wish::outputs}, {3, Wish::outputs}})) == 1);
static_assert(misplaced_wish(graph<Three>, wishes({{4, Wish::whole}})) == 0);
static_assert(LayerPlace{"4.body.0"}.path.part[1] == Path::body &&
              LayerPlace{"12.shortcut"}.path.part[0] == 12 && LayerPlace{"4.0"}.path.depth == 2);
static_assert(!LayerPlace{""}.sound && !LayerPlace{"4."}.sound && !LayerPlace{".4"}.sound &&
              !LayerPlace{"4..0"}.sound && !LayerPlace{"four"}.sound && !LayerPlace{-1}.sound &&
              !LayerPlace{"99999"}.sound && !LayerPlace{"4. 0"}.sound);

// Two of a block of Inception, one of a block of a ResNet; pools, norms and groups are no end of a
// pair, what sees groups of channels alone is within one; an image becomes a vector by channels.
template <class... Parts>
struct Of : Network<Image<4, 6, 6>, Sequential<Parts...>> {};
using C8 = Conv2d<8, Kernel<3>, Padding<1>>;
static_assert(pairs<Of<C8, BatchNorm2d<>, MaxPool2d<Kernel<2>>, Conv2d<3>>, 4> == 1);
static_assert(pairs<Of<C8, Conv2d<16, Groups<4>>, Conv2d<3>>, 4> == 1);
static_assert(pairs<Of<C8, Conv2d<16, Groups<4>>, Conv2d<3>>, 8> == 0);
static_assert(pairs<Of<C8, Conv2d<16, Groups<4>>, GroupNorm<2>, Conv2d<3>>, 2> == 0);
static_assert(pairs<Of<C8, Conv2d<16, Groups<8>>, Flatten, Dropout<>, Linear<5>>, 8> == 1);
static_assert(pairs<Of<C8, SyncBatchNorm2d<>, GlobalAvgPool, Linear<5>>, 2> == 1);
static_assert(pairs<Of<Flatten, Linear<4>, Flatten, Linear<4>>, 2> == 0);

template <class Net, int N, int Own = 1>
struct DealtOut {
  static constexpr GraphSize size = spread_size(graph<Net>, {N, Own});
  static constexpr auto graph = spread<size>(tandem::graph<Net>, {N, Own});
};

/// Two, with its words dealt out: eleven over four ranks, three on each.
struct Worded {
  static constexpr SpreadWishes asked = wishes({{0, Wish::inputs}});
  static constexpr GraphSize size = spread_size(tandem::graph<Two>, {.slices = 4, .wishes = asked});
  static constexpr auto graph = spread<size>(tandem::graph<Two>, {.slices = 4, .wishes = asked});
};

template <class Net, int N, int Own = 1>
constexpr auto const& dealt = DealtOut<Net, N, Own>::graph;

// The table of docs/tensor_parallel.md: pairs, per mille of the multiply-accumulates, elements
// added up.
template <class Net>
constexpr bool is_shared(int of_pairs, int share, std::int64_t forward, std::int64_t backward) {
  SpreadVolume const volume = spread_volume(dealt<Net, 2>);
  return pairs<Net, 2> == of_pairs && volume.forward == forward && volume.backward == backward &&
         (2000 * dealt<Net, 2>.macs() / graph<Net>.macs() + 1) / 2 == share;
}
static_assert(is_shared<models::GoogLeNet<10>>(18, 654, 946'176, 1'216'512));
static_assert(is_shared<models::ResNet18<10>>(8, 507, 245'760, 303'104));
static_assert(is_shared<models::ResNet50<1000>>(16, 659, 1'379'840, 5'619'712));
static_assert(is_shared<models::Vgg16<1000>>(8, 500, 6'527'976, 2'613'248));

static_assert(check_spreads(dealt<Two, 2>).sound() && check_spreads(dealt<Mlp, 2>).sound() &&
              check_spreads(dealt<Mlp, 3>).sound() && check_spreads(dealt<Grouped, 2>).sound() &&
              check_spreads(graph<Two>).sound());

static_assert(check_spreads(dealt<models::GoogLeNet<10>, 2>).sound() &&
              check_spreads(dealt<models::ResNet18<10>, 4>).sound());

// A pair has a Copy, a Reduce, and a bias behind it.
static_assert(DealtOut<Mlp, 2>::size.nodes == graph<Mlp>.nodes + 3 &&
              DealtOut<Mlp, 2>::size.edges == graph<Mlp>.edges + 3 &&
              DealtOut<Mlp, 2>::size.parameters == graph<Mlp>.parameters);

template <GraphSize Size>
constexpr int find(Graph<Size> const& graph, std::string_view name, int which = 0) {
  for (int n = 0; n < Size.nodes; ++n) {
    if (graph.node[n].name == name && which-- == 0) {
      return n;
    }
  }
  return -1;
}

TEST_CASE("a rank's graph has its slices, and all else as it was") {
  auto const& own = dealt<Mlp, 2>;
  char const* const names[] = {"Input",  "Copy",   "Linear", "ReLU",  "Dropout",
                               "Linear", "Reduce", "Bias",   "Linear"};
  for (int n = 0; n < own.nodes; ++n) {
    CHECK(own.node[n].name == names[n]);
    CHECK(own.node[n].edges == (n > 0 ? 1 : 0));
    CHECK((n == 0 || own.source[own.node[n].first_edge] == n - 1));
  }
  CHECK(own.result == 8);
  CHECK(own.node[2].in == vector_shape(6));
  CHECK(own.node[2].out == vector_shape(3));
  CHECK(own.node[4].out == vector_shape(3));
  CHECK(own.node[5].in == vector_shape(3));
  CHECK(own.node[5].out == vector_shape(4));
  CHECK(own.node[2].macs * 2 == graph<Mlp>.node[1].macs);
  CHECK(own.node[4].origin == 3);  // what its mask depends on
  CHECK(own.parameter[0].parameter.shape == Shape{2, {3, 6}});
  CHECK(own.parameter[1].parameter.shape == vector_shape(3));
  CHECK(own.parameter[2].parameter.shape == Shape{2, {4, 3}});
  CHECK(own.parameter[3].parameter.shape == vector_shape(4));  // the bias of all, once
  CHECK(own.parameter[2].node == 5);
  CHECK(own.parameter[3].node == 7);
  CHECK(own.parameter[4].slices.count == 1);
  CHECK_FALSE(own.node[1].needs_gradient);  // of the network's input nobody wants one
}

TEST_CASE("words are dealt out with as many rows on each rank, the last behind the table's end") {
  auto const& own = Worded::graph;
  CHECK(own.node[1].sharing.dealt == Dealt::embedding);
  CHECK(own.node[2].name == "Reduce");
  CHECK(own.node[own.result].sharing.dealt == Dealt::vocabulary);
  CHECK(own.node[own.source[own.node[own.result].first_edge]].name == "Copy");
  int const shared = own.node[own.result].first_parameter;
  for (int const p : {own.node[1].first_parameter, shared}) {
    CHECK(own.parameter[p].parameter.shape == Shape{2, {3, 8}});
    CHECK(own.parameter[p].slices == ParameterSlices{4, 0, ColumnParts::whole(11)});
  }
  CHECK(own.node[own.result].macs * 11 == graph<Two>.output().macs * 3);
  CHECK(own.node[own.result].kept.scalars * 11 == graph<Two>.output().kept.scalars * 3);
  int words = 0;
  for (int number = 0; number < 4; ++number) {
    own.parameter[shared].slices.parts.each_run(number, 4, [&](int from, int to, int count) {
      CHECK((from == 0 && to == 3 * number && count == (number < 3 ? 3 : 2)));
      words += count;
    });
  }
  CHECK(words == 11);
  CHECK(padded_range(11, {7, 8}).count == 0);
  CHECK(padded_range(11, {5, 8}).count == 1);
}

TEST_CASE("queries, keys and values are dealt out each by itself, by heads") {
  auto const& own = dealt<Grouped, 2>;
  int const products = find(own, "Linear");
  ColumnParts const parts{3, {16, 8, 8}, {4, 4, 4}};
  CHECK(own.node[products].sharing.parts == parts);
  CHECK(own.parameter[own.node[products].first_parameter].slices.parts == parts);
  CHECK(own.node[find(own, "Attention")].in[1] == 16);
  CHECK(own.node[find(own, "Attention")].out[1] == 8);
  CHECK(own.node[find(own, "Attention")].sharing.parts == ColumnParts{1, {16}, {4}});
  int runs = 0;
  parts.each_run(1, 2, [&](int from, int to, int count) {
    int const expected[3][3] = {{0, 8, 8}, {8, 20, 4}, {12, 28, 4}};
    CHECK((from == expected[runs][0] && to == expected[runs][1] && count == expected[runs][2]));
    ++runs;
  });
  CHECK(runs == 3);
  CHECK(own.node[find(own, "SwiGlu")].in[1] == 6);
  CHECK(own.node[find(own, "SwiGlu")].sharing.parts == ColumnParts::whole(6));
}

TEST_CASE("a rank's graph of images has its channels of kernels, norms, pools and a vector") {
  using Net =
      Of<C8, BatchNorm2d<>, Conv2d<16, Groups<4>>, AvgPool2d<Kernel<2>>, Flatten, Linear<5>>;
  auto const& own = dealt<Net, 2>;
  char const* const names[] = {"Input",     "Copy",    "Conv2d", "BatchNorm2d", "Conv2d",
                               "AvgPool2d", "Flatten", "Linear", "Reduce",      "Bias"};
  for (int n = 0; n < own.nodes; ++n) {
    CHECK(own.node[n].name == names[n]);
  }
  CHECK(own.node[2].in == image_shape(4, 6, 6));
  CHECK(own.node[3].out == image_shape(4, 6, 6));
  CHECK(own.node[4].out == image_shape(8, 6, 6));
  CHECK(own.node[5].out == image_shape(8, 3, 3));
  CHECK(own.node[6].out == vector_shape(72));
  CHECK(own.parameter[0].parameter.shape == Shape{4, {4, 4, 3, 3}});
  CHECK(own.parameter[5].parameter.shape == vector_shape(4));  // a running variance
  CHECK(own.parameter[6].parameter.shape == Shape{4, {8, 2, 1, 1}});
  CHECK(own.parameter[8].parameter.shape == Shape{2, {5, 72}});
  CHECK(own.parameter[8].slices == ParameterSlices{2, 1, {1, {144}, {9}}});
  CHECK(own.node[4].macs * 2 == graph<Net>.node[3].macs);
}

// Without node n: its readers read what it reads.
template <GraphSize Size>
constexpr Graph<Size> without(Graph<Size> graph, int n) {
  int const before = graph.source[graph.node[n].first_edge];
  for (int e = 0; e < Size.edges; ++e) {
    graph.source[e] = graph.source[e] == n ? before : graph.source[e];
  }
  graph.result = graph.result == n ? before : graph.result;
  return graph;
}

// With another one like node n behind it.
template <GraphSize Size>
constexpr auto with_two(Graph<Size> const& graph, int n) {
  constexpr int last = Size.nodes;
  Graph<GraphSize{Size.nodes + 1, Size.edges + 1, Size.parameters}> twice;
  for (int i = 0; i < Size.nodes; ++i) {
    twice.node[i] = graph.node[i];
  }
  for (int e = 0; e < Size.edges; ++e) {
    twice.source[e] = graph.source[e] == n ? last : graph.source[e];
  }
  for (int p = 0; p < Size.parameters; ++p) {
    twice.parameter[p] = graph.parameter[p];
  }
  twice.node[last] = graph.node[n];
  twice.node[last].first_edge = Size.edges;
  twice.source[Size.edges] = n;
  twice.result = graph.result == n ? last : graph.result;
  return twice;
}

// With node n on the other side of its first reader.
template <GraphSize Size>
constexpr Graph<Size> behind_reader(Graph<Size> graph, int n) {
  int const first = graph.node[n].first_edge;
  int reader = 0;
  while (graph.node[reader].edges == 0 || graph.source[graph.node[reader].first_edge] != n) {
    ++reader;
  }
  for (int e = 0; e < Size.edges; ++e) {
    graph.source[e] = graph.source[e] == reader ? n : graph.source[e];
  }
  graph.source[graph.node[reader].first_edge] = graph.source[first];
  graph.source[first] = reader;
  graph.result = graph.result == reader ? n : graph.result;
  graph.node[n].in = graph.node[n].out = graph.node[reader].out;
  return graph;
}

// Collectives of which each mutation is found.
template <GraphSize Size>
constexpr int all_found(Graph<Size> const& graph) {
  int count = 0;
  for (int n = 0; n < Size.nodes; ++n) {
    if (!graph.node[n].is_collective()) {
      continue;
    }
    if (check_spreads(without(graph, n)).sound() || check_spreads(with_two(graph, n)).sound() ||
        check_spreads(behind_reader(graph, n)).sound()) {
      return -1;
    }
    ++count;
  }
  return count;
}
static_assert(all_found(dealt<Two, 2>) == 8);
static_assert(all_found(dealt<Grouped, 2>) == 4);
static_assert(all_found(dealt<Mlp, 3>) == 2);
static_assert(check_spreads(Worded::graph).sound() && all_found(Worded::graph) == 6);
static_assert(all_found(dealt<models::ResNet20<10>, 2>) == 18);

template <class Change>
constexpr SpreadFault fault_of(Change const& change) {
  auto own = dealt<Mlp, 2>;
  change(own);
  return check_spreads(own).fault;
}

// A rank with several slices has the nodes of each, and adds them.
static_assert(check_spreads(dealt<Mlp, 6, 2>, 2).sound() &&
              check_spreads(dealt<Mlp, 6, 6>, 6).sound() &&
              check_spreads(dealt<Mlp, 3, 3>, 3).sound() &&
              check_spreads(dealt<Two, 2, 2>, 2).sound() &&
              check_spreads(dealt<Grouped, 2, 2>, 2).sound());
static_assert(DealtOut<Mlp, 6, 2>::size.nodes == DealtOut<Mlp, 2>::size.nodes + 4 + 2 + 1 &&
              DealtOut<Mlp, 6, 2>::size.parameters == graph<Mlp>.parameters + 3);

template <class Change>
constexpr SpreadVerdict verdict_of_two(Change const& change) {
  auto own = dealt<Mlp, 4, 2>;
  change(own);
  return check_spreads(own, 2);
}
// Of the last two Linears of Mlp: a Copy and its halves, columns, rows, their sum, the Reduce.
constexpr int two_from = 4;
static_assert(dealt<Mlp, 4, 2>.node[two_from].sharing.dealt == Dealt::copy &&
              dealt<Mlp, 4, 2>.node[two_from + 7].sharing.dealt == Dealt::join);
constexpr int first_source(int n) { return dealt<Mlp, 4, 2>.node[n].first_edge; }
static_assert(verdict_of_two([](auto& /*g*/) {}).sound());
// Half of a Copy twice, or read in place of the whole or by another slice; slices crossed; a sum of
// one slice alone, twice, or in another order; a weight of another slice.
static_assert(verdict_of_two([](auto& g) { g.node[two_from + 2].sharing.slice = 0; }) ==
              SpreadVerdict{SpreadFault::slice, two_from + 2});
static_assert(verdict_of_two([](auto& g) {
                g.source[first_source(two_from + 4)] = two_from + 1;
              }) == SpreadVerdict{SpreadFault::slice, two_from + 4});
static_assert(verdict_of_two([](auto& g) { g.source[first_source(two_from + 3)] = two_from; }) ==
              SpreadVerdict{SpreadFault::slice, two_from + 3});
static_assert(verdict_of_two([](auto& g) {
                g.source[first_source(two_from + 6)] = two_from + 3;
              }) == SpreadVerdict{SpreadFault::slice, two_from + 6});
static_assert(verdict_of_two([](auto& g) {
                g.source[first_source(two_from + 8)] = two_from + 5;
              }) == SpreadVerdict{SpreadFault::twice, two_from + 8});
static_assert(verdict_of_two([](auto& g) {
                g.source[first_source(two_from + 7) + 1] = two_from + 5;
              }) == SpreadVerdict{SpreadFault::twice, two_from + 7});
static_assert(verdict_of_two([](auto& g) {
                g.source[first_source(two_from + 7)] = two_from + 6;
                g.source[first_source(two_from + 7) + 1] = two_from + 5;
              }) == SpreadVerdict{SpreadFault::slice, two_from + 7});
static_assert(verdict_of_two([](auto& g) {
                g.parameter[g.node[two_from + 4].first_parameter].slices.own = 0;
              }) == SpreadVerdict{SpreadFault::parameter, two_from + 4});
static_assert(check_spreads(dealt<Mlp, 4, 2>, 1).fault == SpreadFault::slice);

TEST_CASE("slices are added in the order in which ranks add theirs") {
  auto const& own = dealt<Mlp, 6, 6>;  // ((0 1)(2 3))(4 5)
  int const copy = find(own, "Copy");
  int const spans[] = {6, 4, 2, 1, 1, 2, 1, 1, 2, 1, 1};
  for (int i = 0; i < 11; ++i) {
    CHECK(own.node[copy + i].sharing.span == spans[i]);
    CHECK(own.node[copy + i].is_collective() == (i == 0));
  }
  int const reads[] = {3, 4, 6, 7, 9, 10};
  for (int slice = 0; slice < 6; ++slice) {
    Node const& linear = own.node[find(own, "Linear", slice)];
    CHECK(own.source[linear.first_edge] == copy + reads[slice]);
    CHECK(own.parameter[linear.first_parameter].slices.own == slice);
    CHECK(own.parameter[linear.first_parameter].whole == 0);
  }
  int const sums[] = {2, 2, 4, 2, 6};
  for (int i = 0; i < 5; ++i) {
    CHECK(own.node[find(own, "Add", i)].sharing.span == sums[i]);
  }
}

// A sum read by two, a bias on each rank, a slice of another axis, a whole weight where a slice is
// wanted, an output that is part of a sum.
static_assert(fault_of([](auto& g) {
                g.source[g.node[8].first_edge] = 5;
                g.node[8] = g.node[6];
                g.node[8].first_edge = 7;
              }) == SpreadFault::twice);
static_assert(fault_of([](auto& g) { g.node[5].parameters = 2; }) == SpreadFault::parameter);
static_assert(fault_of([](auto& g) { g.parameter[0].slices.axis = 1; }) == SpreadFault::parameter);
static_assert(fault_of([](auto& g) { g.parameter[2].slices = {}; }) == SpreadFault::parameter);
static_assert(fault_of([](auto& g) { g.parameter[4].slices.count = 2; }) == SpreadFault::parameter);
static_assert(fault_of([](auto& g) { g.result = 5; }) == SpreadFault::result);
static_assert(fault_of([](auto& g) { g.node[4].sharing.parts = ColumnParts::whole(8); }) ==
              SpreadFault::shape);
static_assert(fault_of([](auto& g) { g.node[2].out = vector_shape(8); }) == SpreadFault::shape);
static_assert(fault_of([](auto& g) { g.node[6].kind = NodeKind::copy; }) == SpreadFault::kind);
static_assert(fault_of([](auto& g) { g.node[3].sharing.dealt = Dealt::whole; }) ==
              SpreadFault::edge);

// A table that is whole, or of another axis, or without its padding; a bias of all words.
template <class Change>
constexpr SpreadFault fault_of_words(Change const& change) {
  auto own = Worded::graph;
  change(own);
  return check_spreads(own).fault;
}
static_assert(fault_of_words([](auto& g) { g.parameter[0].slices = {}; }) ==
              SpreadFault::parameter);
static_assert(fault_of_words([](auto& g) { g.parameter[0].slices.axis = 1; }) ==
              SpreadFault::parameter);
static_assert(fault_of_words([](auto& g) { g.parameter[0].parameter.shape.extent[0] = 2; }) ==
              SpreadFault::parameter);
static_assert(fault_of_words([](auto& g) {
                --g.node[g.result].first_parameter;  // with the norm's bias
                g.node[g.result].parameters = 2;
              }) == SpreadFault::parameter);

TEST_CASE("a spread graph without one of its collectives, or with one too many, is none") {
  CHECK(check_spreads(without(dealt<Mlp, 2>, 6)) == SpreadVerdict{SpreadFault::edge, 7});
  CHECK(check_spreads(with_two(dealt<Mlp, 2>, 1)) == SpreadVerdict{SpreadFault::edge, 9});
}

// Rows of time between the pairs.
template <class Net, int N>
struct RowDealing {
  static constexpr GraphSize size = dealt_size(dealt<Net, N>, N);
  static constexpr auto graph = deal_rows<size>(dealt<Net, N>, N);
};
template <class Net, int N>
constexpr auto const& in_rows = RowDealing<Net, N>::graph;

/// Two pairs: behind both there are rows, before neither, since what is there is joined to none.
struct Apart : Body<Linear<10>, Linear<10, NoBias>, GeluTanh, RmsNorm<>, Linear<9>, LayerNorm<>,
                    Linear<10>, Linear<8>> {};
static_assert(check_spreads(in_rows<Apart, 5>).sound());

static_assert(check_spreads(in_rows<Two, 2>).sound());
static_assert(time_to_deal(graph<Two>, 2) == 6 && time_to_deal(graph<Two>, 4) == 6);
static_assert(time_to_deal(graph<Mlp>, 2) == 0);
// All is on rows but words, positions, the products and the criterion: a Deal, four Enters and
// Leaves, and a Collect.
static_assert(all_found(in_rows<Two, 2>) == 10);
static_assert(all_found(in_rows<Apart, 5>) == 6);  // a Copy, a Leave and a Collect of each
static_assert(RowDealing<Two, 2>::size.nodes == DealtOut<Two, 2>::size.nodes + 2);

TEST_CASE("between the pairs a rank has its rows") {
  auto const& own = in_rows<Two, 2>;
  char const* const names[] = {"Embedding", "Positions", "Deal",      "Dropout",   "LayerNorm",
                               "Enter",     "Linear",    "Attention", "Linear",    "Leave",
                               "Bias",      "Dropout",   "Add",       "LayerNorm", "Enter"};
  for (int n = 0; n < 15; ++n) {
    CHECK(own.node[n + 1].name == names[n]);
  }
  CHECK(own.node[find(own, "Positions")].out == timed_shape(6, 8));
  CHECK(own.node[find(own, "Deal")].out == timed_shape(3, 8));
  CHECK(own.node[find(own, "LayerNorm")].out == timed_shape(3, 8));
  CHECK(own.node[find(own, "Enter")].in == timed_shape(3, 8));
  CHECK(own.node[find(own, "Enter")].out == timed_shape(6, 8));
  CHECK(own.node[find(own, "Leave")].in == timed_shape(6, 8));
  CHECK(own.node[find(own, "Leave")].out == timed_shape(3, 8));
  CHECK(own.node[own.result].name == "Vocabulary");
  CHECK(own.node[own.nodes - 2].name == "Collect");
  int partial = 0;
  for (int p = 0; p < own.parameters; ++p) {
    GraphParameter const& parameter = own.parameter[p];
    bool const of_rows = own.node[parameter.node].sharing.dealt == Dealt::between;
    CHECK(parameter.partial == of_rows);
    CHECK((!of_rows || parameter.parameter.shape == vector_shape(8)));
    partial += of_rows ? 1 : 0;
  }
  CHECK(partial == 2 * 6 + 2);  // of a block two norms and two biases, of the last norm two
  CHECK(partial_gradients(own) == partial * 8);
  SpreadVolume const volume = spread_volume(own);
  CHECK(volume.reduces + volume.copies == 0);
  CHECK(volume.row_gathers == 4 + 4 + 2);
  CHECK(volume.row_scatters == 4 + 4);
  CHECK(volume.forward == 9 * 6 * 8);
  CHECK(volume.backward == 9 * 6 * 8);
}

template <class Change>
constexpr SpreadFault fault_in_rows(Change const& change) {
  auto own = in_rows<Two, 2>;
  change(own);
  return check_spreads(own).fault;
}

// A rank's gradient for all of it; a gradient added up that all ranks have; whole rows in a norm;
// as many rows as all have; an exchange that is no layer's.
static_assert(fault_in_rows([](auto& g) {
                g.parameter[g.node[5].first_parameter].partial = false;
              }) == SpreadFault::parameter);
static_assert(fault_in_rows([](auto& g) { g.parameter[0].partial = true; }) ==
              SpreadFault::parameter);
static_assert(fault_in_rows([](auto& g) { g.node[5].sharing.dealt = Dealt::whole; }) ==
              SpreadFault::edge);
static_assert(fault_in_rows([](auto& g) { g.node[3].out = g.node[3].in; }) == SpreadFault::shape);
static_assert(fault_in_rows([](auto& g) { g.node[6].kind = NodeKind::collect; }) ==
              SpreadFault::kind);
static_assert(fault_in_rows([](auto& g) { g.node[4].kind = NodeKind::deal; }) == SpreadFault::kind);

}  // namespace spread_test
}  // namespace tandem
