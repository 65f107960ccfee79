// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Scratch: memory of an algorithm that runs at compile time and at run time.
///
/// Its size may be known at run time only; in a constant evaluation, g++ 12 and clang 14 have no
/// std::vector.

#include <cstddef>
#include <cstdint>

#include <tandem/core/contract.hpp>

namespace tandem::detail {

/// Of one array: what the sizes of a table multiply to is refused beyond this, not asked of the
/// machine.
inline constexpr std::int64_t most_scratch_bytes = std::int64_t{1} << 30;

template <class T>
class Scratch {
 public:
  /// @p size elements, each T{}; a product is to be one of 64 bits
  /// @throws ContractError  they would take more than most_scratch_bytes
  constexpr explicit Scratch(std::int64_t size) : data_{make(size)} {}
  constexpr Scratch(std::int64_t size, T value) : Scratch{size} {
    for (std::int64_t i = 0; i < size; ++i) {
      data_[i] = value;
    }
  }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  constexpr ~Scratch() { delete[] data_; }

  /// In a long evaluation, take this once: an access through it costs the compiler no call.
  constexpr T* data() { return data_; }
  constexpr T const* data() const { return data_; }
  constexpr T& operator[](std::int64_t i) { return data_[i]; }
  constexpr T const& operator[](std::int64_t i) const { return data_[i]; }

 private:
  static constexpr T* make(std::int64_t size) {
    expects(size <= most_scratch_bytes / static_cast<std::int64_t>(sizeof(T)),
            "an action table is too large: its stages times its microbatches, or links times "
            "depth, would take more than 1 GiB; give smaller numbers");
    return new T[static_cast<std::size_t>(size > 0 ? size : 1)]{};
  }

  T* data_;
};

}  // namespace tandem::detail
