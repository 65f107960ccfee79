// SPDX-License-Identifier: Apache-2.0
#include <concepts>
#include <cstdint>

#include <doctest/doctest.h>

#include <tandem/strategy/types/data_parallel.hpp>

namespace data_parallel_test {

using namespace tandem;

static_assert(Strategy<SingleDevice<>> && Strategy<DataParallel<2>>);
static_assert(Strategy<DataParallel<3, Weighted<4, 4, 3>, Microbatches<2>, Reproducible<>>>);

/// All of a strategy; each of those below lacks one thing.
struct Archetype {
  static constexpr Mesh mesh{};
  static constexpr int ranks = 1;
  static constexpr int devices = 1;
  static constexpr int copies = 1;
  static constexpr Batching batching{};
  static constexpr CheckpointRule checkpoint{};
  template <class Net>
  struct Cut;
};
struct MeshOfAnotherType : Archetype {
  static constexpr int mesh = 1;
};
struct RanksOfAnotherType : Archetype {
  static constexpr char const* ranks = "two";
};
struct DevicesOfAnotherType : Archetype {
  static constexpr char const* devices = "two";
};
struct CopiesOfAnotherType : Archetype {
  static constexpr char const* copies = "two";
};
struct BatchingOfAnotherType : Archetype {
  static constexpr int batching = 1;
};
struct CheckpointOfAnotherType : Archetype {
  static constexpr char const* checkpoint = "all";
};
struct NoCut {
  static constexpr Mesh mesh{};
  static constexpr int ranks = 1;
  static constexpr int devices = 1;
  static constexpr int copies = 1;
  static constexpr Batching batching{};
  static constexpr CheckpointRule checkpoint{};
};
static_assert(Strategy<Archetype>);
static_assert(!Strategy<MeshOfAnotherType> && !Strategy<RanksOfAnotherType> &&
              !Strategy<DevicesOfAnotherType> && !Strategy<CopiesOfAnotherType> &&
              !Strategy<BatchingOfAnotherType> && !Strategy<CheckpointOfAnotherType> &&
              !Strategy<NoCut> && !Strategy<int>);

static_assert(BatchingOption<Microbatches<2>> && BatchingOption<Weighted<1>> &&
              BatchingOption<Reproducible<>> && BatchingOption<BucketBytes<1, 1>>);
static_assert(!BatchingOption<int> && !BatchingOption<Archetype>);

static_assert(DataParallel<3>::ranks == 3 && SingleDevice<>::ranks == 1);
static_assert(DataParallel<3>::mesh == Mesh{Axis::data, 3} && SingleDevice<>::mesh == Mesh{});

void check_alike(Batching const& a, Batching const& b) {
  CHECK(a.replicas == b.replicas);
  CHECK(a.microbatches == b.microbatches);
  CHECK(a.shards == b.shards);
  CHECK(a.reproducible == b.reproducible);
  CHECK(a.leaves == b.leaves);
  CHECK(a.first_bucket_bytes == b.first_bucket_bytes);
  CHECK(a.bucket_bytes == b.bucket_bytes);
  for (int s = 0; s < 64; ++s) {
    CHECK(a.weight[s] == b.weight[s]);
  }
}

TEST_CASE("without options: one microbatch, buckets of 1 and 25 MiB, nothing reproducible") {
  Batching const b = DataParallel<2>::batching;
  CHECK(b.replicas == 2);
  CHECK(b.microbatches == 1);
  CHECK(b.all_microbatches() == 2);
  CHECK(b.shards == 0);
  CHECK_FALSE(b.reproducible);
  CHECK(b.leaves == 1);
  CHECK(b.first_bucket_bytes == std::int64_t{1} << 20);
  CHECK(b.bucket_bytes == std::int64_t{25} << 20);
}

TEST_CASE("options in any order") {
  using M = Microbatches<4>;
  using W = Weighted<3, 1>;
  using R = Reproducible<4>;
  using B = BucketBytes<100, 200>;
  Batching const b = DataParallel<2, M, W, R, B>::batching;
  CHECK(b.microbatches == 4);
  CHECK(b.shards == 2);
  CHECK(b.weight[0] == 3);
  CHECK(b.weight[1] == 1);
  CHECK(b.reproducible);
  CHECK(b.leaves == 2);  // of one replica
  CHECK(b.first_bucket_bytes == 100);
  CHECK(b.bucket_bytes == 200);
  check_alike(b, DataParallel<2, B, R, W, M>::batching);
  check_alike(b, DataParallel<2, R, M, B, W>::batching);
  check_alike(b, DataParallel<2, W, B, M, R>::batching);
}

TEST_CASE("leaves: one a microbatch unless given, a power of two that divides") {
  CHECK(DataParallel<2, Microbatches<4>, Reproducible<>>::batching.leaves == 4);
  CHECK(DataParallel<2, Reproducible<>>::batching.leaves == 1);
  CHECK(DataParallel<3, Microbatches<2>, Reproducible<3>>::batching.leaves == 1);
  CHECK(SingleDevice<Microbatches<6>, Reproducible<2>>::batching.leaves == 2);

  auto const fits = [](int microbatches, int leaves) {
    return detail::leaves_fit({.microbatches = microbatches, .leaves = leaves});
  };
  CHECK(fits(8, 8));
  CHECK(fits(6, 2));
  CHECK_FALSE(fits(6, 3));
  CHECK_FALSE(fits(6, 4));
  CHECK_FALSE(fits(4, 8));
  CHECK_FALSE(fits(4, 0));
}

}  // namespace data_parallel_test
