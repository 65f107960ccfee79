// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SHA-256 and HMAC: how the processes of one program prove to each other that they share a token.
///
/// Code of our own since a header-only library can demand no other for so little; the numbers
/// of FIPS 180-4 and RFC 4231 are the test. Not SipHash, which is as short: it wants a key of 128
/// random bits, and a token is a text of any length; its tag of 64 bits and its lack of a claim as
/// a hash would need an argument where HMAC needs none. Made for a few KiB, not for speed.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/core/config.hpp>

namespace tandem::detail {

using Digest = std::array<std::byte, 32>;

/// The SHA-256 of all bytes that were added. Source: FIPS 180-4, section 6.2.
class Sha256 {
 public:
  TANDEM_ONCE void add(std::span<std::byte const> bytes);

  /// Ends the text; nothing may be added any more.
  TANDEM_ONCE [[nodiscard]] Digest finish();

 private:
  /// The first 32 bits of the fractions of the first 64 primes' cube roots.
  static constexpr std::array<std::uint32_t, 64> constants{
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
      0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
      0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
      0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
      0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
      0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
      0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
      0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
      0xc67178f2};

  TANDEM_ONCE void compress();

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> block_{};
  std::uint64_t size_ = 0;
};

/// HMAC-SHA256 of all bytes that were added. Source: RFC 2104.
class Hmac {
 public:
  /// @param key  of any length
  TANDEM_ONCE explicit Hmac(std::span<std::byte const> key);

  Hmac& add(std::span<std::byte const> bytes) {
    inner_.add(bytes);
    return *this;
  }

  /// Ends the text; nothing may be added any more.
  [[nodiscard]] Digest finish() {
    outer_.add(inner_.finish());
    return outer_.finish();
  }

 private:
  Sha256 inner_;
  Sha256 outer_;
};

/// Whether @p a and @p b are the same, in a time that does not tell where they differ.
[[nodiscard]] inline bool same_digest(Digest const& a, Digest const& b) {
  std::byte volatile different{0};  // or the compiler might leave early
  for (std::size_t i = 0; i < a.size(); ++i) {
    different = different | (a[i] ^ b[i]);
  }
  return different == std::byte{0};
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void Sha256::add(std::span<std::byte const> bytes) {
  for (std::byte const byte : bytes) {
    block_[size_++ % block_.size()] = byte;
    if (size_ % block_.size() == 0) {
      compress();
    }
  }
}

TANDEM_ONCE Digest Sha256::finish() {
  std::uint64_t const bits = 8 * size_;
  std::byte const one{0x80};
  add({&one, 1});
  while (size_ % block_.size() != block_.size() - 8) {
    std::byte const zero{0};
    add({&zero, 1});
  }
  for (unsigned shift = 64; shift > 0; shift -= 8) {
    std::byte const byte{static_cast<unsigned char>(bits >> (shift - 8))};
    add({&byte, 1});
  }
  Digest digest{};
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = std::byte{static_cast<unsigned char>(state_[i / 4] >> (24 - 8 * (i % 4)))};
  }
  return digest;
}

TANDEM_ONCE void Sha256::compress() {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < block_.size(); ++i) {
    w[i / 4] = (w[i / 4] << 8U) | static_cast<std::uint32_t>(block_[i]);
  }
  for (std::size_t t = 16; t < w.size(); ++t) {
    std::uint32_t const a = w[t - 15];
    std::uint32_t const b = w[t - 2];
    w[t] = w[t - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3U)) + w[t - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10U));
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < w.size(); ++t) {
    std::uint32_t const one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                              ((e & f) ^ (~e & g)) + constants[t] + w[t];
    std::uint32_t const two =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + one;
    d = c;
    c = b;
    b = a;
    a = one + two;
  }
  std::array<std::uint32_t, 8> const added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state_.size(); ++i) {
    state_[i] += added[i];
  }
}

TANDEM_ONCE Hmac::Hmac(std::span<std::byte const> key) {
  std::array<std::byte, 64> block{};
  if (key.size() > block.size()) {
    Sha256 hash;
    hash.add(key);
    std::ranges::copy(hash.finish(), block.begin());
  } else {
    std::ranges::copy(key, block.begin());
  }
  for (std::byte& byte : block) {
    byte ^= std::byte{0x36};
  }
  inner_.add(block);
  for (std::byte& byte : block) {
    byte ^= std::byte{0x36 ^ 0x5c};
  }
  outer_.add(block);
}

}  // namespace tandem::detail

#endif
