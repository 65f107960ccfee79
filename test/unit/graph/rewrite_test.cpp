// SPDX-License-Identifier: Apache-2.0
// Rewrites keep every node, edge and parameter; they only change what an op does.

#include <tandem/graph/rewrite.hpp>

#include <doctest/doctest.h>

#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/host/host.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {
namespace rewrite_test {

struct Plain : Network<Image<3, 4, 4>, Sequential<Conv2d<2>, BatchNorm2d<>, ReLU, ReLU, Conv2d<4>,
                                                  ReLU, Flatten, Linear<3>, Flatten>> {};
constexpr auto plain = graph<Plain>;
constexpr auto fused = fuse_relu(plain);

static_assert(fused.node[2].fusion.relu && fused.node[3].view);    // BatchNorm2d, ReLU
static_assert(!fused.node[3].fusion.relu && !fused.node[4].view);  // the ReLU behind them stays
static_assert(!fused.node[5].fusion.relu && !fused.node[6].view);  // Conv2d, ReLU: no batch norm
static_assert(!plain.node[2].fusion.relu && !plain.node[3].view);

/// The batch norm's output is read twice, so what is before its ReLU must stay.
struct Forked
    : Network<Image<2, 4, 4>, Sequential<BatchNorm2d<>, Residual<Sequential<ReLU, Conv2d<2>>>>> {};
static_assert(!fuse_relu(graph<Forked>).node[1].fusion.relu);
static_assert(!fuse_relu(graph<Forked>).node[2].view);

constexpr auto last = materialise_flatten(plain);
static_assert(plain.node[7].view && !last.node[7].view);  // (4, 4, 4) to (64)
static_assert(plain.node[9].view && last.node[9].view);   // (3) to (3)

struct OneChannel : Network<Image<1, 4, 4>, Sequential<Flatten, Linear<3>>> {};
struct OnePixel : Network<Image<5, 1, 1>, Sequential<Flatten, Linear<3>>> {};
static_assert(materialise_flatten(graph<OneChannel>).node[1].view);  // the same order in memory
static_assert(materialise_flatten(graph<OnePixel>).node[1].view);

static_assert(!rewrites_of<BasicHost<Portable>>().fuse_relu &&
              !rewrites_of<BasicHost<Portable>>().channels_last);
static_assert(rewrites_of<Cuda>().fuse_relu && rewrites_of<Cuda>().channels_last);

/// Three siblings of which one has a bias, one is strided, and one is read by no batch norm.
template <int Out, class... Options>
using Norm = Sequential<Conv2d<Out, Options...>, BatchNorm2d<>, ReLU>;
struct Siblings
    : Network<Image<4, 4, 4>,
              Sequential<Concat<Norm<2>, Norm<3>, Norm<5, NoBias>, Conv2d<7>,
                                Sequential<MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>, Norm<6>>>,
                         Conv2d<3>>> {};
constexpr auto merged = merge_pointwise(fuse_relu(graph<Siblings>));
static_assert(merged.node[1].fusion.width == 5 && !merged.node[1].fusion.merged);  // 2 + 3
static_assert(merged.node[4].fusion.merged && merged.node[4].fusion.home == 1 &&
              merged.node[4].computes() == false);
static_assert(first_channel_of(merged, 4) == 2 && stored_channels(merged, 4) == 5);
static_assert(stored_channels(merged, 1) == 5 && stored_channels(merged, 5) == 3);
static_assert(!merged.node[7].fusion.merged &&
              merged.node[7].fusion.width == 0);  // no bias: other parameters
static_assert(!merged.node[10].fusion.merged &&
              merged.node[10].fusion.width == 0);  // its reader is a Concat
static_assert(!merged.node[12].fusion.merged &&
              merged.node[12].fusion.width == 0);             // another input
static_assert(!place_concat(merged).node[15].fusion.placed);  // a convolution cannot

struct Branches
    : Network<Image<4, 4, 4>,
              Sequential<
                  Concat<Norm<2>, Concat<Norm<3>, BatchNorm2d<>>, MaxPool2d<Kernel<1>>>,
                  Residual<Concat<Norm<3>, Sequential<BatchNorm2d<>, ReLU, ReLU>>, Conv2d<16>>>> {};
constexpr auto placed = place_concat(fuse_relu(graph<Branches>));
static_assert(placed.node[8].fusion.placed &&
              placed.node[10].fusion.placed);  // the inner and the outer
static_assert(first_channel_of(placed, 3) == 0 && stored_channels(placed, 3) == 13);
static_assert(root_of(placed, 6) == 10 && first_channel_of(placed, 6) == 2);  // a ReLU
static_assert(root_of(placed, 7) == 10 && first_channel_of(placed, 7) == 5);
static_assert(root_of(placed, 8) == 10 && first_channel_of(placed, 8) == 2);
static_assert(root_of(placed, 9) == 10 && first_channel_of(placed, 9) == 9);
static_assert(placed.node[10].out[0] == 13);
static_assert(!placed.node[17].fusion.placed);  // a ReLU of its own does not write slices

/// A GELU between products; one that is read twice; one behind a product and before no other; a
/// GELU of the other kind; what is no product's.
struct Products : Network<Image<8, 1, 1>,
                          Sequential<Flatten, Linear<4>, GeluTanh, Linear<4>, ReLU, Linear<4>,
                                     Residual<Sequential<GeluTanh, Linear<4>>>, Linear<4>, GeluTanh,
                                     Dropout<>, Linear<4>, Gelu, Linear<4>, Dropout<>, ReLU>> {};
constexpr auto products = fuse_linear(graph<Products>);
static_assert(products.node[2].fusion.gelu && !products.node[2].fusion.relu &&
              products.node[3].view && products.node[4].fusion.activated_by == 2);
static_assert(products.node[4].fusion.relu && !products.node[4].fusion.gelu &&
              !products.node[5].view);
static_assert(products.node[5].fusion.activated_by == 4 && root_of(products, 5) == 4);
static_assert(products.node[6].fusion.activated_by == -1);
static_assert(!products.node[6].fusion.gelu && products.node[7].fusion.activated_by == -1);
static_assert(products.node[10].fusion.gelu && !products.node[11].view &&
              products.node[11].fusion.activated_by == 10 && root_of(products, 11) == 10);
static_assert(!products.node[13].fusion.gelu && products.node[14].fusion.activated_by == -1);
static_assert(products.node[17].fusion.activated_by == -1 && root_of(products, 17) == 17);
static_assert(rewrites_of<Cuda>().fuse_linear && !rewrites_of<BasicHost<OneDnn>>().fuse_linear);

constexpr int cut[] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3};
constexpr auto apart = fuse_linear(graph<Products>, cut);  // runs that are computed again
static_assert(!apart.node[2].fusion.gelu && apart.node[4].fusion.activated_by == -1);
static_assert(apart.node[4].fusion.relu && apart.node[5].fusion.activated_by == 4);
static_assert(!apart.node[10].fusion.gelu && apart.node[11].fusion.activated_by == -1);

/// A sum, of what is dropped and not, in front of a norm; one whose dropout is read twice, one in
/// front of another layer, and one that a norm reads later.
template <class... Parts>
using Twice = Residual<Sequential<Linear<8>, Parts...>>;
struct Sums
    : Network<Vector<8>, Sequential<Twice<Dropout<Percent<20>>>, LayerNorm<>, Twice<>, RmsNorm<>,
                                    Linear<8>, Dropout<>, Residual<Sequential<>>, LayerNorm<>,
                                    Twice<>, Residual<Sequential<Linear<8>, LayerNorm<>>>>> {};
constexpr auto sums = fuse_sum(graph<Sums>);
static_assert(sums.node[2].fusion.summed_by == 4 && sums.node[2].computes() &&
              root_of(sums, 2) == 1);
static_assert(sums.node[3].fusion.summed_by == 4 && sums.node[4].fusion.sums == 3);
static_assert(sums.node[2].rate == 0.2 && sums.node[3].rate == 0.0);
static_assert(!sums.node[3].fusion.joined);  // nobody else has a gradient for it
static_assert(sums.node[5].fusion.summed_by == -1 && sums.node[6].fusion.summed_by == 7 &&
              sums.node[7].fusion.sums == 6);
static_assert(sums.node[9].fusion.summed_by == -1 && root_of(sums, 9) == 9 &&
              sums.node[10].fusion.summed_by == 11);
static_assert(sums.node[13].kind == NodeKind::add && sums.node[13].fusion.summed_by == -1);
static_assert(sums.node[15].fusion.sums == -1);
static_assert(rewrites_of<Cuda>().fuse_sum && !rewrites_of<BasicHost<OneDnn>>().fuse_sum);

constexpr int sum_cut[] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static_assert(fuse_sum(graph<Sums>, sum_cut).node[3].fusion.summed_by == -1);
constexpr int dropout_cut[] = {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static_assert(fuse_sum(graph<Sums>, dropout_cut).node[3].fusion.summed_by == 4 &&
              fuse_sum(graph<Sums>, dropout_cut).node[2].fusion.summed_by == -1);

struct Google : models::GoogLeNet<10> {};

TEST_CASE("GoogLeNet: every batch norm takes its ReLU, and nothing else changes") {
  auto const& before = graph<Google>;
  auto const after = rewrite(before, {.fuse_relu = true, .channels_last = true});
  int norms = 0;
  for (int n = 0; n < before.nodes; ++n) {
    norms += before.node[n].layer == LayerKind::batch_norm ? 1 : 0;
    CHECK(after.node[n].fusion.relu == (before.node[n].layer == LayerKind::batch_norm));
    CHECK(after.node[n].view == (before.node[n].view || before.node[n].layer == LayerKind::relu));
    CHECK(after.node[n].out == before.node[n].out);
    CHECK(after.node[n].first_parameter == before.node[n].first_parameter);
    CHECK(after.node[n].first_edge == before.node[n].first_edge);
  }
  CHECK(norms == 64);  // one behind each convolution
}

TEST_CASE("GoogLeNet: three convolutions of each inception become one, and no Concat copies") {
  auto const after = rewrite(graph<Google>, rewrites_of<BasicHost<OneDnn>>());
  int leaders = 0;
  int members = 0;
  for (int n = 0; n < after.nodes; ++n) {
    leaders += after.node[n].fusion.width > 0 ? 1 : 0;
    members += after.node[n].fusion.merged ? 1 : 0;
    CHECK(after.node[n].fusion.placed == (after.node[n].kind == NodeKind::concat));
  }
  CHECK(leaders == 9);
  CHECK(members == 18);
}

TEST_CASE("a bucket closes when its merged convolutions are through") {
  constexpr auto after = rewrite(graph<Google>, rewrites_of<BasicHost<OneDnn>>());
  constexpr auto layout = lay_out_parameters(after, 4, 1, 1);  // as often as can be
  for (int n = 0; n < after.nodes; ++n) {
    if (after.node[n].fusion.merged) {
      for (int m = after.node[n].fusion.home + 1; m <= n; ++m) {
        CHECK(layout.closes[m] == -1);
      }
      CHECK(layout.closes[after.node[n].fusion.home] >= 0);
    }
  }
  CHECK(layout.elements == lay_out_parameters(graph<Google>, 4, 1, 1).elements);
}

}  // namespace rewrite_test
}  // namespace tandem
