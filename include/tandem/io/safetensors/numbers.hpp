// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Floats of any type out of a file's tensor, a matrix also transposed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/io/safetensors/dtype.hpp>

namespace tandem {

/// Whether copy_numbers() reads it.
constexpr bool is_float(Dtype dtype) {
  return dtype == Dtype::F64 || dtype == Dtype::F32 || dtype == Dtype::F16 || dtype == Dtype::BF16;
}

namespace detail {

template <class Stored, class T>
void copy_stored(std::byte const* from, T* to, std::int64_t rows, std::int64_t columns,
                 bool transposed) {
  constexpr std::int64_t block = 32;  // rows and columns of a tile that stays in the cache
  std::int64_t const row = transposed ? 1 : columns;  // elements of `from` from one to the next
  std::int64_t const column = transposed ? rows : 1;
  for (std::int64_t i = 0; i < rows; i += block) {
    for (std::int64_t j = 0; j < columns; j += block) {
      for (std::int64_t r = i; r < std::min(i + block, rows); ++r) {
        for (std::int64_t c = j; c < std::min(j + block, columns); ++c) {
          Stored number;
          std::memcpy(&number, from + (r * row + c * column) * std::int64_t{sizeof(Stored)},
                      sizeof number);
          to[r * columns + c] = static_cast<T>(number);
        }
      }
    }
  }
}

}  // namespace detail

/// to = the numbers at @p from, aligned to nothing, rounded where T has fewer bits.
///
/// Shapes: to (rows, columns); from as to, or (columns, rows) where @p transposed.
/// Cost:   reads and writes each number once. Allocates nothing, cannot fail.
/// @pre    is_float(dtype)
template <class T>
void copy_numbers(Dtype dtype, std::byte const* from, T* to, std::int64_t rows,
                  std::int64_t columns, bool transposed) noexcept {
  switch (dtype) {
    case Dtype::F64:
      return detail::copy_stored<double>(from, to, rows, columns, transposed);
    case Dtype::F16:
      return detail::copy_stored<Float16>(from, to, rows, columns, transposed);
    case Dtype::BF16:
      return detail::copy_stored<BFloat16>(from, to, rows, columns, transposed);
    default:
      return detail::copy_stored<float>(from, to, rows, columns, transposed);
  }
}

}  // namespace tandem
