// SPDX-License-Identifier: Apache-2.0
// Fuzzes SWORD modules: the first byte chooses blocks as they are or inflated (lowest bit), the
// next two are the sizes of the two indexes, which follow; the rest is the blocks.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/data/text/sword.hpp>

#include "require.hpp"

namespace {

struct AsIs {
  static std::vector<std::uint8_t> inflate_block(std::span<std::uint8_t const> packed,
                                                 std::string const&, std::size_t, std::size_t) {
    return {packed.begin(), packed.end()};
  }
};

constexpr std::size_t limit = std::size_t{1} << 16;

template <class I>
void check_module(tandem::SwordTestament const& testament) {
  std::vector<std::string> verses;
  tandem::append_sword_verses<I>(testament, verses, limit);
  fuzz::require(verses.size() == testament.entries.size() / 10);
  std::size_t total = 0;
  for (std::string const& verse : verses) {
    fuzz::require(tandem::detail::is_utf8(verse));
    fuzz::require(verse.find('\n') == verse.npos && !verse.starts_with(' ') &&
                  !verse.ends_with(' '));
    total += verse.size();
  }
  fuzz::require(total <= limit);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 3) {
    return 0;
  }
  std::size_t const rest = size - 3;
  std::size_t const blocks = data[1] < rest ? data[1] : rest;
  std::size_t const entries = data[2] < rest - blocks ? data[2] : rest - blocks;
  std::span<std::uint8_t const> const files{data + 3, rest};
  tandem::SwordTestament const testament{files.first(blocks), files.subspan(blocks, entries),
                                         files.subspan(blocks + entries), "input"};
  try {
    if ((data[0] & 1U) != 0) {
      check_module<tandem::Inflate>(testament);
    } else {
      check_module<AsIs>(testament);
    }
  } catch (tandem::FileError const& error) {  // any other exception is a finding
    fuzz::require(error.path().starts_with("inputz"));
    fuzz::require_sentence(error.what());
  }
  return 0;
}
