// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Bibles as SWORD modules of driver zText, such as Debian's sword-text-kjv: their verses as text.
///
/// A module is a folder with three files a testament: `ot.bzs`, the index of the compressed blocks;
/// `ot.bzv`, the index of the entries; `ot.bzz`, the blocks; `nt.` likewise. The second letter says
/// what one block holds: b a book, c a chapter, v a verse. An index of 12-byte entries (driver
/// zText4), other compressions than ZIP and other encodings than UTF-8 are not read.
/// Source: CrossWire's SWORD 1.9, src/modules/common/zverse.cpp

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/data/text/markup.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/gzip.hpp>

namespace tandem {

/// The contents of a testament's three files; @p name is their path up to the second letter of the
/// ending, as "kjv/ot.b", for messages.
struct SwordTestament {
  std::span<std::uint8_t const> blocks{};   ///< …zs: 12 bytes a block
  std::span<std::uint8_t const> entries{};  ///< …zv: 10 bytes an entry
  std::span<std::uint8_t const> packed{};   ///< …zz
  std::string name{};
};

namespace detail {

inline std::uint32_t little_endian(std::span<std::uint8_t const> bytes, std::size_t at, int size) {
  std::uint32_t value = 0;
  for (int i = size; i-- > 0;) {
    value = value << 8 | bytes[at + static_cast<std::size_t>(i)];
  }
  return value;
}

inline std::string bytes_from_to(std::size_t first, std::size_t size) {
  return "bytes " + std::to_string(first) + " to " + std::to_string(first + size);
}

/// All blocks of a testament, unpacked.
template <BlockInflater I>
std::vector<std::vector<std::uint8_t>> sword_blocks(SwordTestament const& testament,
                                                    std::size_t limit) {
  std::string const index = testament.name + "zs";
  if (testament.blocks.size() % 12 != 0) {
    throw FileError{index, "the file is truncated: it has " +
                               std::to_string(testament.blocks.size()) +
                               " bytes, no multiple of the 12 of each block"};
  }
  std::vector<std::vector<std::uint8_t>> blocks;
  std::size_t total = 0;
  for (std::size_t at = 0; at < testament.blocks.size(); at += 12) {
    std::size_t const first = little_endian(testament.blocks, at, 4);
    std::size_t const size = little_endian(testament.blocks, at + 4, 4);
    std::size_t const unpacked = little_endian(testament.blocks, at + 8, 4);
    if (first + size > testament.packed.size()) {
      throw FileError{index, "the block at byte " + std::to_string(at) + " should be " +
                                 bytes_from_to(first, size) + " of '" + testament.name +
                                 "zz', which has " + std::to_string(testament.packed.size())};
    }
    if (unpacked > limit - total) {
      throw FileError{index, "the blocks up to byte " + std::to_string(at) +
                                 " unpack to more than the limit of " + std::to_string(limit) +
                                 " bytes for files of this kind"};
    }
    blocks.push_back(size == 0 ? std::vector<std::uint8_t>{}
                               : I::inflate_block(testament.packed.subspan(first, size),
                                                  testament.name + "zz", first, unpacked));
    if (blocks.back().size() != unpacked) {
      throw FileError{testament.name + "zz", "the block at byte " + std::to_string(first) +
                                                 " unpacks to " +
                                                 std::to_string(blocks.back().size()) +
                                                 " bytes, expected " + std::to_string(unpacked)};
    }
    total += unpacked;
  }
  return blocks;
}

}  // namespace detail

/// Appends the entries of a testament to @p verses in the order of its index, each stripped of its
/// mark-up; empty where the module has nothing, or a heading only. An entry's place depends on the
/// versification alone: two modules with the same one have the same verse at the same place.
///
/// Cost:   the memory of the unpacked blocks, and of the text.
/// @throws FileError  a file is truncated or damaged, an entry points outside its block or is not
///                    UTF-8, or blocks or text are of more than @p limit bytes; with byte offsets
template <BlockInflater I>
void append_sword_verses(SwordTestament const& testament, std::vector<std::string>& verses,
                         std::size_t limit = default_file_limit) {
  auto const blocks = detail::sword_blocks<I>(testament, limit);
  std::string const index = testament.name + "zv";
  if (testament.entries.size() % 10 != 0) {
    throw FileError{index, "the file is truncated: it has " +
                               std::to_string(testament.entries.size()) +
                               " bytes, no multiple of the 10 of each entry"};
  }
  std::size_t total = 0;
  for (std::size_t at = 0; at < testament.entries.size(); at += 10) {
    std::size_t const block = detail::little_endian(testament.entries, at, 4);
    std::size_t const first = detail::little_endian(testament.entries, at + 4, 4);
    std::size_t const size = detail::little_endian(testament.entries, at + 8, 2);
    verses.emplace_back();
    if (size == 0) {
      continue;  // whatever the rest says
    }
    auto const fail = [&](std::string const& what) {
      throw FileError{index, "the entry at byte " + std::to_string(at) + " should be " +
                                 detail::bytes_from_to(first, size) + " of block " +
                                 std::to_string(block) + what};
    };
    if (block >= blocks.size()) {
      fail(", but there are " + std::to_string(blocks.size()) + " blocks");
    }
    if (first + size > blocks[block].size()) {
      fail(", which has " + std::to_string(blocks[block].size()));
    }
    std::string_view const text{reinterpret_cast<char const*>(blocks[block].data()) + first, size};
    if (std::size_t const valid = detail::utf8_prefix(text); valid < size) {
      fail(", which is not UTF-8 at byte " + std::to_string(first + valid));
    }
    verses.back() = strip_markup(text);
    total += verses.back().size() + 1;
    if (total > limit) {
      throw FileError{index, "the entries up to byte " + std::to_string(at) +
                                 " are of more than the limit of " + std::to_string(limit) +
                                 " bytes of text"};
    }
  }
}

/// All entries of the module in @p folder, Old Testament first: see append_sword_verses(). Folders
/// with one testament are read, too.
/// @throws FileError  the folder is missing, is no module, or append_sword_verses() throws
template <BlockInflater I = Inflate>
[[nodiscard]] std::vector<std::string> read_sword_verses(std::string const& folder,
                                                         std::size_t limit = default_file_limit) {
  std::vector<std::string> verses;
  bool found = false;
  for (char const* const testament : {"/ot.", "/nt."}) {
    for (char const block : {'b', 'c', 'v'}) {
      std::string const name = folder + testament + block;
      if (path_exists(name + "zs")) {
        auto const blocks = read_file(name + "zs", limit);
        auto const entries = read_file(name + "zv", limit);
        auto const packed = read_file(name + "zz", limit);
        append_sword_verses<I>({blocks, entries, packed, name}, verses, limit);
        found = true;
        break;
      }
    }
  }
  if (!found) {
    throw FileError{
        folder, folder_exists(folder)
                    ? "this folder holds no SWORD module of driver zText: expected ot.bzs or "
                      "nt.bzs, or with c or v for b, and their companions"
                    : "there is no such folder; expected one with a SWORD module of driver zText, "
                      "such as /usr/share/sword/modules/texts/ztext/engKJV2006eb of the Debian "
                      "package sword-text-kjv"};
  }
  return verses;
}

/// The text of the module in @p folder: a line for each entry that has words, without mark-up,
/// notes and titles (see strip_markup()), in canonical order, each line ended by '\n'. A preface
/// is an entry; what a module joins to one passage stands once for each of its verses.
///
/// Debian's sword-text-kjv 14.3 gives the 31,102 verses of both testaments, in 4,138,643 characters
/// of 69 kinds and 789,706 words.
/// @throws FileError  see read_sword_verses()
template <BlockInflater I = Inflate>
[[nodiscard]] std::string read_sword(std::string const& folder,
                                     std::size_t limit = default_file_limit) {
  std::string text;
  for (std::string const& verse : read_sword_verses<I>(folder, limit)) {
    if (!verse.empty()) {
      text += verse;
      text += '\n';
    }
  }
  return text;
}

/// The verses that two modules of one versification both have, in canonical order: those of the
/// first and, at the same places, their translations in the second.
///
/// Of Debian's sword-text-kjv 14.3 and sword-text-sparv 2.60 they are 31,084.
/// @throws FileError  see read_sword_verses(), or the modules have different numbers of entries
template <BlockInflater I = Inflate>
[[nodiscard]] std::pair<std::vector<std::string>, std::vector<std::string>> read_sword_pairs(
    std::string const& first, std::string const& second, std::size_t limit = default_file_limit) {
  auto both = std::pair{read_sword_verses<I>(first, limit), read_sword_verses<I>(second, limit)};
  std::size_t const entries = both.first.size();
  if (both.second.size() != entries) {
    throw FileError{second, "this module has " + std::to_string(both.second.size()) +
                                " entries and '" + first + "' has " + std::to_string(entries) +
                                "; take two of one versification, whose verses match"};
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < entries; ++i) {
    if (!both.first[i].empty() && !both.second[i].empty()) {
      both.first[kept].swap(both.first[i]);
      both.second[kept++].swap(both.second[i]);
    }
  }
  both.first.resize(kept);
  both.second.resize(kept);
  return both;
}

}  // namespace tandem
