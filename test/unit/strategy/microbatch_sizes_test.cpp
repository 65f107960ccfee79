// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/strategy/types/data_parallel.hpp>

namespace microbatch_sizes_test {

using namespace tandem;

static_assert(even_part(10, 0, 4) == 3 && even_part(10, 1, 4) == 2 && even_part(10, 2, 4) == 3 &&
              even_part(10, 3, 4) == 2);
static_assert(even_part(2, 0, 4) == 1 && even_part(2, 1, 4) == 0);
static_assert(even_part(0, 0, 3) == 0);
static_assert(largest_microbatch(128, DataParallel<3>::batching) == 43);

std::vector<int> sizes(int total, Batching const& batching) {
  std::vector<int> list;
  for (int i = 0; i < batching.all_microbatches(); ++i) {
    list.push_back(microbatch_size(total, i, batching));
  }
  return list;
}

int sum(std::vector<int> const& list) { return std::accumulate(list.begin(), list.end(), 0); }

/// Largest remainder, slowly: seats given one by one to the shard that is owed most.
std::vector<int> slow_shards(int total, std::vector<int> const& weights) {
  std::int64_t const all = sum(weights);
  std::vector<int> shard;
  std::vector<std::int64_t> rest;
  for (int const weight : weights) {
    shard.push_back(static_cast<int>(std::int64_t{total} * weight / all));
    rest.push_back(std::int64_t{total} * weight - shard.back() * all);
  }
  while (sum(shard) < total) {
    auto const most = std::max_element(rest.begin(), rest.end());  // the first among equals
    ++shard[static_cast<std::size_t>(most - rest.begin())];
    *most = -1;
  }
  return shard;
}

Batching weighted(std::vector<int> const& weights, int microbatches) {
  Batching batching{.replicas = static_cast<int>(weights.size()), .microbatches = microbatches};
  batching.shards = batching.replicas;
  std::copy(weights.begin(), weights.end(), batching.weight);
  return batching;
}

TEST_CASE("even parts add up, differ by one at most, and so do runs of them") {
  for (int parts = 1; parts <= 24; ++parts) {
    for (int total = 0; total <= 70; ++total) {
      CAPTURE(parts);
      CAPTURE(total);
      std::vector<int> const list = sizes(total, {.replicas = 1, .microbatches = parts});
      REQUIRE(sum(list) == total);
      auto const [least, most] = std::minmax_element(list.begin(), list.end());
      REQUIRE(*most - *least <= 1);
      for (int run = 1; run <= parts; ++run) {  // the nested split is the split
        if (parts % run != 0) {
          continue;
        }
        for (int r = 0; r < parts / run; ++r) {
          int const together =
              std::accumulate(list.begin() + r * run, list.begin() + (r + 1) * run, 0);
          REQUIRE(together == even_part(total, r, parts / run));
        }
      }
    }
  }
}

TEST_CASE("a large batch does not overflow") {
  CHECK(even_part(2'000'000'000, 4095, 4096) == 2'000'000'000 / 4096);
  CHECK(weighted_part(2'000'000'000, 1, weighted({1, 1'000'000'000}, 1)) == 1'999'999'998);
}

TEST_CASE("the same microbatches under every number of replicas") {
  for (int total : {1, 7, 12, 128, 129}) {
    std::vector<int> const one = sizes(total, SingleDevice<Microbatches<12>>::batching);
    CHECK(one == sizes(total, DataParallel<2, Microbatches<6>>::batching));
    CHECK(one == sizes(total, DataParallel<4, Microbatches<3>>::batching));
    CHECK(one == sizes(total, DataParallel<12>::batching));
  }
}

TEST_CASE("weighted shards: largest remainder first, the lower rank among equals") {
  CHECK(sizes(128, DataParallel<3, Weighted<4, 4, 3>>::batching) == std::vector{47, 46, 35});
  CHECK(sizes(3, DataParallel<2, Weighted<1, 1>>::batching) == std::vector{2, 1});
  CHECK(sizes(10, DataParallel<3, Weighted<1, 0, 1>>::batching) == std::vector{5, 0, 5});
  CHECK(sizes(1, DataParallel<3, Weighted<1, 1, 2>>::batching) == std::vector{0, 0, 1});
}

TEST_CASE("weighted shards against a slow reference") {
  for (int a = 0; a <= 5; ++a) {
    for (int b = 0; b <= 5; ++b) {
      for (int c = 0; c <= 5; ++c) {
        if (a + b + c == 0) {
          continue;
        }
        for (int total = 0; total <= 40; ++total) {
          std::vector<int> const weights{a, b, c};
          REQUIRE(sizes(total, weighted(weights, 1)) == slow_shards(total, weights));
        }
      }
    }
  }
}

TEST_CASE("microbatches of weighted shards are their even parts") {
  Batching const batching = DataParallel<3, Weighted<2, 0, 1>, Microbatches<2>>::batching;
  CHECK(sizes(12, batching) == std::vector{4, 4, 0, 0, 2, 2});
  CHECK(sizes(13, batching) == std::vector{5, 4, 0, 0, 2, 2});
  CHECK(sizes(13, batching) ==
        sizes(13, SingleDevice<Microbatches<6>, Weighted<2, 0, 1>>::batching));
  CHECK(largest_microbatch(13, batching) == 5);
}

TEST_CASE("a microbatch has a number among all, which gives back its replica and its copy") {
  for (int replicas : {1, 3}) {
    for (int copies : {1, 2}) {
      for (int microbatches : {2, 6}) {
        Batching const batching{.replicas = replicas, .microbatches = microbatches};
        for (int replica = 0, number = 0; replica < replicas; ++replica) {
          for (int own = 0; own < microbatches; ++own, ++number) {
            CHECK(batching.global(replica, own) == number);
            CHECK(batching.replica_of(number) == replica);
            CHECK(batching.copy_of(number, copies) == (copies == 2 && own >= microbatches / 2));
          }
        }
      }
    }
  }
}

}  // namespace microbatch_sizes_test
