// SPDX-License-Identifier: Apache-2.0
// CRC-32C against the values of RFC 3720 and of the definition, whole and in pieces.

#include <tandem/core/crc32c.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {
namespace crc32c_test {

std::uint32_t sum_of(std::string_view text) { return crc32c(std::as_bytes(std::span{text})); }

TEST_CASE("the sums of RFC 3720, appendix B.4") {
  CHECK(sum_of("123456789") == 0xE3069283U);
  std::vector<std::byte> bytes(32);
  CHECK(crc32c(bytes) == 0x8A9136AAU);
  for (std::byte& byte : bytes) {
    byte = std::byte{0xFF};
  }
  CHECK(crc32c(bytes) == 0x62A8AB43U);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i);
  }
  CHECK(crc32c(bytes) == 0x46DD794EU);
}

TEST_CASE("the sums are those of the polynomial, however the bytes are cut") {
  std::array<std::byte, 100> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 7 + 3) % 256);
  }
  // bit by bit: sum = sum >> 1 ^ (0x82F63B78 if sum & 1 else 0)
  for (auto const& [size, expected] : {std::pair<std::size_t, std::uint32_t>{0, 0},
                                       {1, 0x412DA0A5},
                                       {7, 0xA5702C56},
                                       {8, 0xD225C0E8},
                                       {9, 0x922C64CE},
                                       {16, 0x6B24BDE1},
                                       {100, 0x594B1B65}}) {
    std::span<std::byte const> const all{bytes.data(), size};
    for (std::size_t first = 0; first <= size; ++first) {
      Crc32c sum;
      sum.add(all.first(first));
      sum.add(all.subspan(first));
      CHECK(sum.digest() == expected);
    }
  }
}

}  // namespace crc32c_test
}  // namespace tandem
