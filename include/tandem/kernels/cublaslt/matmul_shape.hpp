// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MatmulShape: the sizes of a matrix product, row-major; no CUDA header needed.

#include <cstdint>
#include <string>

#include <tandem/core/contract.hpp>

namespace tandem::cuda {

/// op(X) = X or Xᵀ.
enum class Transpose : bool { no, yes };

/// How a product of floats rounds its inputs: not at all, or to 10 fraction bits.
enum class MatmulMath : bool { full, tf32 };

/// What a product does besides; of one group, and only where cuBLASLt has it for the precision.
enum class Epilogue : std::uint8_t {
  none,
  relu,           ///< D = max(D, 0)
  gelu,           ///< D = GELU(D), by tanh
  saved_gelu,     ///< the same, and D as it was before is written, too
  gelu_gradient,  ///< D = D GELU'(z), z as saved_gelu wrote it
  row_sums,       ///< the sum of each row of op(A) is written, too
};

/// D = alpha op(A) op(B) + beta D, `groups` times over.
///
/// Shapes: op(A) (m, k), op(B) (k, n), D (m, n), all row-major; lda, ldb, ldd are the distances
///         between rows of A, B, D as they lie in memory. The matrices of group g begin g stride_a,
///         g stride_b, g stride_d elements after the first's.
struct MatmulShape {
  Transpose transpose_a = Transpose::no;
  Transpose transpose_b = Transpose::no;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldd = 0;
  std::int64_t groups = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_d = 0;
  bool bias = false;  ///< adds a vector (n) to each row of D first; one group only
  Epilogue epilogue = Epilogue::none;
  int alignment_a = 16;  ///< bytes; every A begins at a multiple of it, likewise B and D
  int alignment_b = 16;
  int alignment_d = 16;

  friend constexpr bool operator==(MatmulShape const&, MatmulShape const&) = default;
};

/// "512 x 64 x 576" (m, n, k), for messages.
inline std::string to_string(MatmulShape const& s) {
  std::string text =
      std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k);
  return s.groups == 1 ? text : std::to_string(s.groups) + " times " + text;
}

/// The largest power of two, at most 16, that divides @p bytes; 16 for 0.
constexpr int alignment_of(std::int64_t bytes) {
  int alignment = 16;
  while (bytes % alignment != 0) {
    alignment /= 2;
  }
  return alignment;
}

/// Whether cuBLASLt could have an epilogue for rows of n: it wants what GELU saves so.
constexpr bool takes_epilogue(std::int64_t n, Epilogue epilogue) {
  bool const saves = epilogue == Epilogue::saved_gelu || epilogue == Epilogue::gelu_gradient;
  return !saves || n % 8 == 0;
}

/// @throws ContractError  a negative size, rows that overlap, or what an epilogue cannot do
constexpr void expect_sound(MatmulShape const& s) {
  expects(s.m >= 0 && s.n >= 0 && s.k >= 0 && s.groups >= 0, "Matmul: sizes are 0 or more");
  expects(s.lda >= (s.transpose_a == Transpose::yes ? s.m : s.k) &&
              s.ldb >= (s.transpose_b == Transpose::yes ? s.k : s.n) && s.ldd >= s.n,
          "Matmul: the distance between rows is at least their length");
  expects(!s.bias || (s.groups == 1 && s.k > 0), "Matmul: a bias wants one group, and k above 0");
  expects(s.epilogue == Epilogue::none || (s.groups == 1 && s.k > 0),
          "Matmul: an epilogue wants one group, and k above 0");
  expects(takes_epilogue(s.n, s.epilogue), "Matmul: a saved GELU wants n to be a multiple of 8");
}

}  // namespace tandem::cuda
