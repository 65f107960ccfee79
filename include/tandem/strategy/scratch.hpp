// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Scratch: memory of an algorithm that runs at compile time and at run time.
///
/// Its size may be known at run time only; in a constant evaluation, g++ 12 and clang 14 have no
/// std::vector.

#include <cstddef>

namespace tandem::detail {

template <class T>
class Scratch {
 public:
  /// @p size elements, each T{}
  constexpr explicit Scratch(int size)
      : data_{new T[static_cast<std::size_t>(size > 0 ? size : 1)]{}} {}
  constexpr Scratch(int size, T value) : Scratch{size} {
    for (int i = 0; i < size; ++i) {
      data_[i] = value;
    }
  }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  constexpr ~Scratch() { delete[] data_; }

  /// In a long evaluation, take this once: an access through it costs the compiler no call.
  constexpr T* data() { return data_; }
  constexpr T const* data() const { return data_; }
  constexpr T& operator[](int i) { return data_[i]; }
  constexpr T const& operator[](int i) const { return data_[i]; }

 private:
  T* data_;
};

}  // namespace tandem::detail
