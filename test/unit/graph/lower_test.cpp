// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>

#include <own_parts.hpp>

namespace lower_test {

using namespace tandem;

struct Conv3x3 : Conv2d<4, Kernel<3>, Padding<1>> {};

struct Net : Network<Image<2, 8, 8>,
                     Sequential<Conv3x3,                                         // node 1
                                Concat<Conv2d<3>, Sequential<ReLU, Conv2d<5>>>,  // 2, 3 4, 5
                                Residual<Sequential<Conv2d<8>, BatchNorm2d<>>>,  // 6 7, 8
                                Residual<Conv2d<6>, Conv2d<6>>,                  // 9, 10, 11
                                Flatten, Linear<10>>> {};                        // 12, 13

static_assert(graph<Net>.nodes == 14 && graph<Net>.edges == 16);
static_assert(graph<Net>.tops == 6 && graph<Net>.fault == Fault::none);
static_assert(graph<Net>.output().out == vector_shape(10));
static_assert(&graph<Net> == &unchecked_graph<Net>);

std::vector<int> inputs(int n) {
  Node const& node = graph<Net>.node[n];
  int const* const first = graph<Net>.source + node.first_edge;
  return {first, first + node.edges};
}

TEST_CASE("nodes, kinds and names") {
  char const* const names[] = {"Input",  "Conv2d", "Conv2d",      "ReLU",  "Conv2d",
                               "Concat", "Conv2d", "BatchNorm2d", "Add",   "Conv2d",
                               "Conv2d", "Add",    "Flatten",     "Linear"};
  for (int n = 0; n < graph<Net>.nodes; ++n) {
    CAPTURE(n);
    CHECK(graph<Net>.node[n].name == names[n]);
  }
  CHECK(graph<Net>.node[0].kind == NodeKind::input);
  CHECK(graph<Net>.node[1].kind == NodeKind::layer);
  CHECK(graph<Net>.node[5].kind == NodeKind::concat);
  CHECK(graph<Net>.node[8].kind == NodeKind::add);
}

struct Gate : Network<Vector<4>, Sequential<Linear<3>, Multiply<Frozen<Linear<3>>, Sequential<>,
                                                                Sequential<Linear<3>, ReLU>>>> {};

TEST_CASE("a product is a node that reads the values of its branches again") {
  auto const& g = graph<Gate>;
  REQUIRE(g.nodes == 6);  // input, Linear, two of the branches, ReLU, Multiply
  CHECK(g.edges == 7);
  Node const& product = g.node[5];
  CHECK(product.kind == NodeKind::multiply);
  CHECK(product.name == "Multiply");
  CHECK(product.edges == 3);
  CHECK(g.source[product.first_edge] == 2);
  CHECK(g.source[product.first_edge + 1] == 1);
  CHECK(g.source[product.first_edge + 2] == 4);
  CHECK(product.out == vector_shape(3));
  CHECK(product.needs_gradient);
  CHECK(product.kept.known);
  CHECK(product.kept.input);
  CHECK(gives_input_gradient(g, 5));
  CHECK(parameter_name(g, 4) == "1.2.0.weight");
}

TEST_CASE("edges: joins have one input a branch, an identity shortcut the value itself") {
  CHECK(inputs(0).empty());
  CHECK(inputs(1) == std::vector{0});
  CHECK(inputs(2) == std::vector{1});
  CHECK(inputs(3) == std::vector{1});
  CHECK(inputs(4) == std::vector{3});
  CHECK(inputs(5) == std::vector{2, 4});
  CHECK(inputs(6) == std::vector{5});
  CHECK(inputs(8) == std::vector{7, 5});
  CHECK(inputs(9) == std::vector{8});
  CHECK(inputs(10) == std::vector{8});
  CHECK(inputs(11) == std::vector{9, 10});
}

TEST_CASE("shapes") {
  CHECK(graph<Net>.node[0].out == image_shape(2, 8, 8));
  CHECK(graph<Net>.node[1].out == image_shape(4, 8, 8));
  CHECK(graph<Net>.node[5].out == image_shape(8, 8, 8));  // 3 + 5 channels
  CHECK(graph<Net>.node[11].out == image_shape(6, 8, 8));
  CHECK(graph<Net>.node[12].out == vector_shape(6 * 8 * 8));
  CHECK(graph<Net>.node[13].in == vector_shape(6 * 8 * 8));
}

TEST_CASE("top-level parts, as Split counts them") {
  int const tops[] = {0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5};
  for (int n = 1; n < graph<Net>.nodes; ++n) {
    CAPTURE(n);
    CHECK(graph<Net>.node[n].top == tops[n]);
  }
}

TEST_CASE("paths and names of parameters") {
  char const* const paths[] = {"",         "0", "1.0",    "1.1.0",      "1.1.1", "1", "2.body.0",
                               "2.body.1", "2", "3.body", "3.shortcut", "3",     "4", "5"};
  for (int n = 0; n < graph<Net>.nodes; ++n) {
    CHECK(to_string(graph<Net>.node[n].path) == paths[n]);
  }
  std::vector<std::string> names;
  for (int p = 0; p < graph<Net>.parameters; ++p) {
    names.push_back(parameter_name(graph<Net>, p));
  }
  CHECK(names == std::vector<std::string>{
                     "0.weight", "0.bias", "1.0.weight", "1.0.bias", "1.1.1.weight", "1.1.1.bias",
                     "2.body.0.weight", "2.body.0.bias", "2.body.1.weight", "2.body.1.bias",
                     "2.body.1.running_mean", "2.body.1.running_var", "3.body.weight",
                     "3.body.bias", "3.shortcut.weight", "3.shortcut.bias", "5.weight", "5.bias"});
}

TEST_CASE("a layer alone is a network, and its parameters have short names") {
  struct Alone : Network<Vector<3>, Linear<2>> {};
  CHECK(graph<Alone>.nodes == 2);
  CHECK(graph<Alone>.tops == 1);
  CHECK(parameter_name(graph<Alone>, 0) == "weight");
}

TEST_CASE("a nested Sequential counts as one top-level part") {
  struct Nested : Network<Vector<3>, Sequential<Sequential<ReLU, ReLU>, ReLU>> {};
  CHECK(graph<Nested>.tops == 2);
  CHECK(graph<Nested>.node[2].top == 0);
  CHECK(graph<Nested>.node[3].top == 1);
}

TEST_CASE("an empty Sequential is the identity") {
  struct Identity : Network<Vector<3>, Sequential<>> {};
  CHECK(graph<Identity>.nodes == 1);
  CHECK(graph<Identity>.output().out == vector_shape(3));
}

TEST_CASE("gradients: none before the first trained layer, none of frozen parameters") {
  struct Half
      : Network<Image<2, 4, 4>, Sequential<ReLU, Frozen<Sequential<Conv2d<4>, BatchNorm2d<>>>, ReLU,
                                           Conv2d<4>, Frozen<Conv2d<4>>, ReLU>> {};
  auto const& g = graph<Half>;
  bool const needs[] = {false, false, false, false, false, true, true, true};
  bool const frozen[] = {false, false, true, true, false, false, true, false};
  for (int n = 0; n < g.nodes; ++n) {
    CAPTURE(n);
    CHECK(g.node[n].needs_gradient == needs[n]);
    CHECK(g.node[n].frozen == frozen[n]);
  }
  CHECK_FALSE(g.node[3].normalizes);  // by its running statistics
  CHECK(graph<Net>.node[7].normalizes);
  for (int p = 0; p < g.parameters; ++p) {
    CHECK(g.parameter[p].frozen == frozen[g.parameter[p].node]);
  }
  CHECK(parameter_name(g, 0) == "1.0.weight");  // Frozen adds nothing to a name
}

TEST_CASE("a join needs a gradient if one of its inputs does") {
  struct Mixed
      : Network<Image<2, 4, 4>,
                Sequential<Concat<Frozen<Conv2d<2>>, Conv2d<2>>, Residual<Frozen<Conv2d<4>>>>> {};
  struct Cold : Network<Image<2, 4, 4>, Concat<ReLU, Frozen<Conv2d<2>>>> {};
  CHECK_FALSE(graph<Mixed>.node[1].needs_gradient);
  CHECK(graph<Mixed>.node[2].needs_gradient);
  CHECK(graph<Mixed>.node[3].needs_gradient);
  CHECK(graph<Mixed>.node[5].needs_gradient);
  CHECK_FALSE(graph<Cold>.output().needs_gradient);
}

TEST_CASE("a Join is a node of its rule, behind its branches") {
  struct Gated
      : Network<Image<2, 4, 4>,
                Sequential<ReLU, Join<test::OwnProduct, Conv2d<2>, Sequential<>>, Conv2d<3>>> {};
  auto const& g = graph<Gated>;
  REQUIRE(g.nodes == 5);
  CHECK(g.node[3].kind == NodeKind::layer);
  CHECK(g.node[3].name == "OwnProduct");
  CHECK(g.node[3].edges == 2);
  CHECK(g.source[g.node[3].first_edge] == 2);
  CHECK(g.source[g.node[3].first_edge + 1] == 1);
  CHECK(g.node[3].out == image_shape(2, 4, 4));
  CHECK(g.node[3].needs_gradient);
  CHECK_FALSE(g.node[1].needs_gradient);
  CHECK(parameter_name(g, 0) == "1.0.weight");
  static_assert(std::is_same_v<Leaf<Gated, 2>, test::OwnProduct>);
  static_assert(std::is_same_v<Leaf<Gated, 3>, Conv2d<3>>);
  struct Apart : Network<Image<2, 4, 4>, Join<test::OwnProduct, Conv2d<5>, Sequential<>>> {};
  CHECK(unchecked_graph<Apart>.fault == Fault::join_shapes);
  CHECK(unchecked_graph<Apart>.fault_a == 5);
  CHECK(unchecked_graph<Apart>.fault_b == 2);
  struct Three : Network<Vector<4>, Join<test::OwnProduct, ReLU, ReLU, ReLU>> {};
  CHECK(unchecked_graph<Three>.fault == Fault::join_shapes);
  struct Indices : Network<Tokens<4, 9>, Join<test::OwnProduct, Sequential<>, Sequential<>>> {};
  CHECK(unchecked_graph<Indices>.fault == Fault::indices);
}

TEST_CASE("views are marked and their elements not counted") {
  CHECK(graph<Net>.node[12].view);
  CHECK_FALSE(graph<Net>.node[11].view);
  std::int64_t const maps = 4 + 3 + 4 + 5 + 8 + 8 + 8 + 8 + 6 + 6 + 6;
  CHECK(graph<Net>.activation_elements() == maps * 64 + 10);
  CHECK(graph<Net>.activation_bytes() == 4 * (maps * 64 + 10));
}

TEST_CASE("weights are counted, statistics are not") {
  std::int64_t const by_hand = (4 * 2 * 9 + 4) + (3 * 4 + 3) + (5 * 4 + 5) + (8 * 8 + 8) + 2 * 8 +
                               2 * (6 * 8 + 6) + (10 * 384 + 10);
  CHECK(graph<Net>.parameter_elements() == by_hand);
  std::int64_t const macs = 64 * (4 * 2 * 9 + 3 * 4 + 5 * 4 + 8 * 8 + 2 * 6 * 8) + 10 * 384;
  CHECK(graph<Net>.macs() == macs);
}

TEST_CASE("faults name the first node at fault and its numbers") {
  struct TooLarge : Network<Image<2, 4, 4>, Sequential<ReLU, Conv2d<2, Kernel<5>>, Linear<3>>> {};
  CHECK(unchecked_graph<TooLarge>.fault == Fault::window_too_large);
  CHECK(unchecked_graph<TooLarge>.fault_node == 2);
  struct Uneven : Network<Image<2, 4, 4>, Concat<ReLU, Conv2d<2, Kernel<2>>>> {};
  CHECK(unchecked_graph<Uneven>.fault == Fault::concat_shapes);
  CHECK(unchecked_graph<Uneven>.fault_a == 4);
  CHECK(unchecked_graph<Uneven>.fault_b == 3);
  struct Differ : Network<Image<2, 4, 4>, Residual<Conv2d<5>>> {};
  CHECK(unchecked_graph<Differ>.fault == Fault::residual_shapes);
  CHECK(unchecked_graph<Differ>.fault_a == 5);
  CHECK(unchecked_graph<Differ>.fault_b == 2);
  struct Empty : Network<Image<2, 0, 4>, ReLU> {};
  CHECK(unchecked_graph<Empty>.fault == Fault::no_input);
}

struct Early;
struct Late;

/// Nodes: 1 ReLU, named; 2 Conv2d, named; 3 Concat of 1 and 2; 4 Conv2d; 5 Add of 4 and 2.
struct Named
    : Network<Image<2, 4, 4>,
              Sequential<ReLU, Let<Early>, Conv2d<3>, Let<Late>, Concat<Use<Early>, Sequential<>>,
                         Conv2d<3>, Residual<Sequential<>, Use<Late>>>> {};

TEST_CASE("a name is no node and no top-level part, and its readers read the value itself") {
  auto const& named = graph<Named>;
  CHECK(named.nodes == 6);
  CHECK(named.edges == 7);
  CHECK(named.tops == 5);
  CHECK(std::vector<int>(named.source, named.source + 7) == std::vector<int>{0, 1, 1, 2, 3, 4, 2});
  for (int n = 0; n < named.nodes; ++n) {
    CHECK(named.node[n].named == (n == 1 || n == 2));
  }
  CHECK(to_string(named.node[4].path) == "5");  // names count parts as they are written
}

TEST_CASE("names at fault are faults of the network") {
  struct Unknown : Network<Image<2, 4, 4>, Sequential<ReLU, Concat<Use<Early>, ReLU>>> {};
  CHECK(unchecked_graph<Unknown>.fault == Fault::no_let);
  struct Behind : Network<Image<2, 4, 4>, Sequential<Concat<Use<Early>, ReLU>, Let<Early>>> {};
  CHECK(unchecked_graph<Behind>.fault == Fault::no_let);
  struct Again : Network<Image<2, 4, 4>, Sequential<ReLU, Let<Early>, ReLU, Let<Early>>> {};
  CHECK(unchecked_graph<Again>.fault == Fault::let_twice);
  struct PassedOver
      : Network<Image<2, 4, 4>, Sequential<ReLU, Let<Early>, ReLU, Use<Early>, Conv2d<3>>> {};
  CHECK(unchecked_graph<PassedOver>.fault == Fault::unread);
  CHECK(unchecked_graph<PassedOver>.fault_node == 2);
  struct EndsEarly : Network<Image<2, 4, 4>, Sequential<ReLU, Let<Early>, ReLU, Use<Early>>> {};
  CHECK(unchecked_graph<EndsEarly>.fault == Fault::unread);
  struct Nobody : Network<Image<2, 4, 4>, Sequential<ReLU, Let<Early>, Conv2d<3>>> {};
  CHECK(graph<Nobody>.fault == Fault::none);  // a name that nobody uses
}

}  // namespace lower_test
