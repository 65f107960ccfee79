// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GPT-2's vocab.json and merges.txt, which write bytes as printable characters.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/data/text/characters.hpp>
#include <tandem/io/json/reader.hpp>

namespace tandem::detail {

/// Whether the files write the byte @p byte as the character of that number.
constexpr bool stands_for_itself(std::uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

/// The byte that the files write as @p point: itself, or where that is a blank or no character, the
/// next free one above 255. -1 if none.
constexpr int byte_written_as(std::uint32_t point) {
  if (point < 256) {
    return stands_for_itself(point) ? static_cast<int>(point) : -1;
  }
  std::uint32_t const place = point - 256;  // among 0x00 to 0x20, 0x7F to 0xA0, 0xAD
  return place < 33    ? static_cast<int>(place)
         : place < 67  ? static_cast<int>(place - 33 + 0x7F)
         : place == 67 ? 0xAD
                       : -1;
}

/// The bytes that the files write as @p text, which is UTF-8; a character that stands for no byte,
/// as special tokens may have, stays as it is.
TANDEM_ONCE std::string bytes_written_as(std::string_view text);

/// The bytes of each token of a vocab.json: an object from tokens to their numbers.
/// @throws FileError  it is not that, or the numbers are not 0, 1, … in some order
TANDEM_ONCE std::vector<std::string> parse_vocabulary(std::string_view text,
                                                      std::string const& name);

/// Calls @p take(left, right, byte) for each pair of a merges.txt: a line each, two words with a
/// space between; a first line that begins with "#version" is none.
/// @throws FileError  a line is not that; it says at which byte it begins
template <class Take>
void each_merge(std::string_view text, std::string const& name, Take const& take) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (!(at == 0 && line.starts_with("#version")) && !(line.empty() && end + 1 >= text.size())) {
      std::size_t const space = line.find(' ');
      if (space == line.npos || space == 0 || space + 1 == line.size() ||
          line.find(' ', space + 1) != line.npos || !is_utf8(line)) {
        throw FileError{name, "the line at byte " + std::to_string(at) +
                                  " is no merge: expected two tokens with one space between, as "
                                  "UTF-8"};
      }
      take(bytes_written_as(line.substr(0, space)), bytes_written_as(line.substr(space + 1)), at);
    }
    at = end + 1;
  }
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string bytes_written_as(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    std::size_t const length = utf8_length(text);
    int const byte = byte_written_as(code_point(text, length));
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      bytes += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return bytes;
}

TANDEM_ONCE std::vector<std::string> parse_vocabulary(std::string_view text,
                                                      std::string const& name) {
  std::vector<std::string> tokens;
  std::vector<bool> known;
  std::size_t count = 0;
  JsonReader reader{text, name, 0, "the vocabulary"};
  reader.object([&](std::string const& key) {
    std::int64_t const number = reader.natural();
    auto const token = static_cast<std::size_t>(number);
    if (token >= text.size()) {  // more than there can be
      reader.fail("the number " + std::to_string(token) +
                  " leaves a gap; the tokens are numbered from 0 on");
    }
    if (token >= tokens.size()) {
      tokens.resize(token + 1);
      known.resize(token + 1);
    }
    if (known[token]) {
      reader.fail("the number " + std::to_string(token) + " is there a second time");
    }
    tokens[token] = bytes_written_as(key);
    known[token] = true;
    ++count;
  });
  reader.end();
  for (std::size_t token = 0; token < known.size(); ++token) {
    if (!known[token]) {
      throw FileError{name, "the vocabulary has " + std::to_string(count) +
                                " tokens, but none of the number " + std::to_string(token) +
                                "; they must be 0 to " + std::to_string(known.size() - 1)};
    }
  }
  return tokens;
}

}  // namespace tandem::detail

#endif
