// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::TreeOfParts: the tree of comm/fixed_tree.hpp over inputs of which some are already
/// joined: the same bits, whoever has joined them.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/mpi/layout.hpp>
#include <tandem/core/contract.hpp>

namespace tandem::detail {

/// Inputs of any number of ranks, by the subtree that each stands for.
template <class T>
class TreeOfParts {
 public:
  explicit TreeOfParts(int ranks) : part_(std::size_t(ranks)) {}

  /// @p values are those of a subtree; its element 0 is the result's.
  void set(TreePiece piece, T const* values) {
    part_[std::size_t(piece.first)] = {values, piece.count};
  }

  /// out[i] = op over the parts of the subtree @p of, for i in [0, count). out is a part or
  /// overlaps none. Cost: bound by memory; no allocation.
  template <class Op>
  void evaluate(TreePiece of, std::size_t count, T* out, Op op) const {
    // Two blocks are needed at most for each level, of which an int has 31.
    alignas(64) T blocks[levels][tree_block<T>];
    for (std::size_t i = 0; i < count; i += tree_block<T>) {
      std::size_t const some = std::min(tree_block<T>, count - i);
      T const* const joined = value(of, i, some, op, blocks);
      if (joined != out + i) {
        std::memcpy(out + i, joined, some * sizeof(T));
      }
    }
  }

 private:
  struct Part {
    T const* values = nullptr;
    int count = 0;
  };
  static constexpr int levels = 32;

  template <class Op>
  T const* value(TreePiece of, std::size_t begin, std::size_t some, Op op,
                 T (*block)[tree_block<T>]) const {
    Part const& part = part_[std::size_t(of.first)];
    if (part.count == of.count) {
      return part.values + begin;
    }
    TANDEM_ASSERT(of.count > 1);
    int const half = tree_half(of.count);
    T const* const left = value({of.first, half}, begin, some, op, block);
    T const* const right = value({of.first + half, of.count - half}, begin, some, op, block + 1);
    T* const joined = *block;
    for (std::size_t i = 0; i < some; ++i) {  // joined may be left
      joined[i] = op(left[i], right[i]);
    }
    return joined;
  }

  std::vector<Part> part_;  // by the first rank of each
};

}  // namespace tandem::detail
