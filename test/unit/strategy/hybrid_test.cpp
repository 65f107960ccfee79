// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <tandem/engine/links/rank_groups.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

namespace hybrid_test {

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<3>, Linear<2>>> {};
struct Four : Network<Vector<4>, Sequential<Linear<3>, Linear<3>, Linear<3>, Linear<2>>> {};

using Cut = ModelParallel<Split<1>, Split<1>>;
using Pipe = Pipeline<Chimera, 4, Split<1>, Split<1>>;

static_assert(Strategy<Cut> && Strategy<Pipe> && Strategy<Pipeline<GPipe, 2, Split<2>>>);
static_assert(Strategy<Hybrid<DataParallel<2>, Cut>>);
static_assert(Strategy<Hybrid<DataParallel<2>, DataParallel<3>, Pipe>>);
static_assert(Strategy<Hybrid<DataParallel<2>, Hybrid<DataParallel<3>, Pipe>>>);

TEST_CASE("a type has as many replicas as there are GPUs anywhere") {
  using Wide = DataParallel<1 << 20, Microbatches<2047>>;
  static_assert(Wide::ranks == 1 << 20);
  static_assert(Wide::batching.all_microbatches() == 2146435072);
  using Tall =
      Hybrid<DataParallel<16384>, Pipeline<OneFOneB, 4, Split<1>, Split<1>, Split<1>, Split<1>>>;
  using P = Program<Four, Tall, 4>;
  static_assert(P::ranks == 65536 && P::devices == 4);
  auto const groups = RankGroups{group_facts<P>, P::mesh}.list();
  CHECK(groups.size() == 4 + std::size_t{16384} * 3 * 2);
  detail::check_groups(groups, P::ranks);
  CHECK(detail::rounds_of(groups, P::ranks).size() == 5);
}

TEST_CASE("ranks multiply; each replica has its share of the batch") {
  using H = Hybrid<DataParallel<3>, Pipe>;
  CHECK(H::mesh == Mesh{Axis::data, 3} * Mesh{Axis::model, 2});
  CHECK(H::ranks == 6);
  CHECK(H::devices == 2);
  CHECK(H::copies == 2);
  CHECK(H::batching.replicas == 3);
  CHECK(H::batching.microbatches == 4);
  using Product = Hybrid<DataParallel<2>, DataParallel<3>, Pipe>;
  CHECK(Product::mesh == Mesh{Axis::data, 6} * Mesh{Axis::model, 2});
  CHECK(Product::ranks == 12);
  CHECK(Product::devices == 2);
  CHECK(Product::batching.replicas == 6);
  CHECK(Product::batching.all_microbatches() == 24);
}

TEST_CASE("options of both strategies") {
  using H = Hybrid<DataParallel<2, Weighted<2, 1>, BucketBytes<5, 6>>,
                   Pipeline<OneFOneB, 4, Split<2>, Checkpoint<Boundaries>>>;
  CHECK(H::batching.shards == 2);
  CHECK(H::batching.weight[0] == 2);
  CHECK(H::batching.first_bucket_bytes == 5);
  CHECK(H::checkpoint.every == CheckpointRule::boundaries);
  // Leaves are of the whole batch: 4 in 2 replicas, wherever they are given.
  CHECK(Hybrid<DataParallel<2, Reproducible<4>>, Pipeline<GPipe, 4, Split<2>>>::batching.leaves ==
        2);
  CHECK(Hybrid<DataParallel<2>, Pipeline<GPipe, 4, Split<2>, Reproducible<4>>>::batching.leaves ==
        2);
  CHECK(Hybrid<DataParallel<2, Reproducible<>>, Pipe>::batching.leaves == 4);
  CHECK(Hybrid<DataParallel<2, Reproducible<>>, Pipe>::batching.leaves_of_copy(2) == 2);
  // As many weights as replicas of the model, not as parts.
  CHECK(Hybrid<DataParallel<2, Weighted<1, 1, 1, 1>>, DataParallel<2>, Cut>::batching.shards == 4);
}

TEST_CASE("a replica's devices are neighbours; a part's replicas are a group") {
  using P = Program<Net, Hybrid<DataParallel<2>, Cut>, 4>;
  auto const groups = RankGroups{group_facts<P>, P::mesh}.list();
  REQUIRE(groups.size() == 2 + 2 * 2);
  CHECK(groups[0].ranks == std::vector{0, 2});  // part 0
  CHECK(groups[1].ranks == std::vector{1, 3});
  CHECK(groups[2].ranks == std::vector{0, 1});  // the link of replica 0, forward
  CHECK(groups[5].ranks == std::vector{3, 2});  // that of replica 1, backward
  // In Chimera a replica has each part twice.
  using Two = Program<Net, Hybrid<DataParallel<2>, Pipe>, 4>;
  CHECK(RankGroups{group_facts<Two>, Two::mesh}.list()[0].ranks == std::vector{0, 1, 2, 3});
}

TEST_CASE(
    "two models: a stage's replicas, a replica's links, and the devices that mirror each other") {
  using P = Program<
      Four,
      Hybrid<DataParallel<2>, CrossModelParallel<AverageWeights<>, Split<1>, Split<1>, Split<2>>>,
      4>;
  RankGroups const own{group_facts<P>, P::mesh};
  auto const groups = own.list();
  REQUIRE(groups.size() == 6 + 2 * 2 * 4 + 2);  // stages, links both ways, pairs
  CHECK(groups[1].ranks == std::vector{1, 4});
  CHECK(groups[5].ranks == std::vector{0, 3});  // the second model's last part, on device 0
  for (int line : {0, 1}) {
    for (int link = 0; link < 4; ++link) {
      auto const& forward = groups[static_cast<std::size_t>(own.of_link(line, link, true))];
      auto const& back = groups[static_cast<std::size_t>(own.of_link(line, link, false))];
      int const from = P::map.edge[link].from;
      CHECK(forward.ranks ==
            std::vector{3 * line + P::map.device[from], 3 * line + P::map.device[from + 1]});
      CHECK(back.ranks == std::vector{forward.ranks[1], forward.ranks[0]});
    }
  }
  std::vector<int> pairs;
  for (int rank = 0; rank < P::ranks; ++rank) {
    pairs.push_back(own.of_pair(rank));
  }
  CHECK(pairs == std::vector{22, RankGroups::all, 22, 23, RankGroups::all, 23});
  CHECK(groups[22].ranks == std::vector{0, 2});
  CHECK(groups[23].ranks == std::vector{3, 5});
}

}  // namespace hybrid_test
