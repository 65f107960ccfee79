// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// read_text(): a file of UTF-8 as one string, plain or gzipped.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/gzip.hpp>

namespace tandem {

namespace detail {

/// The bytes of a text, inflated; whether they are UTF-8 is not looked at.
template <Inflater I>
[[nodiscard]] std::string read_unchecked(std::string const& path, std::size_t limit) {
  std::vector<std::uint8_t> const bytes = read_inflated<I>(path, limit);
  return {bytes.begin(), bytes.end()};
}

/// Leaves out a byte order mark at the front of @p text.
inline void drop_byte_order_mark(std::string& text) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.erase(0, 3);
  }
}

}  // namespace detail

/// The text of a file: its bytes as they are, but for a byte order mark at its front, which is left
/// out. What begins as gzip does is inflated, whatever its name.
///
/// Cost:   twice the text's memory while it is read.
/// @throws FileError  the file cannot be read, is of more than @p limit bytes, packed or not, or is
///                    not UTF-8; it says at which byte of the text
template <Inflater I = Inflate>
[[nodiscard]] std::string read_text(std::string const& path,
                                    std::size_t limit = default_file_limit) {
  std::string text = detail::read_unchecked<I>(path, limit);
  if (std::size_t const bad = detail::utf8_prefix(text); bad < text.size()) {
    throw FileError{path, "the text is not UTF-8 at byte " + std::to_string(bad) +
                              "; convert it first, as 'iconv -t UTF-8' does"};
  }
  detail::drop_byte_order_mark(text);
  return text;
}

}  // namespace tandem
