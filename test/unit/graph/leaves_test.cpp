// SPDX-License-Identifier: Apache-2.0
#include <concepts>

#include <doctest/doctest.h>

#include <tandem/graph/leaves.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/models/googlenet.hpp>

namespace leaves_test {

using namespace tandem;

struct Conv3x3 : Conv2d<4, Kernel<3>, Padding<1>> {};
struct Own {  // a user's layer, without the name `layer`
  static constexpr std::string_view name = "Own";
  static constexpr Shape output(Shape in) { return in; }
};
struct Block : Sequential<Conv3x3, ReLU> {};
struct Net : Network<Image<4, 8, 8>, Sequential<Own, Residual<Block, Conv2d<4>>,
                                                Concat<ReLU, Frozen<Conv2d<3>>>, Flatten>> {};

using Conv3x3Itself = Conv2d<4, Kernel<3>, Padding<1>>;
static_assert(
    std::same_as<Leaves<Net::body>,
                 TypeList<Own, Conv3x3Itself, ReLU, Conv2d<4>, ReLU, Conv2d<3>, Flatten>>);
static_assert(std::same_as<Leaf<Net, 0>, Own>);
static_assert(std::same_as<Leaf<Net, 1>, Conv3x3Itself>);  // a derived layer is the one it is
static_assert(std::same_as<Leaf<Net, 5>, Conv2d<3>>);
static_assert(Leaves<Sequential<>>::size == 0);
static_assert(std::same_as<Leaves<ReLU>, TypeList<ReLU>>);

TEST_CASE("a node's leaf is the layer of its name and shape") {
  CHECK(graph<Net>.node[2].leaf == 1);
  CHECK(graph<Net>.node[2].name == Leaf<Net, 1>::name);
  int next = 0;
  for (Node const& node : graph<models::GoogLeNet<10>>.node) {
    if (node.kind == NodeKind::layer) {
      CHECK(node.leaf == next++);
    } else {
      CHECK(node.leaf == -1);
    }
  }
  CHECK(next == Leaves<models::GoogLeNet<10>::body>::size);
}

}  // namespace leaves_test
