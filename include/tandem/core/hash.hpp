// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A hash that is the same in every process, on every machine.

#include <cstdint>
#include <string_view>

namespace tandem::detail {

/// FNV-1a.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (char const c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash;
}

}  // namespace tandem::detail
