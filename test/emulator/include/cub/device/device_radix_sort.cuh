// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::DeviceRadixSort (CCCL 3.0): SortPairs, by some bits of unsigned keys.

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

#include <cub/emulated/device_call.cuh>

namespace cub {

struct DeviceRadixSort {
  /// Stable; reads the inputs before it writes, but CUB forbids that they overlap the outputs.
  template <class Key, class Value, class NumItemsT>
  static cudaError_t SortPairs(void* scratch, std::size_t& bytes, Key const* keys_in, Key* keys_out,
                               Value const* values_in, Value* values_out, NumItemsT num_items,
                               int begin_bit = 0, int end_bit = sizeof(Key) * 8,
                               cudaStream_t stream = nullptr) {
    static_assert(std::is_unsigned_v<Key>, "the emulator sorts by the bits of unsigned keys only");
    constexpr char const* name = "cub::DeviceRadixSort";
    auto const n = static_cast<std::int64_t>(num_items);
    if (begin_bit < 0 || end_bit < begin_bit || end_bit > static_cast<int>(sizeof(Key)) * 8) {
      return cudaErrorInvalidValue;
    }
    if (scratch != nullptr && (!emulated::usable(keys_in, n, stream, name) ||
                               !emulated::usable(keys_out, n, stream, name) ||
                               !emulated::usable(values_in, n, stream, name) ||
                               !emulated::usable(values_out, n, stream, name))) {
      return cudaErrorIllegalAddress;
    }
    return emulated::with_scratch(scratch, bytes, n, stream, name, [=] {
      std::vector<Key> const keys(keys_in, keys_in + n);
      std::vector<Value> const values(values_in, values_in + n);
      std::vector<std::size_t> order(keys.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      int const bits = end_bit - begin_bit;
      Key const mask = bits == static_cast<int>(sizeof(Key)) * 8
                           ? static_cast<Key>(-1)
                           : static_cast<Key>((Key{1} << bits) - 1);
      auto const digit = [&](std::size_t i) {
        return bits == 0 ? Key{0} : static_cast<Key>((keys[i] >> begin_bit) & mask);
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return digit(a) < digit(b); });
      for (std::size_t i = 0; i < order.size(); ++i) {
        keys_out[i] = keys[order[i]];
        values_out[i] = values[order[i]];
      }
    });
  }
};

}  // namespace cub
