// SPDX-License-Identifier: Apache-2.0
// XXH64 against the values of Python's `xxhash`, whole and in pieces.

#include <tandem/core/xxhash64.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tandem {
namespace xxhash64_test {

using Bytes = std::array<std::byte, 101>;

Bytes numbers() {
  Bytes bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 7 + 3) % 256);
  }
  return bytes;
}

TEST_CASE("the checksums are those of the specification, however the bytes are cut") {
  Bytes const bytes = numbers();
  // xxhash.xxh64(bytes((7 * i + 3) % 256 for i in range(size))).hexdigest()
  for (auto const& [size, expected] : {std::pair<std::size_t, std::uint64_t>{0, 0xEF46DB3751D8E999},
                                       {1, 0x1F25C8D0BC1F4BB6},
                                       {3, 0x31D2363F52E564C9},
                                       {4, 0x9BB64B7D66EE9FDA},
                                       {7, 0x9A7B149959CE60D8},
                                       {8, 0xDAB99D95C6F90092},
                                       {31, 0xA2AA5F33CC4A6119},
                                       {32, 0x23C3C17EF790FD97},
                                       {33, 0x50A7CFC7BA588784},
                                       {63, 0x5E3E54B431C7493C},
                                       {64, 0x0EB64B3EF6EEB01F},
                                       {100, 0xA61F8D4C170FE531}}) {
    std::span<std::byte const> const all{bytes.data(), size};
    for (std::size_t first = 0; first <= size; ++first) {
      for (std::size_t const second : {std::size_t{0}, (size - first) / 2}) {
        Xxhash64 hash;
        hash.add(all.first(first));
        hash.add(all.subspan(first, second));
        CHECK(hash.digest() == [&] {
          Xxhash64 part;
          part.add(all.first(first + second));
          return part.digest();
        }());
        hash.add(all.subspan(first + second));
        CHECK(hash.digest() == expected);
      }
    }
  }
}

TEST_CASE("every bit counts") {
  Bytes bytes = numbers();
  Xxhash64 whole;
  whole.add(bytes);
  for (std::byte& byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      byte ^= std::byte{1} << bit;
      Xxhash64 changed;
      changed.add(bytes);
      CHECK(changed.digest() != whole.digest());
      byte ^= std::byte{1} << bit;
    }
  }
}

}  // namespace xxhash64_test
}  // namespace tandem
