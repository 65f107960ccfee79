// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ArrayCutter: arrays one behind the other in one piece of memory, or how many bytes they take.

#include <cstddef>
#include <cstdint>

namespace tandem::cuda {

/// Cuts arrays from memory, each at a multiple of @p Step bytes of its beginning.
template <std::int64_t Step>
class ArrayCutter {
 public:
  explicit ArrayCutter(std::byte* memory) : memory_{memory} {}

  template <class E>
  E* next(std::int64_t count) {
    E* const here = memory_ != nullptr ? reinterpret_cast<E*>(memory_ + used_) : nullptr;
    used_ += (count * static_cast<std::int64_t>(sizeof(E)) + Step - 1) / Step * Step;
    return count > 0 ? here : nullptr;
  }
  [[nodiscard]] std::int64_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::int64_t used_ = 0;
};

}  // namespace tandem::cuda
