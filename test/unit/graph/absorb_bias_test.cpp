// SPDX-License-Identifier: Apache-2.0
// Which convolutions leave their bias to the batch norm behind them.

#include <string>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/host/host.hpp>
#include <tandem/tandem.hpp>

namespace tandem {
namespace absorb_bias_test {

/// Those that are absorbed, by their paths; each norm must name its convolution.
template <GraphSize Size>
std::string absorbed_in(Graph<Size> const& graph) {
  std::string paths;
  int norms = 0;
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    paths += node.fusion.absorbed ? " " + to_string(node.path) : "";
    norms += node.fusion.absorbed ? -1 : 0;
    if (node.fusion.absorbs >= 0) {
      ++norms;
      CHECK(node.layer == LayerKind::batch_norm);
      CHECK(graph.source[node.first_edge] == node.fusion.absorbs);
      CHECK(graph.node[node.fusion.absorbs].fusion.absorbed);
      CHECK(graph.node[node.fusion.absorbs].parameters == 2);
    }
  }
  CHECK(norms == 0);
  return paths;
}

template <class Net, class S, int D, Rewrites Wanted = Rewrites{.absorb_bias = true}>
std::string absorbed_on() {
  return absorbed_in(Program<Net, S, 4, Wanted>::template Device<D>::graph);
}

struct Kinds
    : Network<Image<4, 8, 8>,
              Sequential<Conv2d<4>, BatchNorm2d<>,                                           // 0
                         Conv2d<4, Kernel<3>, Stride<2>, Padding<1>, Groups<2>>,             // 2
                         SyncBatchNorm2d<>, Residual<Sequential<Conv2d<4>, BatchNorm2d<>>>,  // 3
                         Conv2d<4, NoBias>, BatchNorm2d<>, Conv2d<4>, ReLU, BatchNorm2d<>,   // 5
                         BatchNorm2d<>, Conv2d<4>, Residual<BatchNorm2d<>>,                  // 10
                         Frozen<Conv2d<4>>, BatchNorm2d<>, Conv2d<4>, Frozen<BatchNorm2d<>>>> {};

TEST_CASE("only a bias whose constant a batch norm takes out again is absorbed") {
  // Not 5 (no bias), 7 (a ReLU reads it), 11 (two read it), 13 and 15 (constants).
  CHECK(absorbed_in(absorb_bias(graph<Kinds>)) == " 0 2 4.body.0");
  CHECK(absorbed_in(graph<Kinds>).empty());
  static_assert(!rewrites_of<BasicHost<Portable>>().absorb_bias);
  static_assert(rewrites_of<BasicHost<OneDnn>>().absorb_bias && rewrites_of<Cuda>().absorb_bias);
}

TEST_CASE("nothing else of a graph changes") {
  auto const after = absorb_bias(graph<Kinds>);
  for (int p = 0; p < after.parameters; ++p) {
    CHECK(after.parameter[p].parameter.name == graph<Kinds>.parameter[p].parameter.name);
    CHECK(after.parameter[p].frozen == graph<Kinds>.parameter[p].frozen);
  }
  for (int n = 0; n < after.nodes; ++n) {
    CHECK(after.node[n].first_parameter == graph<Kinds>.node[n].first_parameter);
    CHECK(after.node[n].computes() == graph<Kinds>.node[n].computes());
    CHECK(after.node[n].out == graph<Kinds>.node[n].out);
  }
}

template <int Out, class... Options>
using Norm = Sequential<Conv2d<Out, Options...>, BatchNorm2d<>, ReLU>;

/// Tops 0 and 3 are convolutions in front of a norm, 1 and 4.
struct Cut : Network<Image<4, 8, 8>,
                     Sequential<Conv2d<4>, BatchNorm2d<>, ReLU, Conv2d<4, Kernel<3>>, BatchNorm2d<>,
                                Concat<Norm<2>, Norm<3>>, GlobalAvgPool, Linear<3>>> {};

TEST_CASE("not where another stage has the norm") {
  CHECK(absorbed_on<Cut, SingleDevice<>, 0>() == " 0 3 5.0.0 5.1.0");
  using Between = Pipeline<OneFOneB, 2, Split<4>, Split<4>>;
  CHECK(absorbed_on<Cut, Between, 0>() == " 0");
  CHECK(absorbed_on<Cut, Between, 1>() == " 5.0.0 5.1.0");
  using Chunks = Pipeline<Interleaved<2>, 2, Split<1>, Split<1>, Split<1>, Split<5>>;
  CHECK(absorbed_on<Cut, Chunks, 0>().empty());
  CHECK(absorbed_on<Cut, Chunks, 1>() == " 3 5.0.0 5.1.0");
  using Copies = Pipeline<Chimera, 2, Split<4>, Split<4>>;  // a device has both parts
  CHECK(absorbed_on<Cut, Copies, 0>() == " 0 5.0.0 5.1.0");
}

TEST_CASE("reproducible: bits do not depend on where a network is cut, so none is absorbed") {
  CHECK(absorbed_on<Cut, SingleDevice<Microbatches<2>, Reproducible<>>, 0>().empty());
}

/// A frozen norm reads one of the siblings.
struct Mixed
    : Network<Image<4, 8, 8>,
              Sequential<Concat<Norm<2>, Sequential<Conv2d<3>, Frozen<BatchNorm2d<>>>, Norm<5>>,
                         GlobalAvgPool>> {};

TEST_CASE("convolutions that become one all leave their bias out, or none does") {
  constexpr auto after = rewrite(graph<Mixed>, rewrites_of<BasicHost<OneDnn>>());
  CHECK(absorbed_in(after) == " 0.0.0 0.2.0");
  for (int n = 0; n < after.nodes; ++n) {
    CHECK((!after.node[n].fusion.merged ||
           after.node[n].fusion.absorbed == after.node[after.node[n].fusion.home].fusion.absorbed));
  }
  CHECK(after.node[1].fusion.width == 7);  // 2 and 5
  constexpr auto without = rewrite(graph<Mixed>, Rewrites{.merge_pointwise = true});
  CHECK(without.node[1].fusion.width == 10);
}

struct Google : models::GoogLeNet<10> {};

TEST_CASE("GoogLeNet: each of the 64 biases, which all stay parameters") {
  auto const after = rewrite(graph<Google>, rewrites_of<Cuda>());
  int absorbed = 0;
  for (int n = 0; n < after.nodes; ++n) {
    absorbed += after.node[n].fusion.absorbed ? 1 : 0;
  }
  CHECK(absorbed == 64);
  CHECK(after.parameter_elements() == graph<Google>.parameter_elements());
}

}  // namespace absorb_bias_test
}  // namespace tandem
