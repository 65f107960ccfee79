// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/data/buckets.hpp>
#include <tandem/data/order.hpp>

namespace order_test {

using Order = std::vector<std::int64_t>;

Order shuffled(std::size_t n, std::uint64_t seed, std::int64_t epoch) {
  Order order(n, -1);
  tandem::shuffled_order(order, seed, epoch);
  return order;
}

TEST_CASE("ascending_order counts") {
  Order order(4, -1);
  tandem::ascending_order(order);
  CHECK(order == Order{0, 1, 2, 3});
}

TEST_CASE("shuffled_order is a permutation of any number of samples") {
  for (std::size_t const n : {0U, 1U, 2U, 3U, 4U, 5U, 63U, 1000U}) {
    Order sorted = shuffled(n, 11, 3);
    std::sort(sorted.begin(), sorted.end());
    Order all(n);
    tandem::ascending_order(all);
    CHECK(sorted == all);
  }
}

TEST_CASE("shuffled_order depends on seed and epoch only, and is what it was") {
  CHECK(shuffled(100, 1, 2) == shuffled(100, 1, 2));
  CHECK(shuffled(100, 1, 2) != shuffled(100, 1, 3));
  CHECK(shuffled(100, 1, 2) != shuffled(100, 2, 2));
  CHECK(shuffled(100, 1, 2) != shuffled(100, 1 + (std::uint64_t{1} << 32), 2));
  CHECK(shuffled(10, 1, 2) ==
        Order{9, 2, 3, 8, 5, 4, 7, 6, 0, 1});  // checkpoints resume within this order
}

TEST_CASE("bucketed_order depends on seed, epoch and batch only, and is what it was") {
  auto const of = [](int batch, std::uint64_t seed, std::int64_t epoch) {
    Order order(11, -1);
    tandem::bucketed_order(
        order, [](std::int64_t sample) { return sample < 7 ? 0 : 1; }, 2, batch, seed, epoch);
    return order;
  };
  CHECK(of(2, 1, 2) ==
        Order{2, 3, 6, 0, 9, 8, 7, 10, 5, 4, 1});  // checkpoints resume within this order
  CHECK(of(2, 1, 3) != of(2, 1, 2));
  CHECK(of(2, 2, 2) != of(2, 1, 2));
  CHECK(of(20, 1, 2).size() == 11);
  CHECK(tandem::bucket_of(1, 50, 5) == 0);
  CHECK(tandem::bucket_of(10, 50, 5) == 0);
  CHECK(tandem::bucket_of(11, 50, 5) == 1);
  CHECK(tandem::bucket_of(50, 50, 5) == 4);
  CHECK(tandem::bucket_of(3, 3, 7) == 4);  // more buckets than lengths
  for (int const buckets : {1, 2, 3, 5, 7, 50, 60}) {
    for (int length = 1; length <= 50; ++length) {
      int const bucket = tandem::bucket_of(length, 50, buckets);
      int const end = tandem::bucket_end(bucket, 50, buckets);
      CHECK(end >= length);
      CHECK(tandem::bucket_of(end, 50, buckets) == bucket);
      CHECK((end == 50 || tandem::bucket_of(end + 1, 50, buckets) > bucket));
    }
  }
}

TEST_CASE("shuffled_order puts every sample everywhere equally often") {
  constexpr std::size_t n = 6;
  constexpr int epochs = 6000;
  int counts[n][n] = {};
  for (int epoch = 0; epoch < epochs; ++epoch) {
    Order const order = shuffled(n, 5, epoch);
    for (std::size_t place = 0; place < n; ++place) {
      ++counts[place][static_cast<std::size_t>(order[place])];
    }
  }
  double chi_squared = 0.0;  // of 36 cells with 25 degrees of freedom
  for (auto const& row : counts) {
    for (int const count : row) {
      double const difference = count - epochs / static_cast<double>(n);
      chi_squared += difference * difference / (epochs / static_cast<double>(n));
    }
  }
  CHECK(chi_squared < 52.6);  // exceeded with probability 0.001; the seed is fixed
}

}  // namespace order_test
