// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::DeviceSelect (CCCL 3.0): UniqueByKey.

#include <cstdint>
#include <vector>

#include <cub/emulated/device_call.cuh>

namespace cub {

struct DeviceSelect {
  /// The first of equal neighbouring keys, with its value. Behind them the outputs keep what they
  /// had, but CUB wants room for all.
  template <class Key, class Value, class KeyOut, class ValueOut, class Count, class NumItemsT>
  static cudaError_t UniqueByKey(void* scratch, std::size_t& bytes, Key const* keys_in,
                                 Value const* values_in, KeyOut* keys_out, ValueOut* values_out,
                                 Count* num_selected, NumItemsT num_items,
                                 cudaStream_t stream = nullptr) {
    constexpr char const* name = "cub::DeviceSelect";
    auto const n = static_cast<std::int64_t>(num_items);
    if (scratch != nullptr && (!emulated::usable(keys_in, n, stream, name) ||
                               !emulated::usable(values_in, n, stream, name) ||
                               !emulated::usable(keys_out, n, stream, name) ||
                               !emulated::usable(values_out, n, stream, name) ||
                               !emulated::usable(num_selected, 1, stream, name))) {
      return cudaErrorIllegalAddress;
    }
    return emulated::with_scratch(scratch, bytes, n, stream, name, [=] {
      std::vector<Key> const keys(keys_in, keys_in + n);
      std::vector<Value> const values(values_in, values_in + n);
      Count selected = 0;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (i == 0 || !(keys[i] == keys[i - 1])) {
          keys_out[selected] = keys[i];
          values_out[selected] = values[i];
          ++selected;
        }
      }
      *num_selected = selected;
    });
  }
};

}  // namespace cub
