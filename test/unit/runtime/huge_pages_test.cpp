// SPDX-License-Identifier: Apache-2.0
#include <tandem/runtime/host/buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

namespace huge_pages_test {

using namespace tandem::host;

std::uintptr_t address(Buffer const& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data());
}

TEST_CASE("an array that fills a huge page begins at one, a smaller one at a cache line") {
  for (std::size_t const bytes :
       {std::size_t{1}, std::size_t{63}, std::size_t{4096}, huge_page_bytes - 64, huge_page_bytes,
        huge_page_bytes + 1, 3 * huge_page_bytes + 4096 + 7}) {
    CAPTURE(bytes);
    Buffer const buffer{bytes};
    CHECK(buffer.bytes() == bytes);
    CHECK(address(buffer) % 64 == 0);
    CHECK(address(buffer) % alignment_of(bytes) == 0);
    CHECK(std::all_of(buffer.data(), buffer.data() + bytes,
                      [](std::byte b) { return b == std::byte{0}; }));
  }
  CHECK(alignment_of(huge_page_bytes - 1) == 64);
}

#if defined(MADV_HUGEPAGE)

/// Of the kernel's list of this process's memory, what it says of the part with this address:
/// " hg" stands there where huge pages were asked for. Empty: it says nothing.
std::string flags_at(std::uintptr_t address) {
  std::ifstream list{"/proc/self/smaps"};
  bool here = false;
  for (std::string line; std::getline(list, line);) {
    unsigned long long first = 0;
    unsigned long long end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &end) == 2) {
      here = first <= address && address < end;
    } else if (here && line.starts_with("VmFlags:")) {
      return line + ' ';
    }
  }
  return {};
}

TEST_CASE("a Buffer asks for huge pages where it fills them, and not behind") {
  CHECK(alignment_of(huge_page_bytes) == huge_page_bytes);
  constexpr std::size_t filled = 20 * huge_page_bytes;  // so much malloc never takes from before
  Buffer const buffer{filled + 40960};
  std::uintptr_t const first = address(buffer);
  bool const known = ask_for_huge_pages(buffer.data(), huge_page_bytes);  // once more
  if (!known || flags_at(first).empty()) {
    MESSAGE("this system has no huge pages, or does not say where");
    return;
  }
  auto const asked = [&](std::size_t at) {
    return flags_at(first + at).find(" hg ") != std::string::npos;
  };
  CHECK(asked(0));
  CHECK(asked(filled - 1));
  CHECK_FALSE(asked(filled));
  CHECK_FALSE(asked(filled + 40959));
}

TEST_CASE("an array that fills no huge page asks for none, and one refused goes on") {
  alignas(64) std::byte few[128] = {};
  CHECK_FALSE(ask_for_huge_pages(few, sizeof few));           // fills none: no call
  CHECK_FALSE(ask_for_huge_pages(few + 1, huge_page_bytes));  // begins at no page: refused
}

#endif

}  // namespace huge_pages_test
