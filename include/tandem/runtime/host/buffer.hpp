// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Buffer: aligned host memory that starts as zeros, owned and move-only.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <tandem/core/available_memory.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/runtime/host/huge_pages.hpp>

namespace tandem::host {

/// `bytes` of memory aligned as alignment_of() says, zero at first; in huge pages where there are
/// any.
class Buffer {
 public:
  Buffer() = default;

  /// @throws Error  the machine has not so much memory; the message says how much was asked for
  TANDEM_ONCE explicit Buffer(std::size_t bytes);

  /// The same; all host devices share one memory.
  template <class Device>
  Buffer(Device& /*device*/, std::size_t bytes) : Buffer{bytes} {}

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem::host

#if TANDEM_BODIES

namespace tandem::host {

TANDEM_ONCE Buffer::Buffer(std::size_t bytes) : bytes_{bytes} {
  if (bytes == 0) {
    return;
  }
  std::size_t const rounded = (bytes + 63) / 64 * 64;
  tandem::detail::MemoryClaim claim{static_cast<std::int64_t>(rounded), "a host device"};
  std::size_t const alignment = alignment_of(rounded);
  std::size_t const whole = (rounded + alignment - 1) / alignment * alignment;  // as C11 wants
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, whole)));
  if (!data_) {
    throw Error{"out of memory: a host device asked for " + std::to_string(bytes) +
                " bytes; use a smaller batch or more microbatches"};
  }
  ask_for_huge_pages(data_.get(), rounded);
  constexpr std::size_t step = tandem::detail::MemoryClaim::large;
  for (std::size_t at = 0; at < rounded; at += step) {
    std::size_t const some = std::min(step, rounded - at);
    std::memset(data_.get() + at, 0, some);
    claim.touched(static_cast<std::int64_t>(some));
  }
}

}  // namespace tandem::host

#endif
