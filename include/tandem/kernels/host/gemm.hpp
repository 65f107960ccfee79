// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// C = [+=] op(A) op(B), row-major with leading dimensions.
///
/// Each member of the Team computes a range of the rows or of the columns of C alone, with its own
/// packed copies of A and B.

#include <algorithm>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/host/panels.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

enum class Transpose : bool { no, yes };

/// Elements of T that gemm needs as scratch for a Team of @p threads, whatever the sizes.
template <class T>
constexpr std::int64_t gemm_scratch(int threads) {
  return threads * (detail::left_block + detail::right_block);
}

/// C = [+=] op(A) op(B), op(X) = X or Xᵀ.
///
/// Shapes: op(A) (m, k), op(B) (k, n), C (m, n); scratch (gemm_scratch(team.size())). All
///         row-major; lda, ldb, ldc are the distances between rows of A, B, C as they lie in
///         memory.
/// Cost:   m n k multiply-accumulates; measured in bench/kernels/gemm_bench.cpp.
/// Order:  k in blocks of 256, each summed in order from 0 and added to C in order. The bits of an
///         element depend on its row of op(A), its column of op(B) and, with accumulate, its old
///         value.
/// @pre    C overlaps neither A nor B
template <class T>
TANDEM_NOINLINE void gemm(Team& team, Transpose transpose_a, Transpose transpose_b, int m, int n,
                          int k, T const* a, int lda, T const* b, int ldb, T* c, int ldc,
                          bool accumulate, T* scratch) {
  std::int64_t const a_row = transpose_a == Transpose::yes ? 1 : lda;
  std::int64_t const a_step = transpose_a == Transpose::yes ? lda : 1;
  std::int64_t const b_column = transpose_b == Transpose::yes ? ldb : 1;
  std::int64_t const b_step = transpose_b == Transpose::yes ? 1 : ldb;
  std::int64_t const members = team.size();
  team.parallel_for(members, [=](std::int64_t member, std::int64_t) {
    T* const left_scratch = scratch + member * (detail::left_block + detail::right_block);
    auto const left = [=](std::int64_t row, std::int64_t rows, std::int64_t p, std::int64_t depth) {
      for (std::int64_t i = 0; i < rows; i += detail::tile_rows) {
        detail::pack_panel<detail::tile_rows>(std::min<std::int64_t>(detail::tile_rows, rows - i),
                                              depth, a + (row + i) * a_row + p * a_step, a_row,
                                              a_step, left_scratch + i * depth);
      }
      return detail::LeftPanels<T>{left_scratch, detail::tile_rows * depth};
    };
    auto const right = [=](std::int64_t column, std::int64_t columns, std::int64_t p,
                           std::int64_t depth, T* panel) {
      detail::pack_panel<detail::tile_columns>(columns, depth, b + column * b_column + p * b_step,
                                               b_column, b_step, panel);
    };
    detail::MatrixStore<T> const store{c, ldc, accumulate};
    detail::multiply_blocks(detail::Part{m, n, member, members}, k, left, right, store,
                            left_scratch + detail::left_block);
  });
}

}  // namespace tandem::host
