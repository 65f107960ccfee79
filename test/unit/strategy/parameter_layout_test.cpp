// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/layers/embedding.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/strategy/memory/slot_turns.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

namespace parameter_layout_test {

using namespace tandem;

struct GoogLeNet : models::GoogLeNet<10> {};
struct ResNet18 : models::ResNet18<10> {};
struct HalfFrozen
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<5, Kernel<3>>, Frozen<Sequential<Conv2d<7>, BatchNorm2d<>>>, ReLU,
                         GlobalAvgPool, Linear<10>>> {};
struct AllFrozen : Network<Vector<4>, Frozen<Linear<3>>> {};
struct Bare : Network<Vector<4>, Flatten> {};

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

/// What must hold of any layout.
template <class P>
void check_layout() {
  using D = typename P::template Device<0>;
  auto const& g = D::graph;
  auto const& layout = D::layout;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (int p = 0; p < g.parameters; ++p) {
    std::int64_t const begin = layout.offset[p];
    std::int64_t const end = begin + g.parameter[p].parameter.shape.elements();
    ranges.emplace_back(begin, end);
    REQUIRE(begin % parameter_alignment == 0);
    REQUIRE(end <= layout.elements);
    REQUIRE((begin >= layout.trained) == g.parameter[p].frozen);
    REQUIRE((end <= layout.trained || g.parameter[p].frozen));
    int holders = 0;
    for (int b = 0; b < layout.buckets; ++b) {
      holders += begin >= layout.bucket_begin[b] && end <= layout.bucket_begin[b + 1] ? 1 : 0;
    }
    REQUIRE(holders == (g.parameter[p].frozen ? 0 : 1));
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    REQUIRE(ranges[i - 1].second <= ranges[i].first);
  }
  REQUIRE(layout.bucket_begin[0] == 0);
  REQUIRE(layout.bucket_begin[layout.buckets] == layout.trained);

  // Backward order: a later node stands before an earlier one; a bucket closes with its last node.
  int next = 0;
  std::int64_t reached = 0;
  for (int n = g.nodes - 1; n >= 0; --n) {
    Node const& node = g.node[n];
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      if (!node.frozen) {
        REQUIRE(layout.offset[p] >= reached);
        reached = layout.offset[p] + g.parameter[p].parameter.shape.elements();
      }
    }
    if (layout.closes[n] >= 0) {
      REQUIRE(layout.closes[n] == next);
      ++next;
      REQUIRE(reached <= layout.bucket_begin[next]);
      REQUIRE(reached > layout.bucket_begin[next] - parameter_alignment);
    }
  }
  REQUIRE(next == layout.buckets);
}

TEST_CASE("every trained parameter stands in one bucket, in backward order") {
  check_layout<Program<GoogLeNet, SingleDevice<>, 4>>();
  check_layout<Program<GoogLeNet, DataParallel<2, BucketBytes<1, 1>>, 4>>();
  check_layout<Program<ResNet18, DataParallel<2>, 4>>();
  check_layout<Program<ResNet18, DataParallel<2>, 8>>();
  check_layout<Program<HalfFrozen, DataParallel<2, BucketBytes<1, 100>>, 4>>();
  check_layout<Program<AllFrozen, SingleDevice<>, 4>>();
  check_layout<Program<Bare, SingleDevice<>, 4>>();
}

TEST_CASE("the first bucket closes at 1 MiB, the others at 25 MiB") {
  using P = Program<ResNet18, DataParallel<2>, 4>::Device<0>;
  auto const& layout = P::layout;
  auto const bytes = [&](int b) {
    return 4 * (layout.bucket_begin[b + 1] - layout.bucket_begin[b]);
  };
  REQUIRE(layout.buckets == 3);  // 44.7 MB
  CHECK(bytes(0) >= mebibyte);
  CHECK(bytes(1) >= 25 * mebibyte);
  // Without its last node a bucket would not be full.
  for (int b = 0; b < 2; ++b) {
    for (int n = 0; n < P::graph.nodes; ++n) {
      Node const& node = P::graph.node[n];
      if (layout.closes[n] == b) {
        CHECK(4 * (layout.offset[node.first_parameter] - layout.bucket_begin[b]) <
              (b == 0 ? mebibyte : 25 * mebibyte));
      }
    }
  }
}

TEST_CASE("an element's size counts") {
  CHECK(Program<ResNet18, DataParallel<2>, 8>::Device<0>::layout.bucket_begin[2] <
        Program<ResNet18, DataParallel<2>, 4>::Device<0>::layout.bucket_begin[2]);
}

TEST_CASE("one bucket a node where every node fills one") {
  using P = Program<HalfFrozen, DataParallel<2, BucketBytes<1, 1>>, 4>::Device<0>;
  REQUIRE(P::layout.buckets == 2);
  CHECK(P::graph.node[6].name == "Linear");
  CHECK(P::layout.closes[6] == 0);
  CHECK(P::layout.closes[1] == 1);
  for (int n : {0, 2, 3, 4, 5}) {
    CHECK(P::layout.closes[n] == -1);
  }
}

TEST_CASE("on the device in the middle of two models each bucket has a twin") {
  struct Three : Network<Vector<4>, Sequential<Linear<8>, Linear<16>, Linear<4>, Linear<2>>> {};
  using S = CrossModelParallel<AverageWeights<>, Split<1>, Split<2>, Split<1>, BucketBytes<1, 1>>;
  using P = Program<Three, S, 4>;
  CHECK(!P::Device<0>::has_twins);
  CHECK(!P::Device<2>::has_twins);
  using Middle = P::Device<1>;
  REQUIRE(Middle::has_twins);
  auto const& layout = Middle::layout;
  auto const& twin = Middle::twin_buckets.of;
  REQUIRE(layout.buckets == 4);  // backward ends the second copy, stage 4, first
  for (int b = 0; b < layout.buckets; ++b) {
    CHECK(layout.bucket_stage[b] == (b < 2 ? 4 : 1));
    CHECK(twin[b] == (b < 2 ? b + 2 : b - 2));
    CHECK(bucket_range(layout, twin[b]).count() == bucket_range(layout, b).count());
  }
}

TEST_CASE("frozen parameters stand last and have no gradient") {
  using P = Program<HalfFrozen, SingleDevice<>, 4>::Device<0>;
  auto const& layout = P::layout;
  // Linear 10 x 7 and 10, Conv2d 5 x 3 x 3 x 3 and 5, each rounded up to 16
  CHECK(layout.trained == 80 + 16 + 144 + 16);
  // Conv2d 7 x 5 and 7, BatchNorm2d 4 times 7
  CHECK(layout.elements == layout.trained + 48 + 16 + 4 * 16);
  CHECK(layout.offset[0] == 80 + 16);
  CHECK(Program<AllFrozen, SingleDevice<>, 4>::Device<0>::layout.trained == 0);
  CHECK(Program<AllFrozen, SingleDevice<>, 4>::Device<0>::layout.buckets == 0);
}

TEST_CASE("a program holds what its parts say") {
  using P = Program<ResNet18, DataParallel<2, Microbatches<2>>, 4>;
  CHECK(P::ranks == 2);
  CHECK(P::devices == 1);
  CHECK(P::table.length[0] == 2 * 2);
  CHECK(P::network.nodes == graph<ResNet18>.nodes);
  CHECK(P::Device<0>::graph.nodes == graph<ResNet18>.nodes);
  CHECK(P::Device<0>::stages.count == 1);
  CHECK(P::Device<0>::stages.stage[0].last == graph<ResNet18>.nodes);
  CHECK((P::Device<0>::has_input && P::Device<0>::has_result));
}

struct ByRows : Network<Tokens<4, 30>,
                        Sequential<Embedding<30, 20, RowGradient>, Linear<9>, Vocabulary<30>>> {};

TEST_CASE("gradients of rows have no place among the dense ones, and a bucket of their own") {
  using P = Program<ByRows, SingleDevice<>, 4>;
  constexpr auto const& layout = P::Device<0>::layout;
  static_assert(layout.dense == 272 + 32 + 192 + 16);
  static_assert(layout.trained == layout.dense + 608 && layout.elements == layout.trained);
  static_assert(layout.row_gradients == 1 && layout.row_parameter[0] == 0);
  static_assert(layout.offset[0] == layout.dense);
  static_assert(layout.buckets == 1 && layout.row_bucket[0] == 0 && layout.closes[1] == 0);
  static_assert(layout.bucket_begin[1] == layout.dense);
  static_assert(bucket_of(LayoutView{layout}, layout.offset[0]) == -1);
  static_assert(bucket_of(LayoutView{layout}, layout.dense - 1) == 0);
  using Small = DataParallel<2, BucketBytes<1, 1>>;
  constexpr auto const& apart = Program<ByRows, Small, 4>::Device<0>::layout;
  static_assert(apart.buckets == 3 && apart.row_bucket[0] == 2);
  CHECK(bucket_range(apart, 2).count() == 0);

  using D = P::Device<0>;
  SlotTurns turns{D::graph, layout, D::segments.of};
  std::vector<int> read;
  auto const nothing = [](int) {};
  for (int n = 0; n < D::graph.nodes; ++n) {
    turns.use(n, PassDirection::forward, nothing, [&](int bucket) { read.push_back(bucket); });
  }
  CHECK(read == std::vector<int>{0});  // that of Linear and Vocabulary
}

}  // namespace parameter_layout_test
