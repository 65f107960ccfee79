// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A testament of a SWORD module (data/text/sword.hpp), made of its blocks' texts.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data_files.hpp"

namespace support {

/// A BlockInflater that leaves its argument as it is: for modules that are not compressed.
struct AsIs {
  static Bytes inflate_block(std::span<std::uint8_t const> packed, std::string const&, std::size_t,
                             std::size_t) {
    return {packed.begin(), packed.end()};
  }
};

inline void append_little_endian(Bytes& bytes, std::size_t value, int size) {
  for (int i = 0; i < size; ++i, value >>= 8) {
    bytes.push_back(static_cast<std::uint8_t>(value));
  }
}

/// The three files of a testament.
struct SwordFiles {
  Bytes blocks{};
  Bytes entries{};
  Bytes packed{};

  /// Appends a block of @p verses, one after the other, each with an entry; pack() compresses it.
  template <class Pack>
  void append(std::vector<std::string> const& verses, Pack const& pack) {
    std::size_t const block = blocks.size() / 12;
    Bytes text;
    for (std::string const& verse : verses) {
      entry(verse.empty() ? 0 : block, text.size(), verse.size());
      text.insert(text.end(), verse.begin(), verse.end());
    }
    Bytes const data = pack(text);
    append_little_endian(blocks, packed.size(), 4);
    append_little_endian(blocks, data.size(), 4);
    append_little_endian(blocks, text.size(), 4);
    packed.insert(packed.end(), data.begin(), data.end());
  }

  void append(std::vector<std::string> const& verses) {
    append(verses, [](Bytes const& text) { return text; });
  }

  void entry(std::size_t block, std::size_t first, std::size_t size) {
    append_little_endian(entries, block, 4);
    append_little_endian(entries, first, 4);
    append_little_endian(entries, size, 2);
  }

  /// Writes them as @p stem + "zs", "zv" and "zz" into @p folder.
  void write(TemporaryFolder const& folder, std::string const& stem) const {
    folder.write(stem + "zs", blocks);
    folder.write(stem + "zv", entries);
    folder.write(stem + "zz", packed);
  }
};

}  // namespace support
