// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DeviceArray: an array in a GPU's memory for tests of kernels, poisoned and guarded.
///
/// What a kernel forgets to write, or reads outside, is a NaN; what it writes outside, host()
/// finds.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem::test {

struct DeviceArrayOptions {
  bool unaligned = false;  ///< start one element after a multiple of 256 bytes
};

/// @p T is float, double, BFloat16, an integer or a small struct of them.
template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// A copy of @p values.
  DeviceArray(cuda::RankDevice& device, std::vector<T> const& values,
              DeviceArrayOptions options = {})
      : device_{&device},
        count_{values.size()},
        before_{guard + (options.unaligned ? sizeof(T) : 0)},
        memory_{device, before_ + values.size() * sizeof(T) + guard} {
    std::vector<unsigned char> bytes = poison(memory_.bytes());
    if (!values.empty()) {
      std::memcpy(bytes.data() + before_, values.data(), values.size() * sizeof(T));
    }
    cuda::copy_bytes(memory_.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice,
                     device.compute);
    device.compute.synchronize();
  }

  /// @p count elements of poison: NaN where T has one, and no sum of it equals it.
  template <std::integral Count>
  DeviceArray(cuda::RankDevice& device, Count count, DeviceArrayOptions options = {})
      : DeviceArray{device, poisoned(static_cast<std::size_t>(count)), options} {}

  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_.data() + before_); }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(count_); }

  /// The elements after all work queued on the compute stream so far, for which it waits.
  /// @throws std::runtime_error  something was written outside of the array
  [[nodiscard]] std::vector<T> host() const {
    std::vector<unsigned char> bytes(memory_.bytes());
    cuda::copy_bytes(bytes.data(), memory_.data(), bytes.size(), cudaMemcpyDeviceToHost,
                     device_->compute);
    device_->compute.synchronize();
    check_guards(bytes);
    std::vector<T> values(count_);
    if (count_ > 0) {
      std::memcpy(values.data(), bytes.data() + before_, count_ * sizeof(T));
    }
    return values;
  }

 private:
  static constexpr std::size_t guard = 256;

  // Signalling NaNs of any element type: an addition to one makes it quiet, and so is seen too.
  static unsigned char poison_byte(std::size_t index) {
    std::size_t const from_top = sizeof(T) - 1 - index % sizeof(T);  // little-endian
    return from_top == 0 ? 0xFF : from_top == 1 && sizeof(T) == 8 ? 0xF5 : 0xA5;
  }
  static std::vector<unsigned char> poison(std::size_t bytes) {
    std::vector<unsigned char> result(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      result[i] = poison_byte(i);
    }
    return result;
  }
  static std::vector<T> poisoned(std::size_t count) {
    std::vector<unsigned char> const bytes = poison(count * sizeof(T));
    std::vector<T> values(count);
    if (count > 0) {
      std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
    }
    return values;
  }

  void check_guards(std::vector<unsigned char> const& bytes) const {
    std::size_t const end = before_ + count_ * sizeof(T);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if ((i < before_ || i >= end) && bytes[i] != poison_byte(i)) {
        auto const offset = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(before_);
        throw std::runtime_error{"a kernel wrote outside of an array of " + std::to_string(count_) +
                                 " elements, at byte " + std::to_string(offset) +
                                 " from its start"};
      }
    }
  }

  cuda::RankDevice* device_;
  std::size_t count_;
  std::size_t before_;
  cuda::Buffer memory_;
};

}  // namespace tandem::test
