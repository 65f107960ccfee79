// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Small sums around oneDNN's gradients of parameters: adding a staged one, and sums of columns.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/kernels/channels_last/vectors.hpp>
#include <tandem/kernels/host/wide.hpp>
#include <tandem/runtime/host/team.hpp>

namespace tandem::onednn {

/// Bytes that keep what follows at a multiple of 64.
constexpr std::int64_t rounded_up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// to[i] += from[i], or = without @p accumulate. Cost: bound by memory.
TANDEM_ONCE TANDEM_NOINLINE void deliver(float const* from, float* to, std::int64_t count,
                                         bool accumulate);

/// sums[c] = the sum over rows of matrix[r][c]; added with @p accumulate.
///
/// Shapes: matrix (rows, columns), row r at matrix + r * stride; sums (columns).
/// Cost:   reads the matrix once; bound by memory.
/// Order:  fixed by the shape: floats over blocks of 64 rows, then doubles over the blocks.
template <class T>
TANDEM_NOINLINE void column_sum(host::Team& team, T const* matrix, std::int64_t rows,
                                std::int64_t columns, std::int64_t stride, float* sums,
                                bool accumulate) {
  namespace vectors = host::channels_last;
  using vectors::Floats;
  constexpr int most = 4;
  constexpr std::int64_t wide = most * vectors::lanes;
  constexpr std::int64_t block = 64;
  team.parallel_for((columns + wide - 1) / wide, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      std::int64_t const begin = part * wide;
      std::int64_t const count = std::min(wide, columns - begin);
      double total[wide] = {};
      for (std::int64_t row = 0; row < rows; row += block) {
        std::int64_t const end = std::min(rows, row + block);
        Floats sum[most] = {Floats{0.0F}, Floats{0.0F}, Floats{0.0F}, Floats{0.0F}};
        for (std::int64_t r = row; r < end; ++r) {
          T const* const at = matrix + r * stride + begin;
          if (count == wide) {
            for (int v = 0; v < most; ++v) {
              sum[v] += vectors::load(at + v * vectors::lanes);
            }
          } else {
            host::for_wide<T>(0, count, [&](std::int64_t c, auto some) {
              sum[c / vectors::lanes] += some.load(at + c);
            });
          }
        }
        float of_block[wide];
        for (int v = 0; v < most; ++v) {
          store(of_block + v * vectors::lanes, sum[v]);
        }
        for (std::int64_t c = 0; c < count; ++c) {
          total[c] += static_cast<double>(of_block[c]);
        }
      }
      for (std::int64_t c = 0; c < count; ++c) {
        float const sum = static_cast<float>(total[c]);
        sums[begin + c] = accumulate ? sums[begin + c] + sum : sum;
      }
    }
  });
}

}  // namespace tandem::onednn

#if TANDEM_BODIES

namespace tandem::onednn {

TANDEM_ONCE void deliver(float const* from, float* to, std::int64_t count, bool accumulate) {
  if (!accumulate) {
    std::copy(from, from + count, to);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] += from[i];
  }
}

}  // namespace tandem::onednn

#endif
