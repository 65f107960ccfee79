// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// gemm(): C = A B + beta C of row-major matrices by oneDNN.

#include <cstdint>

#include <oneapi/dnnl/dnnl.h>

#include <tandem/kernels/onednn/status.hpp>

namespace tandem::onednn {

/// A matrix in memory, row after row; `stride` numbers from one row to the next.
struct Matrix {
  float const* data;
  std::int64_t stride;
  bool transposed = false;  ///< what lies there is the transpose of what is meant
};

/// C (m, n) = A (m, k) B (k, n), added to what C holds where @p accumulate.
/// Order: fixed by the shape and the number of threads.
inline void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Matrix const& a, Matrix const& b,
                 bool accumulate, float* c, std::int64_t c_stride) {
  check(dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data,
                   a.stride, b.data, b.stride, accumulate ? 1.0F : 0.0F, c, c_stride));
}

}  // namespace tandem::onednn
