// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Characters: a token for each code point that a text has.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/data/text/tokenizer.hpp>
#include <tandem/io/atomic/file.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/json/string.hpp>

namespace tandem {

namespace detail {

/// The code point of the UTF-8 sequence of @p length bytes at the front of @p text.
constexpr std::uint32_t code_point(std::string_view text, std::size_t length) {
  std::uint32_t const lead = static_cast<unsigned char>(text[0]);
  std::uint32_t point = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  return point;
}

/// "U+0041".
inline std::string unicode_name(std::uint32_t point) {
  std::string digits;
  for (; point > 0 || digits.size() < 4; point /= 16) {
    digits.insert(digits.begin(), "0123456789ABCDEF"[point % 16]);
  }
  return "U+" + digits;
}

/// Calls @p take(code point, byte) for each character of @p text.
/// @throws Error  it is not UTF-8; @p name is of whom asks
template <class Take>
void each_character(std::string_view text, char const* name, Take const& take) {
  for (std::size_t at = 0; at < text.size();) {
    bool const ascii = static_cast<unsigned char>(text[at]) < 0x80;  // as most bytes are
    std::size_t const length = ascii ? 1 : utf8_length(text.substr(at));
    if (length == 0) {
      throw Error{std::string{name} + ": the text is not UTF-8 at byte " + std::to_string(at) +
                  "; convert it first, as 'iconv -t UTF-8' does"};
    }
    take(code_point(text.substr(at, length), length), at);
    at += length;
  }
}

}  // namespace detail

/// A vocabulary of code points in ascending order; a Tokenizer. A text of another alphabet than the
/// one that it was made of is refused, not mapped to an unknown token.
class Characters {
 public:
  /// The characters of @p text.
  /// @throws Error  it is not UTF-8 or empty
  TANDEM_ONCE explicit Characters(std::string_view text);

  /// The vocabulary that save() wrote.
  /// @throws FileError  the file cannot be read, or is not one character of UTF-8 after the other,
  ///                    ascending; it says at which byte
  TANDEM_ONCE [[nodiscard]] static Characters load(std::string const& path);

  /// As load(), of a file's content.
  TANDEM_ONCE [[nodiscard]] static Characters parse(std::string_view text, std::string const& path);

  /// Writes the characters in order as UTF-8, with nothing between them.
  /// @throws FileError  the file cannot be written; a previous one is untouched
  TANDEM_ONCE void save(std::string const& path) const;

  /// @throws Error  @p text is not UTF-8 or has another character; it says at which byte
  TANDEM_ONCE [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// @throws Error  a token is not in [0, size())
  TANDEM_ONCE [[nodiscard]] std::string decode(std::span<std::int32_t const> tokens) const;

  [[nodiscard]] int size() const noexcept { return static_cast<int>(points_.size()); }

  /// Code points, ascending; a character's token is its place.
  [[nodiscard]] std::span<std::uint32_t const> points() const noexcept { return points_; }

 private:
  explicit Characters(std::vector<std::uint32_t> points) : points_{std::move(points)} { index(); }

  void index() {
    for (std::uint32_t point = 0; point < 128; ++point) {
      ascii_[point] = find(point);
    }
  }

  TANDEM_ONCE [[nodiscard]] std::int32_t find(std::uint32_t point) const;

  std::vector<std::uint32_t> points_;
  std::int32_t ascii_[128] = {};  // tokens, or -1
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Characters::Characters(std::string_view text) {
  std::vector<bool> seen(0x110000);
  detail::each_character(text, "Characters",
                         [&](std::uint32_t point, std::size_t) { seen[point] = true; });
  for (std::uint32_t point = 0; point < seen.size(); ++point) {
    if (seen[point]) {
      points_.push_back(point);
    }
  }
  if (points_.empty()) {
    throw Error{"Characters: the text is empty; give one that has every character to be learnt"};
  }
  index();
}

TANDEM_ONCE Characters Characters::load(std::string const& path) {
  return parse(detail::characters_of(read_file(path, 4 * 0x110000)), path);
}

TANDEM_ONCE Characters Characters::parse(std::string_view text, std::string const& path) {
  std::size_t const valid = detail::utf8_prefix(text);
  if (text.empty() || valid < text.size()) {
    throw FileError{path, text.empty()
                              ? "the vocabulary is empty"
                              : "the vocabulary is not UTF-8 at byte " + std::to_string(valid)};
  }
  std::vector<std::uint32_t> points;
  detail::each_character(text, "Characters", [&](std::uint32_t point, std::size_t at) {
    if (!points.empty() && point <= points.back()) {
      throw FileError{path, "the character " + detail::unicode_name(point) + " at byte " +
                                std::to_string(at) + " is not above " +
                                detail::unicode_name(points.back()) +
                                " before it; a vocabulary has each once, ascending"};
    }
    points.push_back(point);
  });
  return Characters{std::move(points)};
}

TANDEM_ONCE void Characters::save(std::string const& path) const {
  std::string text;
  for (std::uint32_t const point : points_) {
    detail::append_utf8(text, point);
  }
  AtomicFile file{path};
  file.write(std::as_bytes(std::span{text}));
  file.commit();
}

TANDEM_ONCE std::vector<std::int32_t> Characters::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  detail::each_character(text, "Characters::encode", [&](std::uint32_t point, std::size_t at) {
    std::int32_t const token = point < 128 ? ascii_[point] : find(point);
    if (token < 0) {
      throw Error{"Characters::encode: the character " + detail::unicode_name(point) + " at byte " +
                  std::to_string(at) + " is not among the " + std::to_string(size()) +
                  " of the vocabulary; make the vocabulary of a text that has it, or leave it out"};
    }
    tokens.push_back(token);
  });
  return tokens;
}

TANDEM_ONCE std::string Characters::decode(std::span<std::int32_t const> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    detail::append_utf8(text, points_[detail::checked_token(tokens, i, size(), "Characters")]);
  }
  return text;
}

TANDEM_ONCE std::int32_t Characters::find(std::uint32_t point) const {
  auto const place = std::lower_bound(points_.begin(), points_.end(), point);
  return place != points_.end() && *place == point
             ? static_cast<std::int32_t>(place - points_.begin())
             : -1;
}

}  // namespace tandem

#endif
