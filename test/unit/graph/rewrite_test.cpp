// SPDX-License-Identifier: Apache-2.0
// Rewrites keep every node, edge and parameter; they only change what an op does.

#include <tandem/graph/rewrite.hpp>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {
namespace {

struct Plain : Network<Image<3, 4, 4>, Sequential<Conv2d<2>, BatchNorm2d<>, ReLU, ReLU, Conv2d<4>,
                                                  ReLU, Flatten, Linear<3>, Flatten>> {};
constexpr auto plain = graph<Plain>;
constexpr auto fused = fuse_relu(plain);

static_assert(fused.node[2].relu && fused.node[3].view);    // BatchNorm2d, ReLU
static_assert(!fused.node[3].relu && !fused.node[4].view);  // the ReLU behind them stays
static_assert(!fused.node[5].relu && !fused.node[6].view);  // Conv2d, ReLU: no batch norm
static_assert(!plain.node[2].relu && !plain.node[3].view);

/// The batch norm's output is read twice, so what is before its ReLU must stay.
struct Forked
    : Network<Image<2, 4, 4>, Sequential<BatchNorm2d<>, Residual<Sequential<ReLU, Conv2d<2>>>>> {};
static_assert(!fuse_relu(graph<Forked>).node[1].relu);
static_assert(!fuse_relu(graph<Forked>).node[2].view);

constexpr auto last = materialise_flatten(plain);
static_assert(plain.node[7].view && !last.node[7].view);  // (4, 4, 4) to (64)
static_assert(plain.node[9].view && last.node[9].view);   // (3) to (3)

struct OneChannel : Network<Image<1, 4, 4>, Sequential<Flatten, Linear<3>>> {};
struct OnePixel : Network<Image<5, 1, 1>, Sequential<Flatten, Linear<3>>> {};
static_assert(materialise_flatten(graph<OneChannel>).node[1].view);  // the same order in memory
static_assert(materialise_flatten(graph<OnePixel>).node[1].view);

static_assert(!rewrites_of<Host>().fuse_relu && !rewrites_of<Host>().channels_last);
static_assert(rewrites_of<Cuda>().fuse_relu && rewrites_of<Cuda>().channels_last);

struct Google : models::GoogLeNet<10> {};

TEST_CASE("GoogLeNet: every batch norm takes its ReLU, and nothing else changes") {
  auto const& before = graph<Google>;
  auto const after = rewrite(before, {.fuse_relu = true, .channels_last = true});
  int norms = 0;
  for (int n = 0; n < before.nodes; ++n) {
    norms += before.node[n].layer == LayerKind::batch_norm ? 1 : 0;
    CHECK(after.node[n].relu == (before.node[n].layer == LayerKind::batch_norm));
    CHECK(after.node[n].view == (before.node[n].view || before.node[n].layer == LayerKind::relu));
    CHECK(after.node[n].out == before.node[n].out);
    CHECK(after.node[n].first_parameter == before.node[n].first_parameter);
    CHECK(after.node[n].first_edge == before.node[n].first_edge);
  }
  CHECK(norms == 64);  // one behind each convolution
}

}  // namespace
}  // namespace tandem
