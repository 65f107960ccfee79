// SPDX-License-Identifier: Apache-2.0

#include <tandem/comm/fixed_tree.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/core/philox.hpp>

namespace tandem {
namespace fixed_tree_test {

/// Neither associative nor commutative, so that every order of joining has a result of its own.
struct Mix {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const noexcept {
    return (a * 0x9E3779B97F4A7C15U ^ (a >> 29)) + b * 3 + 1;
  }
};

/// The same tree written another way: the carries of a binary counter.
std::uint64_t binary_counter(std::vector<std::uint64_t> const& leaves) {
  std::vector<std::uint64_t> sum(16);
  std::vector<bool> full(16, false);
  for (std::uint64_t value : leaves) {
    std::size_t level = 0;
    for (; full[level]; ++level) {
      value = Mix{}(sum[level], value);
      full[level] = false;
    }
    sum[level] = value;
    full[level] = true;
  }
  std::uint64_t result = 0;
  bool any = false;
  for (std::size_t level = 0; level < 16; ++level) {
    if (full[level]) {
      result = any ? Mix{}(sum[level], result) : sum[level];
      any = true;
    }
  }
  return result;
}

std::uint64_t joined(std::vector<std::uint64_t> const& leaves) {
  std::vector<std::uint64_t const*> inputs;
  for (std::uint64_t const& leaf : leaves) {
    inputs.push_back(&leaf);
  }
  std::uint64_t result = 0;
  std::uint64_t* const output = &result;
  reduce_in_tree(std::span<std::uint64_t const* const>{inputs}, 0, 1,
                 std::span<std::uint64_t* const>{&output, 1}, Mix{});
  return result;
}

TEST_CASE("the tree of a few ranks, spelled out") {
  auto const op = [](std::uint64_t a, std::uint64_t b) { return Mix{}(a, b); };
  std::uint64_t const a = 11, b = 23, c = 35, d = 47, e = 59, f = 61, g = 73;
  CHECK(joined({a}) == a);
  CHECK(joined({a, b}) == op(a, b));
  CHECK(joined({a, b, c}) == op(op(a, b), c));
  CHECK(joined({a, b, c, d}) == op(op(a, b), op(c, d)));
  CHECK(joined({a, b, c, d, e}) == op(op(op(a, b), op(c, d)), e));
  CHECK(joined({a, b, c, d, e, f}) == op(op(op(a, b), op(c, d)), op(e, f)));
  CHECK(joined({a, b, c, d, e, f, g}) == op(op(op(a, b), op(c, d)), op(op(e, f), g)));
}

TEST_CASE("the tree of any number of ranks is that of a binary counter") {
  for (unsigned ranks = 1; ranks <= max_tree_ranks; ++ranks) {
    std::vector<std::uint64_t> leaves;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      leaves.push_back(philox(1, RandomUse::user, rank, ranks).word[0]);
    }
    CAPTURE(ranks);
    CHECK(joined(leaves) == binary_counter(leaves));
  }
}

TEST_CASE("blocks and chunks do not change a bit, nor touch what is outside of them") {
  constexpr std::size_t count = 5000;  // several blocks and a rest
  for (std::size_t const ranks : {1U, 2U, 3U, 5U, 8U, 9U, 20U, 70U}) {
    std::vector<std::vector<double>> in(ranks, std::vector<double>(count));
    std::vector<double const*> inputs;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < count; ++i) {
        in[rank][i] = static_cast<double>(philox(2, RandomUse::user, i, rank).word[0]) / 7.0;
      }
      inputs.push_back(in[rank].data());
    }
    auto const reduce = [&](std::vector<double>& out, std::size_t begin, std::size_t end) {
      double* const output = out.data();
      reduce_in_tree(std::span<double const* const>{inputs}, begin, end,
                     std::span<double* const>{&output, 1}, Sum{});
    };
    std::vector<double> whole(count);
    reduce(whole, 0, count);
    std::vector<double> parts(count, -1.0);
    reduce(parts, 0, 1);
    reduce(parts, 1, 700);
    CHECK(parts[0] == whole[0]);
    CHECK(parts[699] == whole[699]);
    CHECK(parts[700] == -1.0);
    reduce(parts, 700, 700);
    CHECK(parts[700] == -1.0);
    reduce(parts, 700, count);
    CHECK(parts == whole);

    std::vector<double*> outputs;  // in place, of all ranks, as in an all-reduce
    for (std::vector<double>& own : in) {
      outputs.push_back(own.data());
    }
    std::vector<double> const last = in.back();
    reduce_in_tree(std::span<double const* const>{inputs}, 3, count - 1,
                   std::span<double* const>{outputs}, Sum{});
    for (std::vector<double> const& own : in) {
      CHECK(std::equal(own.begin() + 3, own.end() - 1, whole.begin() + 3));
    }
    CHECK(in.back()[2] == last[2]);
    CHECK(in.back()[count - 1] == last[count - 1]);
  }
}

TEST_CASE("a sum of each of some elements is the tree of a few ranks") {
  constexpr std::size_t count = 1100;  // blocks, lines and a rest
  for (std::size_t const ranks : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 13U, 31U}) {
    std::vector<std::vector<std::uint64_t>> in(ranks, std::vector<std::uint64_t>(count));
    std::vector<std::uint64_t const*> inputs;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < count; ++i) {
        in[rank][i] = philox(3, RandomUse::user, i, rank).word[1];
      }
      inputs.push_back(in[rank].data());
    }
    std::vector<std::uint64_t> out(count);
    std::uint64_t* const output = out.data();
    reduce_in_tree(std::span<std::uint64_t const* const>{inputs}, 0, count,
                   std::span<std::uint64_t* const>{&output, 1}, Mix{});
    int wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::uint64_t> leaves;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        leaves.push_back(in[rank][i]);
      }
      wrong += out[i] == binary_counter(leaves) ? 0 : 1;
    }
    CAPTURE(ranks);
    CHECK(wrong == 0);
  }
}

TEST_CASE("no rank, or too many") {
  std::vector<float const*> inputs(max_tree_ranks + 1);
  std::span<float const* const> const all{inputs};
  CHECK_THROWS_WITH_AS(reduce_in_tree(all, 0, 0, std::span<float* const>{}, Sum{}),
                       doctest::Contains("between 1 and 256"), ContractError);
  CHECK_THROWS_AS(reduce_in_tree(all.first(0), 0, 0, std::span<float* const>{}, Sum{}),
                  ContractError);
}

}  // namespace fixed_tree_test
}  // namespace tandem
