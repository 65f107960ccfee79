// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/data/buckets.hpp>
#include <tandem/data/epoch_order.hpp>
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

Order permuted(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  tandem::KeyedPermutation const permutation{n, seed, epoch};
  Order order;
  for (std::int64_t place = 0; place < n; ++place) {
    order.push_back(permutation[place]);
  }
  return order;
}

TEST_CASE("KeyedPermutation has every sample once, of any number of them") {
  auto const is_permutation = [](std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
    Order sorted = permuted(n, seed, epoch);
    std::sort(sorted.begin(), sorted.end());
    Order all(static_cast<std::size_t>(n));
    tandem::ascending_order(all);
    return sorted == all;
  };
  for (std::int64_t n = 0; n < 200; ++n) {
    CAPTURE(n);
    CHECK(is_permutation(n, 11, 3));
    CHECK(is_permutation(n, std::uint64_t{1} << 63, n));
  }
  for (std::int64_t const n : {1023, 1024, 1025, 4095, 4097, 9999, 10000, 10001}) {
    CAPTURE(n);
    CHECK(is_permutation(n, 12, 4));
  }
  // Far beyond what could be listed: places of a run have samples that are there, all different.
  std::int64_t const many = (std::int64_t{1} << 61) + 12345;
  tandem::KeyedPermutation const large{many, 1, 2};
  Order some;
  for (std::int64_t place = many - 2000; place < many; ++place) {
    some.push_back(large[place]);
  }
  std::sort(some.begin(), some.end());
  CHECK(some.front() >= 0);
  CHECK(some.back() < many);
  CHECK(std::adjacent_find(some.begin(), some.end()) == some.end());
  CHECK_THROWS_AS((tandem::KeyedPermutation{std::int64_t{1} << 62, 1, 2}), tandem::ContractError);
}

TEST_CASE("KeyedPermutation depends on number, seed and epoch only, and is what it was") {
  CHECK(permuted(100, 1, 2) == permuted(100, 1, 2));
  CHECK(permuted(100, 1, 2) != permuted(100, 1, 3));
  CHECK(permuted(100, 1, 2) != permuted(100, 2, 2));
  CHECK(permuted(100, 1, 2) != permuted(100, 1 + (std::uint64_t{1} << 32), 2));
  CHECK(permuted(10, 1, 2) ==
        Order{7, 9, 5, 4, 6, 0, 1, 8, 2, 3});  // checkpoints resume within this order
}

/// Chi-squared of counts that should all be alike.
double chi_squared(std::vector<int> const& counts, double expected) {
  double sum = 0.0;
  for (int const count : counts) {
    sum += (count - expected) * (count - expected) / expected;
  }
  return sum;
}

TEST_CASE("KeyedPermutation puts every sample everywhere, and every pair first, equally often") {
  constexpr int epochs = 6000;
  struct {
    std::int64_t n;
    double places;  // exceeded with probability 0.001, of (n - 1)² degrees of freedom; the
    double pairs;   // seed is fixed; of n (n - 1) - 1
  } const cases[] = {{6, 52.6, 58.3}, {25, 685.0, 710.0}};
  for (auto const& one : cases) {
    std::int64_t const n = one.n;
    CAPTURE(n);
    auto const size = static_cast<std::size_t>(n);
    std::vector<int> places(size * size);
    std::vector<int> pairs(size * size);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      Order const order = permuted(n, 5, epoch);
      for (std::size_t place = 0; place < size; ++place) {
        ++places[place * size + static_cast<std::size_t>(order[place])];
      }
      ++pairs[static_cast<std::size_t>(order[0] * n + order[1])];
    }
    CHECK(chi_squared(places, epochs / static_cast<double>(n)) < one.places);
    for (std::size_t i = size; i-- > 0;) {
      CHECK(pairs[i * size + i] == 0);
      pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(i * size + i));
    }
    CHECK(chi_squared(pairs, epochs / static_cast<double>(n * (n - 1))) < one.pairs);
  }
}

/// As many samples as it says.
struct Many {
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return samples; }
  [[nodiscard]] tandem::Shape shape() const { return tandem::vector_shape(1); }
  [[nodiscard]] int targets() const { return 1; }
  void read(std::int64_t /*index*/, std::span<float> /*x*/, std::span<std::int32_t> /*y*/) const {}

  std::int64_t samples;
};

TEST_CASE("epoch_order is a table of few samples, and takes no memory of many") {
  constexpr std::int64_t most = tandem::EpochOrder::most_in_table;
  tandem::LoaderOptions options{.seed = 4, .epoch = 1};
  CHECK(tandem::epoch_order_bytes(Many{100}, options) == 800);
  auto const few = tandem::epoch_order(Many{100}, options);
  Order const table = shuffled(100, 4, 1);
  for (std::int64_t position = 0; position < 100; ++position) {
    CHECK(few[position] == table[static_cast<std::size_t>(position)]);
  }
  CHECK(tandem::epoch_order_bytes(Many{most}, options) == std::size_t{8} << 20);
  CHECK(tandem::epoch_order_bytes(Many{most + 1}, options) == 0);
  auto const many = tandem::epoch_order(Many{std::int64_t{1} << 50}, options);
  tandem::KeyedPermutation const permutation{std::int64_t{1} << 50, 4, 1};
  CHECK(many.size() == std::int64_t{1} << 50);
  CHECK(many[0] == permutation[0]);
  CHECK(many[12345678901] == permutation[12345678901]);
  options.shuffle = false;
  CHECK(tandem::epoch_order_bytes(Many{100}, options) == 0);
  CHECK(tandem::epoch_order(Many{std::int64_t{1} << 50}, options)[77] == 77);
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
