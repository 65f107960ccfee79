// SPDX-License-Identifier: Apache-2.0
// Which nodes may be computed at the same time.

#include <string>

#include <doctest/doctest.h>

#include <tandem/graph/branches.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/tandem.hpp>

namespace tandem {
namespace branches_test {

/// Branches of each region; none must read, or have its memory in, another of its region.
template <GraphSize Size>
std::string counts(Graph<Size> const& graph, Branches const& found) {
  std::string text;
  for (int r = 0; r < found.count; ++r) {
    text += " " + std::to_string(found.region[r].branches);
  }
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    for (int e = 0; e < node.edges && !node.fusion.merged; ++e) {
      CHECK(!found.apart(n, graph.source[node.first_edge + e]));
    }
    if (node.fusion.home >= 0) {
      CHECK(!found.apart(n, node.fusion.home));
    }
    if (found.inside(n)) {
      CHECK(found.first[n] <= n);
      CHECK(n <= found.last[n]);
    } else {
      CHECK(found.stream[n] == 0);
    }
  }
  return text;
}
template <class Net>
std::string plain() {
  return counts(graph<Net>, Branches{graph<Net>, 8});
}
/// As a GPU with cuDNN has it.
template <class Net>
std::string on_gpu() {
  static constexpr auto rewritten = rewrite(graph<Net>, BasicCuda<CuDnn>::rewrites);
  return counts(rewritten, Branches{rewritten, 8});
}

using Conv = Conv2d<4, Kernel<3>, Padding<1>>;

TEST_CASE("an Inception module has four branches, merged 1x1 convolutions or not") {
  CHECK(plain<models::GoogLeNet<10>>() == " 4 4 4 4 4 4 4 4 4");
  CHECK(on_gpu<models::GoogLeNet<10>>() == " 4 4 4 4 4 4 4 4 4");
}

TEST_CASE("Inception-V3: the outermost join of a module counts, the spread within is one branch") {
  CHECK(plain<models::InceptionV3<10>>() == " 4 4 3 4 4 4 4 3 4 4 4");
  CHECK(on_gpu<models::InceptionV3<10>>() == " 4 4 3 4 4 4 4 3 4 4 4");
}

TEST_CASE("a ResNet has two branches where a shortcut computes, and none where it does not") {
  CHECK(plain<models::ResNet20<10>>() == " 2 2");
  CHECK(plain<Network<Image<4, 6, 6>,
                      Sequential<Residual<Sequential<Conv, ReLU>>, Residual<Conv, Conv2d<4>>>>>() ==
        " 2");
}

TEST_CASE("what is joined within a branch of nobody else is a region of its own") {
  using Inner = Sequential<Conv, Concat<Conv, Conv, MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>>>;
  CHECK(plain<Network<Image<4, 6, 6>, Sequential<Residual<Sequential<Inner, Conv>>>>>() == " 3");
}

TEST_CASE("what is added up over the replicas, and a chain, run alone") {
  CHECK(plain<Network<Image<4, 6, 6>,
                      Concat<Sequential<Conv, SyncBatchNorm2d<>>, Sequential<Conv, ReLU>>>>() ==
        "");
  CHECK(plain<Network<Image<4, 6, 6>, Sequential<Conv, ReLU, Conv>>>() == "");
}

TEST_CASE("streams share the work of the branches; the longest is of one that has nothing else") {
  struct Net : Network<Image<4, 6, 6>, Concat<ReLU, Sequential<Conv, Conv, Conv>, Conv2d<4>,
                                              Sequential<Conv2d<4>, Conv2d<4>>>> {};
  static constexpr auto const& graph = tandem::graph<Net>;
  Branches const two{graph, 2};
  REQUIRE(two.count == 1);
  std::string streams;
  for (int n = 0; n < graph.nodes; ++n) {
    streams += std::to_string(two.stream[n]);
  }
  CHECK(streams == "010001110");  // the input, ..., the join
  Branches const one{graph, 1};
  CHECK(one.count == 1);
  for (int n = 0; n < graph.nodes; ++n) {
    CHECK(one.stream[n] == 0);
  }
}

struct Fork : Network<Image<2, 3, 3>, Concat<Conv2d<1>, Conv2d<2>>> {};
static_assert(Branches{graph<Fork>, 2}.count == 1);

}  // namespace branches_test
}  // namespace tandem
