// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Crc32c: the 32-bit sum of Castagnoli's polynomial, which file formats and disks use.
///
/// Finds each change of up to 32 neighbouring bits; of other damage one in 2^32 is missed.
/// Source: RFC 3720, appendix B.4; eight bytes at once by Kounavis, Berry, "A systematic approach
///         to building high performance, software-based, CRC generators", ISCC 2005.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/config.hpp>

namespace tandem {

namespace detail {

struct Crc32cTables {
  std::array<std::array<std::uint32_t, 256>, 8> of{};  ///< of a byte with so many zeros behind it
};

constexpr Crc32cTables crc32c_tables() {
  Crc32cTables tables;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) {
      sum = (sum >> 1) ^ (0x82F63B78U & (0U - (sum & 1U)));
    }
    tables.of[0][byte] = sum;
  }
  for (std::size_t zeros = 1; zeros < 8; ++zeros) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t const before = tables.of[zeros - 1][byte];
      tables.of[zeros][byte] = (before >> 8) ^ tables.of[0][before & 0xFFU];
    }
  }
  return tables;
}

}  // namespace detail

/// Takes bytes piece by piece; how they are cut does not matter.
class Crc32c {
 public:
  /// Appends @p bytes.
  TANDEM_ONCE void add(std::span<std::byte const> bytes) noexcept;

  /// The sum of all bytes so far; more may follow.
  [[nodiscard]] std::uint32_t digest() const noexcept { return ~sum_; }

 private:
  std::uint32_t sum_ = 0xFFFFFFFFU;
};

/// Of @p bytes alone.
TANDEM_ONCE [[nodiscard]] std::uint32_t crc32c(std::span<std::byte const> bytes) noexcept;

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void Crc32c::add(std::span<std::byte const> bytes) noexcept {
  static constexpr detail::Crc32cTables tables = detail::crc32c_tables();
  auto const& table = tables.of;
  std::uint32_t sum = sum_;
  std::byte const* at = bytes.data();
  std::size_t left = bytes.size();
  auto const byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(at[i]); };
  for (; left >= 8; left -= 8, at += 8) {
    std::uint32_t const low = sum ^ (byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24);
    sum = table[7][low & 0xFFU] ^ table[6][low >> 8 & 0xFFU] ^ table[5][low >> 16 & 0xFFU] ^
          table[4][low >> 24] ^ table[3][byte(4)] ^ table[2][byte(5)] ^ table[1][byte(6)] ^
          table[0][byte(7)];
  }
  for (; left > 0; --left, ++at) {
    sum = (sum >> 8) ^ table[0][(sum ^ byte(0)) & 0xFFU];
  }
  sum_ = sum;
}

TANDEM_ONCE std::uint32_t crc32c(std::span<std::byte const> bytes) noexcept {
  Crc32c sum;
  sum.add(bytes);
  return sum.digest();
}

}  // namespace tandem

#endif
