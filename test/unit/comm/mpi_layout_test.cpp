// SPDX-License-Identifier: Apache-2.0
// What needs no MPI of ranks in several processes; test/mpi has the rest.
#include <tandem/comm/mpi/layout.hpp>
#include <tandem/comm/mpi/tree.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/philox.hpp>

namespace tandem {
namespace mpi_layout_test {

using detail::MpiLayout;
using detail::TreePiece;
using Pieces = std::vector<TreePiece>;

RankSet first_ranks(int ranks) {
  RankSet set;
  for (int rank = 0; rank < ranks; ++rank) {
    set.ranks.push_back(rank);
  }
  return set;
}

TEST_CASE("mpi layout: a process has the largest subtrees that are all its own") {
  MpiLayout const even{first_ranks(4), 2, 1};
  CHECK(even.processes() == std::vector<int>{0, 1});
  CHECK(even.own() == 1);
  CHECK(even.pieces(0) == Pieces{{0, 2}});
  CHECK(even.pieces(1) == Pieces{{2, 2}});
  MpiLayout const odd{first_ranks(6), 3, 0};  // ((0 1)(2 3))(4 5)
  CHECK(odd.pieces(0) == Pieces{{0, 2}, {2, 1}});
  CHECK(odd.pieces(1) == Pieces{{3, 1}, {4, 2}});
  CHECK(odd.most_members() == 3);
  MpiLayout const mixed{{.ranks = {5, 0, 4, 1}}, 2, 2};
  CHECK(mixed.processes() == std::vector<int>{0, 2});
  CHECK(mixed.own() == 1);
  CHECK(mixed.members(1) == std::vector<int>{0, 2});
  CHECK(mixed.local_of(2) == 1);
  CHECK(mixed.pieces(1) == Pieces{{0, 1}, {2, 1}});
  CHECK(MpiLayout{{.ranks = {0, 1}}, 2, 1}.own() == -1);
}

TEST_CASE("mpi tree: parts that are joined elsewhere give the bits of one tree, of any ranks") {
  constexpr std::size_t count = 2500;
  for (int ranks = 2; ranks <= 300; ranks += ranks < 20 ? 1 : 31) {
    std::vector<std::vector<float>> inputs;
    std::vector<float const*> pointers;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& own = inputs.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i) {
        Random4 const r = philox(3, RandomUse::user, i, static_cast<std::uint64_t>(rank));
        own[i] = (uniform(r.word[0]) - 0.5F) * (r.word[1] % 3 == 0 ? 1e6F : 1.0F);
      }
    }
    for (auto const& own : inputs) {
      pointers.push_back(own.data());
    }
    std::vector<float> expected(count);
    detail::TreeOfParts<float> whole{ranks};
    for (int rank = 0; rank < ranks; ++rank) {
      whole.set({rank, 1}, pointers[std::size_t(rank)]);
    }
    if (ranks <= max_tree_ranks) {
      float* const out = expected.data();
      reduce_in_tree(std::span<float const* const>{pointers}, 0, count,
                     std::span<float* const>{&out, 1}, Sum{});
    } else {
      whole.evaluate({0, ranks}, count, expected.data(), Sum{});
    }
    for (int const each : {1, 2, 3, 7}) {
      MpiLayout const layout{first_ranks(ranks), each, 0};
      detail::TreeOfParts<float> top{ranks};
      std::vector<std::vector<float>> joined;
      joined.reserve(static_cast<std::size_t>(ranks));
      for (int p = 0; p < static_cast<int>(layout.processes().size()); ++p) {
        for (TreePiece const& piece : layout.pieces(p)) {
          whole.evaluate(piece, count, joined.emplace_back(count).data(), Sum{});
          top.set(piece, joined.back().data());
        }
      }
      std::vector<float> got(count);
      top.evaluate({0, ranks}, count, got.data(), Sum{});
      INFO(ranks << " ranks, " << each << " a process");
      CHECK(got == expected);
    }
  }
}

}  // namespace mpi_layout_test
}  // namespace tandem
