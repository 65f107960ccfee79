// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ask_for_huge_pages(): fewer and larger pages for large arrays, where the system gives them.
///
/// A step goes through hundreds of megabytes. In pages of 4 KiB their addresses do not fit into the
/// processor's tables, and products of large matrices wait for them.

#include <cstddef>

#include <tandem/core/config.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tandem::host {

/// Of x86-64, and of ARM with small pages of 4 KiB. Where they are larger, or there are none,
/// nothing is lost but alignment.
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

}  // namespace tandem::host

#endif
