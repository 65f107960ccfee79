// SPDX-License-Identifier: Apache-2.0
// Images in tiles: which layers are computed so, what a rank's graph is, and that no other passes.

#include <doctest/doctest.h>

#include <string_view>

#include <tandem/graph/lower.hpp>
#include <tandem/graph/spread/tile_check.hpp>
#include <tandem/graph/spread/tile_rewrite.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/group_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/resnet_imagenet.hpp>

namespace tandem {
namespace tiles_test {

template <int H, int W, class... Parts>
struct Of : Network<Image<2, H, W>, Sequential<Parts...>> {};
using Conv = Conv2d<3, Kernel<3>, Padding<1>>;
using Halve = Conv2d<3, Kernel<3>, Padding<1>, Stride<2>>;

template <class Net>
constexpr int windows(Extent2d tiles) {
  return plan_tiles(graph<Net>, tiles).windows;
}

// Where tiles divide what is read and what is given, by as much as the stride makes of it.
static_assert(windows<Of<8, 8, Conv>>({2, 2}) == 1 && windows<Of<7, 8, Conv>>({2, 2}) == 0);
static_assert(windows<Of<7, 8, Conv>>({1, 2}) == 1 && windows<Of<6, 6, Halve>>({2, 1}) == 0);
static_assert(windows<Of<8, 8, Halve>>({2, 2}) == 1 && windows<Of<8, 8, Halve>>({4, 4}) == 1);
static_assert(windows<Of<8, 8, Conv2d<3, Kernel<3>>>>({2, 2}) == 0);  // 6 of 8
static_assert(windows<Of<8, 8, Conv2d<3, Kernel<7>, Padding<3>>>>({2, 2}) == 1);
static_assert(windows<Of<8, 8, Conv2d<3, Kernel<7>, Padding<3>>>>({4, 1}) == 0);  // halos of two
static_assert(windows<Of<8, 8, Conv2d<3, Kernel<2>, Stride<2>>>>({2, 2}) == 1);
static_assert(windows<Of<8, 8, Conv2d<3, Stride<2>>>>({2, 2}) == 1);
static_assert(windows<Of<8, 8, Conv2d<3, Kernel<3>, Padding<2>, Dilation<2>>>>({2, 2}) == 1);
static_assert(windows<Of<8, 8, AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>>>({2, 2}) == 1);
static_assert(
    windows<Of<8, 8, AvgPool2d<Kernel<3>, Stride<1>, Padding<1>, ExcludePadding>>>({2, 2}) == 0);
// What sums up pixels or drops some is whole; all that is behind it, too, but for windows.
static_assert(plan_tiles(graph<Of<8, 8, Conv, Gelu, GroupNorm<1>, ReLU, Conv>>, {2, 2}).tiled[2] &&
              !plan_tiles(graph<Of<8, 8, Conv, Gelu, GroupNorm<1>, ReLU, Conv>>, {2, 2}).tiled[4]);
static_assert(windows<Of<8, 8, Conv, GroupNorm<1>, ReLU, Conv>>({2, 2}) == 2);
// Of ResNet-50 all but the last blocks, of 7×7.
static_assert(windows<models::GoogLeNet<10>>({2, 2}) == 1 + 9 * 8 + 2);
static_assert(windows<models::ResNet50<10>>({2, 2}) == 54 - 9);

template <class Net, int H, int W>
struct Tiling {
  static constexpr GraphSize size = tiled_size(graph<Net>, {H, W});
  static constexpr auto graph = spread_tiles<size>(tandem::graph<Net>, {H, W});
};
template <class Net, int H, int W>
constexpr auto const& tiled = Tiling<Net, H, W>::graph;

struct Small : Of<8, 8, Conv, BatchNorm2d<>, ReLU, MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>,
                  Residual<Conv>, GlobalAvgPool, Linear<4>> {};

static_assert(check_tiles(tiled<Small, 2, 2>).sound() && check_tiles(graph<Small>).sound());
static_assert(check_tiles(tiled<models::GoogLeNet<10>, 2, 1>).sound());

TEST_CASE("a rank's graph has its tiles, and exchanges where it wants more") {
  auto const& own = tiled<Small, 2, 2>;
  char const* const names[] = {"Input",  "Cut",           "Conv2d", "BatchNorm2d", "ReLU",
                               "Halo",   "MaxPool2d",     "Halo",   "Conv2d",      "Add",
                               "Gather", "GlobalAvgPool", "Linear"};
  REQUIRE(own.nodes == 13);
  for (int n = 0; n < own.nodes; ++n) {
    CHECK(own.node[n].name == names[n]);
  }
  CHECK(own.node[1].out == image_shape(2, 6, 6));
  CHECK(own.node[1].sharing.dealt == Dealt::cut_widened);
  CHECK(own.node[2].out == image_shape(3, 4, 4));
  CHECK(own.node[3].joins_tiles());
  CHECK(own.node[5].out ==
        image_shape(3, 5, 5));  // a stride of 2 reads one row before, none behind
  CHECK(own.node[5].sharing.halo == Halo{1, 0, 1, 0, true});
  CHECK(own.node[6].out == image_shape(3, 2, 2));
  CHECK(own.node[9].sharing.dealt == Dealt::tiled);
  CHECK(own.node[10].out == image_shape(3, 4, 4));
  CHECK(own.node[11].sharing.dealt == Dealt::whole);
  CHECK(own.node[2].macs * 4 == graph<Small>.node[1].macs);
  CHECK(own.parameter_elements() == graph<Small>.parameter_elements());
  CHECK_FALSE(own.node[1].needs_gradient);  // of the network's input nobody wants one
}

TEST_CASE("what tiles have in common") {
  TileBox const second = tile_box(1, {2, 2}, {4, 4}, {1, 1, 1, 1});
  CHECK(second == TileBox{-1, 3, {6, 6}});
  CHECK(common_box(second, tile_box(2, {2, 2}, {4, 4})) == TileBox{4, 3, {1, 1}});
  CHECK(common_box(tile_box(0, {2, 2}, {4, 4}), tile_box(3, {2, 2}, {4, 4})).empty());
}

template <class Change>
constexpr TileFault fault_of(Change const& change) {
  auto own = tiled<Small, 2, 2>;
  change(own);
  return check_tiles(own).fault;
}

// A halo one short, on one side; or of another filling; an exchange left out; one too many.
static_assert(fault_of([](auto& g) {
                --g.node[7].sharing.halo.bottom;
                --g.node[7].out.extent[1];
                --g.node[8].in.extent[1];
              }) == TileFault::halo);
static_assert(fault_of([](auto& g) {
                --g.node[1].sharing.halo.left;
                --g.node[1].out.extent[2];
                --g.node[2].in.extent[2];
              }) == TileFault::halo);
static_assert(fault_of([](auto& g) { g.node[5].sharing.halo.lowest = false; }) == TileFault::halo);
static_assert(fault_of([](auto& g) { g.source[g.node[8].first_edge] = 6; }) == TileFault::edge);
static_assert(fault_of([](auto& g) { g.source[g.node[9].first_edge + 1] = 7; }) == TileFault::edge);
static_assert(fault_of([](auto& g) { g.source[g.node[11].first_edge] = 9; }) == TileFault::edge);
static_assert(fault_of([](auto& g) { g.source[g.node[2].first_edge] = 0; }) == TileFault::edge);
static_assert(fault_of([](auto& g) { g.result = 9; }) == TileFault::result);
static_assert(fault_of([](auto& g) { g.node[10].out.extent[1] = 2; }) == TileFault::shape);
static_assert(fault_of([](auto& g) { g.node[2].out.extent[1] = 3; }) == TileFault::shape);
static_assert(fault_of([](auto& g) { g.node[10].kind = NodeKind::layer; }) == TileFault::kind);
static_assert(fault_of([](auto& g) { g.parameter[0].slices.count = 2; }) == TileFault::parameter);

}  // namespace tiles_test
}  // namespace tandem
