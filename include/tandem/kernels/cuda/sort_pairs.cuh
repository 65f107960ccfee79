// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// sort_pairs and first_of_equals: CUB's sort of keys with a value each, and its selection of the
/// first of equal keys. A captured graph may contain both: their sizes do not depend on the keys.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#if TANDEM_DEVICE_CODE
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#endif

#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Bits in which indices below @p count can differ, at least one.
/// @pre count >= 1
constexpr int index_bits(std::int64_t count) {
  int bits = 1;
  while ((std::int64_t{1} << bits) < count) {
    ++bits;
  }
  return bits;
}

/// Keys and their values in the device's memory, and where the results go.
template <class Value>
struct KeyedValues {
  std::uint32_t const* key;
  std::uint32_t* new_key;
  Value const* value;
  Value* new_value;
  std::int32_t count;
};

/// Queues a stable sort by the lowest @p bits bits of the keys, or writes to @p bytes how much
/// scratch memory that needs, if @p scratch is null.
///
/// Cost: a radix sort, bound by memory.
template <class Value>
void sort_pairs(Stream const& stream, KeyedValues<Value> const& all, int bits, void* scratch,
                std::size_t& bytes) {
  ScopedDevice const scope{stream.device()};
  check(cub::DeviceRadixSort::SortPairs(scratch, bytes, all.key, all.new_key, all.value,
                                        all.new_value, all.count, 0, bits, stream.get()));
}

/// Queues that of equal neighbours the first is kept, and that their number is written to @p found;
/// or writes to @p bytes how much scratch memory that needs, if @p scratch is null.
///
/// Cost: one pass over the pairs, bound by memory.
template <class Value>
void first_of_equals(Stream const& stream, KeyedValues<Value> const& all, std::int32_t* found,
                     void* scratch, std::size_t& bytes) {
  ScopedDevice const scope{stream.device()};
  check(cub::DeviceSelect::UniqueByKey(scratch, bytes, all.key, all.value, all.new_key,
                                       all.new_value, found, all.count, stream.get()));
}

}  // namespace tandem::cuda
