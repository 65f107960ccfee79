// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Row: the numbers of one sample, as std::span has them, for functions that a GPU runs, too.

#include <cstddef>

#include <tandem/core/config.hpp>

namespace tandem {

/// A view of some numbers beside one another. Device code may not call what std::span has.
template <class T>
class Row {
 public:
  TANDEM_HOST_DEVICE constexpr Row(T* data, std::size_t size) : data_{data}, size_{size} {}

  TANDEM_HOST_DEVICE constexpr T& operator[](std::size_t i) const { return data_[i]; }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::size_t size() const { return size_; }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr T* data() const { return data_; }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr T* begin() const { return data_; }
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr T* end() const { return data_ + size_; }

 private:
  T* data_;
  std::size_t size_;
};

}  // namespace tandem
