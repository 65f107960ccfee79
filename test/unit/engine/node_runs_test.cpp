// SPDX-License-Identifier: Apache-2.0
// What a compiler sees of a Transformer does not grow with its blocks, and each node has its turn.
#include <vector>

#include <doctest/doctest.h>

#include <tandem/engine/rank/op_table.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/tandem.hpp>

namespace node_runs_test {

using namespace tandem;

template <class Net, class S = SingleDevice<>, Rewrites R = Rewrites{}>
struct Of {
  using Device = typename Program<Net, S, 4, R>::template Device<0>;
  static constexpr auto const& graph = Device::graph;
  static constexpr auto const& groups = detail::op_groups<Device>;
  static constexpr auto uses = count_uses(graph);
  static constexpr auto keys = node_keys<Device>(groups, uses);
  static constexpr auto runs = find_runs<0, graph.nodes>(keys);

  static constexpr int distinct() {
    int sum = 0;
    for (int r = 0; r < runs.count; ++r) {
      sum += runs.run[r].period;
    }
    return sum;
  }
};

using Gpt12 = Of<models::Gpt2<>>;
using Gpt48 = Of<models::Gpt2Xl<>>;

// Input, words, positions; a block; the last block, whose sum has one reader; norm, criterion.
static_assert(Gpt12::distinct() == 3 + 10 + 10 + 2);
static_assert(Gpt48::distinct() == Gpt12::distinct());
static_assert(Gpt12::runs.count == 3 && Gpt12::runs.run[1].period == 10 &&
              Gpt12::runs.run[1].times == 11);
static_assert(Gpt48::groups.count == Gpt12::groups.count);
// Words, positions, norm, four products of which two are alike, attention, sum, GELU, criterion.
static_assert(Gpt12::groups.count == 2 + 1 + 3 + 1 + 1 + 1 + 1);

// A GELU that a product computes is part of the block as well; all sums are joined by norms, or
// have one reader, so that the last block is like the others.
using OnCuda = Of<models::Gpt2<>, SingleDevice<>, rewrites_of<Cuda>()>;
static_assert(OnCuda::distinct() == 3 + 10 + 2 && OnCuda::runs.run[1].times == 12);
static_assert(OnCuda::graph.node[10].view && OnCuda::graph.node[11].activated_by == 9);

// Of four slices of each layer a block has 52 nodes, and most blocks begin in the middle of 128.
using Sliced = Of<models::Gpt2<>, SingleDevice<Slices<4>, Microbatches<4>, Reproducible<>>>;
static_assert(Sliced::graph.nodes == 629 && Sliced::runs.run[1].period == 52 &&
              Sliced::runs.run[1].times == 11 && Sliced::distinct() == 81);

// What is not repeated comes in blocks that a compiler takes.
struct Distinct {
  NodeKeys<300> keys;
  NodeRuns<300> runs;
  RunBlocks<300> blocks;
  constexpr Distinct() {
    for (int n = 0; n < 300; ++n) {
      keys.of[n] = n < 200 ? n : n % 2;
    }
    runs = find_runs<0, 300>(keys);
    blocks = block_runs(runs);
  }
};
constexpr Distinct distinct;
static_assert(distinct.runs.count == 3 && distinct.runs.run[0].period == 128 &&
              distinct.runs.run[1].period == 72 && distinct.runs.run[2].times == 50);
static_assert(distinct.blocks.count == 2 && distinct.blocks.first[1] == 1 &&
              distinct.blocks.first[2] == 3);

template <class O>
void check() {
  std::vector<int> forward;
  each_node<O::runs>([&](auto node, int n) {
    forward.push_back(n);
    CHECK(O::groups.first[n] == O::groups.first[node]);
    CHECK(O::graph.node[n].parameters == O::graph.node[node].parameters);
    CHECK(adds_gradients(O::graph.node[n], O::uses.of[n]) ==
          adds_gradients(O::graph.node[node], O::uses.of[node]));
  });
  std::vector<int> backward;
  each_node_back<O::runs>([&](auto node, int n) {
    backward.push_back(n);
    CHECK(O::groups.first[n] == O::groups.first[node]);
  });
  REQUIRE(forward.size() == static_cast<std::size_t>(O::graph.nodes));
  REQUIRE(backward.size() == forward.size());
  for (int n = 0; n < O::graph.nodes; ++n) {
    CHECK(forward[static_cast<std::size_t>(n)] == n);
    CHECK(backward[static_cast<std::size_t>(n)] == O::graph.nodes - 1 - n);
  }
}

using Frozen2 = Network<Image<3, 8, 8>, Sequential<Frozen<Sequential<Conv2d<3, Kernel<1>>, ReLU>>,
                                                   Conv2d<3, Kernel<1>>, ReLU, Flatten, Linear<4>>>;

TEST_CASE("each node has its turn, in order and in reverse") {
  check<Gpt12>();
  check<OnCuda>();
  check<Sliced>();
  check<Of<models::Gpt2<>, Pipeline<OneFOneB, 8, Split<8>, Split<8>>>>();
  check<Of<models::ResNet20<10>>>();
  check<Of<Frozen2>>();
  check<Of<models::SmallCnn<10>>>();
}

TEST_CASE("what is frozen is not repeated with what is trained") {
  using O = Of<Frozen2>;
  CHECK(O::groups.first[3] == O::groups.first[1]);
  CHECK(O::keys.of[3] != O::keys.of[1]);
}

}  // namespace node_runs_test
