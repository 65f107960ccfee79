// SPDX-License-Identifier: Apache-2.0

#include "two_orders.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

namespace cuda_emulator {
namespace {

// The word at the multiple of 8 below `at`, if it is wholly there.
std::uint64_t word_around(std::byte const* begin, std::size_t bytes, std::size_t at) {
  std::uint64_t word = 0;
  if (at / 8 * 8 + 8 <= bytes) {
    std::memcpy(&word, begin + at / 8 * 8, 8);
  }
  return word;
}

// Structs are stored with their padding, in which a thread's stack may have left an address of its
// own. No number that a kernel computes is one.
bool may_be_address(std::uint64_t word) {
  std::uint64_t const top = word >> 40;
  return top == 0x7F || top == 0x55 || top == 0x56;
}

}  // namespace

Contents::Contents(int device, std::size_t most) {
  auto areas = reachable_memory(device);
  std::size_t sum = 0;
  for (Allocation const& a : areas) {
    sum += a.bytes;
  }
  if (sum > most) {
    return;
  }
  areas_ = std::move(areas);
  bytes_.resize(sum);
  std::byte* to = bytes_.data();
  for (Allocation const& a : areas_) {
    std::memcpy(to, a.begin, a.bytes);
    to += a.bytes;
  }
}

void Contents::restore() const {
  std::byte const* from = bytes_.data();
  for (Allocation const& a : areas_) {
    std::memcpy(a.begin, from, a.bytes);
    from += a.bytes;
  }
}

std::string Contents::difference() const {
  std::byte const* kept = bytes_.data();
  for (Allocation const& a : areas_) {
    bool const equal = a.bytes == 0 || std::memcmp(kept, a.begin, a.bytes) == 0;
    for (std::size_t at = 0; !equal && at < a.bytes; ++at) {
      if (kept[at] == a.begin[at] || (may_be_address(word_around(kept, a.bytes, at)) &&
                                      may_be_address(word_around(a.begin, a.bytes, at)))) {
        continue;
      }
      char text[128];
      std::snprintf(text, sizeof text, "byte %zu of %zu bytes of device memory at %p", at, a.bytes,
                    static_cast<void*>(a.begin));
      return text;
    }
    kept += a.bytes;
  }
  return "";
}

}  // namespace cuda_emulator
