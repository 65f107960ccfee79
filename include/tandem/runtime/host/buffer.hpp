// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Buffer: aligned host memory that starts as zeros, owned and move-only.
///
/// Large buffers ask for huge pages: a step goes through hundreds of megabytes, and in pages of 4
/// KiB their addresses do not fit into the processor's tables, and products of large matrices wait
/// for them.

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

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tandem::host {

/// The size of a huge page on x86-64, and on ARM with small pages of 4 KiB. On other machines only
/// alignment is lost.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Where an array of @p bytes begins: at a multiple of a huge page, if it fills one, else of a
/// cache line.
[[nodiscard]] constexpr std::size_t alignment_of(std::size_t bytes) {
  constexpr std::size_t cache_line = 64;
#if defined(MADV_HUGEPAGE)
  return bytes >= huge_page_bytes ? huge_page_bytes : cache_line;
#else
  static_cast<void>(bytes);
  return cache_line;
#endif
}

/// Asks for huge pages for those that an array aligned as alignment_of() fills, before it is
/// touched; its end, which fills none, stays in small ones, so no memory is taken that was not
/// asked for. A system that has none, or gives none (`never` in
/// /sys/kernel/mm/transparent_hugepage/enabled), leaves all in small ones: only speed differs.
/// Cost: one call of the system. Source: madvise(2), MADV_HUGEPAGE.
/// @returns whether the system took note
TANDEM_ONCE TANDEM_COLD bool ask_for_huge_pages([[maybe_unused]] std::byte* array,
                                                [[maybe_unused]] std::size_t bytes) noexcept;

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

TANDEM_ONCE bool ask_for_huge_pages([[maybe_unused]] std::byte* array,
                                    [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(MADV_HUGEPAGE)
  std::size_t const filled = bytes / huge_page_bytes * huge_page_bytes;
  return filled > 0 && ::madvise(array, filled, MADV_HUGEPAGE) == 0;
#else
  return false;
#endif
}

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
