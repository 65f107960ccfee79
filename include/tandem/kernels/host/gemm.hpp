// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// C = [+=] op(A) op(B), row-major with leading dimensions.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::host {

enum class Transpose : bool { no, yes };

/// Elements of T that gemm needs as scratch for a Team of @p threads.
template <class T>
constexpr std::int64_t gemm_scratch(int threads) {
  return threads;
}

template <class T>
TANDEM_NOINLINE void gemm(Team& team, Transpose transpose_a, Transpose transpose_b, int m, int n,
                          int k, T const* a, int lda, T const* b, int ldb, T* c, int ldc,
                          bool accumulate, T* scratch) {
  static_cast<void>(scratch);
  team.parallel_for(m, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        T total{0};
        for (std::int64_t p = 0; p < k; ++p) {
          T const left = transpose_a == Transpose::yes ? a[p * lda + i] : a[i * lda + p];
          T const right = transpose_b == Transpose::yes ? b[j * ldb + p] : b[p * ldb + j];
          total += left * right;
        }
        c[i * ldc + j] = accumulate ? c[i * ldc + j] + total : total;
      }
    }
  });
}

}  // namespace tandem::host
