// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <tandem/plan/cost/chain_partition.hpp>

namespace chain_partition_test {

using namespace tandem;

using Loads = std::vector<double>;
using Sizes = std::vector<int>;

double load(Loads const& loads, int begin, int end) {
  double sum = 0;
  for (int i = end; i-- > begin;) {
    sum += loads[i];
  }
  return sum;
}

double max_load(Loads const& loads, Sizes const& sizes) {
  double heaviest = 0;
  int begin = 0;
  for (int const size : sizes) {
    heaviest = std::max(heaviest, load(loads, begin, begin + size));
    begin += size;
  }
  return heaviest;
}

/// Tries every cut; of the best, that whose sizes are largest when read from the last.
ChainPartition exhaustive(Loads const& loads, int parts) {
  int const n = static_cast<int>(loads.size());
  ChainPartition best{std::numeric_limits<double>::infinity(), {}};
  for (int cuts = 0; cuts < 1 << (n - 1); ++cuts) {  // bit i: a cut behind item i
    Sizes sizes{1};
    for (int i = 0; i + 1 < n; ++i) {
      if ((cuts >> i & 1) != 0) {
        sizes.push_back(0);
      }
      ++sizes.back();
    }
    if (static_cast<int>(sizes.size()) != parts) {
      continue;
    }
    double const of = max_load(loads, sizes);
    bool const later = std::lexicographical_compare(best.sizes.rbegin(), best.sizes.rend(),
                                                    sizes.rbegin(), sizes.rend());
    if (of < best.max_load || (of == best.max_load && later)) {
      best = {of, sizes};
    }
  }
  return best;
}

TEST_CASE("known cuts") {
  ChainPartition const cut = partition_chain(Loads{3, 1, 4, 1, 5}, 2);
  CHECK(cut.max_load == 8);
  CHECK(cut.sizes == Sizes{3, 2});
  CHECK(partition_chain(Loads{7}, 1).sizes == Sizes{1});
  CHECK(partition_chain(Loads{1, 2, 3}, 3).sizes == Sizes{1, 1, 1});
  CHECK(partition_chain(Loads{1, 2, 3}, 1).max_load == 6);
  CHECK(partition_chain(Loads{0, 0, 0, 0}, 2).sizes == Sizes{1, 3});
  CHECK(partition_chain(Loads{5, 1, 1, 1}, 3).sizes == Sizes{1, 1, 2});
}

TEST_CASE("many loads, and loads of nothing") {  // 10^11 steps if each were a beginning
  CHECK(partition_chain(Loads(100'000), 10).max_load == 0);
  CHECK(partition_chain(Loads(100'000, 1), 10).max_load == 10'000);
  Loads const huge(3, std::numeric_limits<double>::max());
  CHECK(partition_chain(huge, 2).max_load == std::numeric_limits<double>::infinity());
  CHECK(partition_chain(huge, 3).sizes == Sizes{1, 1, 1});
}

TEST_CASE("equal to every cut there is, with ties") {
  std::mt19937 random{7};
  for (int round = 0; round < 300; ++round) {
    int const n = 1 + static_cast<int>(random() % 10);
    auto const kinds = 1 + random() % 9;  // few kinds: many ties
    Loads loads;
    for (int i = 0; i < n; ++i) {
      double const whole = static_cast<double>(random() % kinds);
      loads.push_back(round % 2 == 0 ? whole : whole / 7 + 0.1);  // sums are rounded
    }
    for (int parts = 1; parts <= n; ++parts) {
      CAPTURE(loads);
      CAPTURE(parts);
      ChainPartition const cut = partition_chain(loads, parts);
      ChainPartition const best = exhaustive(loads, parts);
      CHECK(cut.max_load == best.max_load);
      CHECK(cut.sizes == best.sizes);
    }
  }
}

TEST_CASE("a long chain") {
  std::mt19937 random{3};
  Loads loads(2000);
  std::generate(loads.begin(), loads.end(),
                [&] { return static_cast<double>(random() % 1000) / 64; });  // sums are exact
  for (int const parts : {1, 2, 7, 64, 1999, 2000}) {
    ChainPartition const cut = partition_chain(loads, parts);
    REQUIRE(static_cast<int>(cut.sizes.size()) == parts);
    CHECK(*std::min_element(cut.sizes.begin(), cut.sizes.end()) >= 1);
    CHECK(std::accumulate(cut.sizes.begin(), cut.sizes.end(), 0) == 2000);
    CHECK(cut.max_load == max_load(loads, cut.sizes));
    double const mean = load(loads, 0, 2000) / parts;
    CHECK(cut.max_load >= mean);
    CHECK(cut.max_load <= mean + 1000.0 / 64);
  }
}

TEST_CASE("what cannot be cut") {
  Loads const loads{1, 2, 3};
  double const infinity = std::numeric_limits<double>::infinity();
  auto const refuses = [](Loads const& of, int parts, char const* message) {
    CHECK_THROWS_WITH_AS(static_cast<void>(partition_chain(of, parts)), doctest::Contains(message),
                         ContractError);
  };
  refuses(loads, 0, "parts must be at least 1");
  refuses(loads, -1, "parts must be at least 1");
  refuses(loads, 4, "there must be at least one load for each part");
  refuses({}, 1, "there must be at least one load for each part");
  refuses({1, -1}, 1, "loads must be finite and not negative");
  refuses({1, infinity}, 1, "loads must be finite and not negative");
  refuses({std::numeric_limits<double>::quiet_NaN()}, 1, "must be finite and not negative");
  CHECK(partition_chain(loads, 3).max_load == 3);
}

}  // namespace chain_partition_test
