// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/philox.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/strategy/cut/balance.hpp>
#include <tandem/strategy/types/model_options.hpp>

namespace balance_test {

using namespace tandem;

struct GoogLeNet : models::GoogLeNet<10> {};

using Weights = std::vector<std::int64_t>;

/// The lightest heaviest part of all cuts, by trying them.
std::int64_t lightest(Weights const& weight, std::size_t begin, int parts) {
  if (parts == 1) {
    return std::accumulate(weight.begin() + static_cast<std::ptrdiff_t>(begin), weight.end(),
                           std::int64_t{0});
  }
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::int64_t sum = 0;
  for (std::size_t end = begin + 1; end + static_cast<std::size_t>(parts) - 1 <= weight.size();
       ++end) {
    sum += weight[end - 1];
    best = std::min(best, std::max(sum, lightest(weight, end, parts - 1)));
  }
  return best;
}

/// What must hold of any cut; its heaviest part.
std::int64_t heaviest(Weights const& weight, std::vector<int> const& counts) {
  REQUIRE(std::accumulate(counts.begin(), counts.end(), 0) == static_cast<int>(weight.size()));
  std::int64_t most = 0;
  auto next = weight.begin();
  for (int const count : counts) {
    REQUIRE(count >= 1);
    most = std::max(most, std::accumulate(next, next + count, std::int64_t{0}));
    next += count;
  }
  return most;
}

std::vector<int> balanced(Weights const& weight, int parts) {
  std::vector<int> counts(static_cast<std::size_t>(parts));
  detail::balance(weight.data(), static_cast<int>(weight.size()), parts, counts.data());
  return counts;
}

TEST_CASE("no cut has a lighter heaviest part") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Weights weight(1 + seed % 9);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      Random4 const r = philox(seed, RandomUse::user, i, 0);
      weight[i] = below(r.word[0], seed % 3 == 0 ? 4 : 1'000'000'000);  // zeros and ties as well
    }
    for (int parts = 1; parts <= static_cast<int>(weight.size()); ++parts) {
      CAPTURE(seed);
      CAPTURE(parts);
      REQUIRE(heaviest(weight, balanced(weight, parts)) == lightest(weight, 0, parts));
    }
  }
}

TEST_CASE("among those, items stand late") {
  CHECK(balanced({1, 1, 1, 1}, 3) == std::vector{1, 1, 2});
  CHECK(balanced({1, 1, 1, 8}, 2) == std::vector{3, 1});
  CHECK(balanced({8, 1, 1, 1}, 3) == std::vector{1, 1, 2});
  CHECK(balanced({0, 0, 0}, 2) == std::vector{1, 2});
}

TEST_CASE("costs: products three times, activations by traffic, views nothing") {
  Node node{.kind = NodeKind::layer};
  node.out = image_shape(2, 3, 4);
  node.macs = 10;
  CHECK(static_cost(node) == 30 + macs_per_activation * 24);
  node.view = true;
  CHECK(static_cost(node) == 30);
  CHECK(static_cost({.kind = NodeKind::input, .out = vector_shape(5)}) == 0);
}

TEST_CASE("a network by its top-level parts") {
  constexpr auto counts = balanced_tops<3>(graph<GoogLeNet>);
  Weights cost(14);
  for (Node const& node : graph<GoogLeNet>.node) {
    cost[static_cast<std::size_t>(node.top)] += static_cost(node);
  }
  CHECK(heaviest(cost, {counts.of[0], counts.of[1], counts.of[2]}) == lightest(cost, 0, 3));
  constexpr auto partition = Auto<3>::partition<GoogLeNet>();
  CHECK(partition.parts == 3);
  for (int n = 0; n < graph<GoogLeNet>.nodes; ++n) {
    int const top = graph<GoogLeNet>.node[n].top;
    int const part = top < counts.of[0] ? 0 : top < counts.of[0] + counts.of[1] ? 1 : 2;
    REQUIRE(partition.part[n] == part);
  }
}

}  // namespace balance_test
