// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/gradient_rows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/philox.hpp>

namespace tandem {
namespace cuda_gradient_rows_test {

// Of a float's digits: a square is exact, whether or not the compiler fuses it with the sum.
double number(int i) {
  return static_cast<double>(static_cast<float>(
      uniform(philox(3, RandomUse::user, static_cast<std::uint64_t>(i), 0).word[0]) - 0.3));
}

/// Sets of rows in one array of blocks, those of a set i ≡ set mod 3 of them.
struct Sets {
  static constexpr std::int64_t most = 5;
  static constexpr int width = 3;
  static constexpr int limit = 11;
  int count;
  std::vector<double> memory;
  std::int64_t block = gradient_rows_bytes(most, width, sizeof(double));

  explicit Sets(int n)
      : count{n},
        memory(static_cast<std::size_t>(n * gradient_rows_elements<double>(most, width))) {
    for (int s = 0; s < n; ++s) {
      auto const rows = at(s);
      *rows.count = s % 4 == 1 ? 0 : 1 + s % 5;
      for (int i = 0; i < *rows.count; ++i) {
        rows.row[i] = s % 3 + 2 * i;
        for (int c = 0; c < width; ++c) {
          rows.values_of(i)[c] = number(100 * s + 10 * i + c);
        }
      }
    }
  }
  GradientRows<double> at(int s) {
    return gradient_rows(memory.data() + s * block / std::int64_t{sizeof(double)}, most, width);
  }
  cuda::RowSets<double> view() { return {at(0), at(count > 1 ? 1 : 0), block, count}; }
  std::vector<double> dense(int s) {
    std::vector<double> all(limit * width);
    auto const rows = at(s);
    for (int i = 0; i < *rows.count; ++i) {
      std::copy_n(rows.values_of(i), width, all.begin() + rows.row[i] * width);
    }
    return all;
  }
};

/// What CUB does between the functors.
struct Sorted {
  std::vector<std::int32_t> position, begin;
  std::vector<std::int32_t> row;
  std::int32_t count = -1;

  Sorted(cuda::RowSets<double> const& sets, std::vector<std::int32_t> const& index) {
    auto const n = static_cast<std::int32_t>(static_cast<std::int64_t>(index.size()) +
                                             sets.count * sets.first.most);
    std::vector<std::uint32_t> key(static_cast<std::size_t>(n));
    position.resize(key.size());
    begin.assign(key.size() + 1, -1);
    row.assign(key.size(), -1);
    std::vector<std::int32_t> counted(key.size());
    for (std::int64_t i = 0; i < n; ++i) {
      cuda::RowKeys<double>{index.data(), static_cast<std::int64_t>(index.size()),
                            sets,         Sets::limit,
                            key.data(),   counted.data()}(i);
    }
    position = counted;
    std::stable_sort(position.begin(), position.end(), [&](std::int32_t a, std::int32_t b) {
      return key[static_cast<std::size_t>(a)] < key[static_cast<std::size_t>(b)];
    });
    std::vector<std::uint32_t> unique;
    for (std::size_t i = 0; i < key.size(); ++i) {
      auto const own = key[static_cast<std::size_t>(position[i])];
      if (unique.empty() || unique.back() != own) {
        begin[unique.size()] = static_cast<std::int32_t>(i);
        unique.push_back(own);
      }
    }
    auto const found = static_cast<std::int32_t>(unique.size());
    unique.resize(key.size());
    for (std::int64_t i = 0; i < n; ++i) {
      cuda::OpenRows{unique.data(), &found, Sets::limit, n, begin.data(), row.data(), &count}(i);
    }
  }
};

template <int N, int Levels>
void check_sum(int sets_count) {
  Sets sets{sets_count};
  Sorted const sorted{sets.view(), {}};
  std::vector<std::vector<double>> dense;
  for (int s = 0; s < sets_count; ++s) {
    dense.push_back(sets.dense(s));
  }
  std::vector<double> sum(Sets::limit * Sets::width);
  for (std::int32_t u = 0; u < sorted.count; ++u) {
    auto const i = static_cast<std::size_t>(u);
    CHECK((u == 0 || sorted.row[i] > sorted.row[i - 1]));
    for (int c = 0; c < Sets::width; c += N) {
      auto const pack = cuda::sum_row<N, Levels>(sets.view(), sorted.position.data(),
                                                 sorted.begin[i], sorted.begin[i + 1], c);
      for (int v = 0; v < N; ++v) {
        sum[static_cast<std::size_t>(sorted.row[i] * Sets::width + c + v)] = pack.value[v];
      }
    }
  }
  for (std::size_t e = 0; e < sum.size(); ++e) {
    auto const tree = [&](auto const& self, int first, int n) -> double {
      if (n == 1) {
        return dense[static_cast<std::size_t>(first)][e];
      }
      int half = 1;
      while (2 * half < n) {
        half *= 2;
      }
      return self(self, first, half) + self(self, first + half, n - half);
    };
    CHECK(sum[e] == tree(tree, 0, sets_count));
  }
}

TEST_CASE("rows of sets are added in the tree of dense gradients") {
  check_sum<1, 1>(1);
  check_sum<1, 1>(2);
  for (int n = 3; n <= 8; ++n) {
    check_sum<1, 3>(n);
  }
  for (int const n : {9, 16, 23, 256}) {
    check_sum<1, 8>(n);
  }
}

TEST_CASE("numbers of a pass come before those of the rows that were there") {
  Sets sets{1};
  std::vector<std::int32_t> const index{4, 0, 4, 10};
  Sorted const sorted{sets.view(), index};  // row 0 was there
  CHECK(sorted.count == 3);
  CHECK(std::vector<std::int32_t>(sorted.row.begin(), sorted.row.begin() + 3) ==
        std::vector<std::int32_t>{0, 4, 10});
  CHECK(sorted.begin[0] == 0);
  CHECK(sorted.begin[1] == 2);  // places 1 and, behind all four, that of the row before
  CHECK(sorted.position[0] == 1);
  CHECK(sorted.position[1] == 4);
  CHECK(sorted.begin[3] == 5);                         // four more are none
  Sorted const whole{cuda::RowSets<double>{}, index};  // nothing fills up
  CHECK(whole.count == 3);
  CHECK(whole.begin[3] == 4);
}

TEST_CASE("each chunk of a dense gradient is one row's, and its lanes have their numbers") {
  for (int const width : {1, 3, 8, 20}) {
    for (std::int64_t const length : {4, 7, 16, 64}) {
      constexpr int lanes = 4;
      std::vector<std::int32_t> const row{0, 1, 2, 5, 9, 10, 17};
      auto const count = static_cast<std::int32_t>(row.size());
      std::vector<double> value(row.size() * static_cast<std::size_t>(width));
      std::vector<double> dense(static_cast<std::size_t>(18 * width));
      for (std::size_t i = 0; i < value.size(); ++i) {
        value[i] = number(static_cast<int>(i));
        dense[static_cast<std::size_t>(row[i / static_cast<std::size_t>(width)] * width) +
              i % static_cast<std::size_t>(width)] = value[i];
      }
      cuda::RowChunks<double> const chunks{row.data(), count, value.data(), width, length};
      std::vector<int> spoken((dense.size() + static_cast<std::size_t>(length) - 1) /
                              static_cast<std::size_t>(length));
      for (std::int32_t i = 0; i < count; ++i) {
        for (std::int64_t c = chunks.first(i); c < chunks.last(i); ++c) {
          ++spoken[static_cast<std::size_t>(c)];
          for (int lane = 0; lane < lanes; ++lane) {
            double sum = 0;
            for (std::int64_t e = lane; e < length; e += lanes) {
              auto const at = static_cast<std::size_t>(c * length + e);
              sum += at < dense.size() ? dense[at] * dense[at] : 0.0;
            }
            CHECK(chunks.squares(i, c, lane, lanes) == sum);
          }
        }
      }
      for (std::size_t c = 0; c < spoken.size(); ++c) {
        bool any = false;
        for (std::size_t e = c * static_cast<std::size_t>(length);
             e < std::min(dense.size(), (c + 1) * static_cast<std::size_t>(length)); ++e) {
          any = any || dense[e] != 0.0;
        }
        CHECK(spoken[c] == (any ? 1 : 0));
      }
    }
  }
}

}  // namespace cuda_gradient_rows_test
}  // namespace tandem
