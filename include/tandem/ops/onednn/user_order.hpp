// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UserOrder: values of one shape in the order and type that users know, (B, C, H, W) of P, for
/// what is written by users or looks at single elements.

#include <cstdint>
#include <type_traits>

#include <tandem/core/shape.hpp>
#include <tandem/kernels/channels_last/layout.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::host::channels_last {

/// Converts between what is stored, channels-last of T, and what users see, by way of memory that
/// the caller has; where both are the same nothing is copied and no memory is wanted.
template <class T, class P>
class UserOrder {
 public:
  explicit UserOrder(Shape shape)
      : channels_{shape.timed ? 1 : shape[0]},
        pixels_{shape.row_elements() / channels_},
        same_{std::is_same_v<T, P> && (channels_ == 1 || pixels_ == 1)},
        elements_{same_ ? 0 : shape.row_elements()} {}

  /// Elements of P that the caller must have for one array of @p batch samples, or as many rows of
  /// sequences, a multiple of 16.
  [[nodiscard]] std::int64_t elements(int batch) const {
    return (batch * elements_ + 15) / 16 * 16;
  }

  /// @p stored as users see it; valid until @p memory is written.
  P const* read(Device& device, int batch, T const* stored, P* memory) const {
    if constexpr (std::is_same_v<T, P>) {
      if (same_) {
        return stored;
      }
    }
    if (stored == nullptr) {
      return nullptr;
    }
    from_channels_last(device.team, batch, channels_, pixels_, stored, memory);
    return memory;
  }

  /// Where users write what write() then stores in @p stored.
  P* writable(T* stored, P* memory) const {
    if constexpr (std::is_same_v<T, P>) {
      if (same_) {
        return stored;
      }
    }
    return stored != nullptr ? memory : nullptr;
  }

  void write(Device& device, int batch, P const* memory, T* stored) const {
    if (!same_ && stored != nullptr) {
      to_channels_last(device.team, batch, channels_, pixels_, memory, stored);
    }
  }

 private:
  int channels_;
  std::int64_t pixels_;
  bool same_;
  std::int64_t elements_;
};

}  // namespace tandem::host::channels_last
