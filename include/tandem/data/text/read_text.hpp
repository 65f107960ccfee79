// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// read_text(): a file of UTF-8 as one string, plain or gzipped.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/gzip.hpp>

namespace tandem {

/// The text of a file: its bytes as they are, but for a byte order mark at its front, which is left
/// out. What begins as gzip does is inflated, whatever its name.
///
/// Cost:   twice the text's memory while it is read.
/// @throws FileError  the file cannot be read, is of more than @p limit bytes, packed or not, or is
///                    not UTF-8; it says at which byte of the text
template <Inflater I = Inflate>
[[nodiscard]] std::string read_text(std::string const& path,
                                    std::size_t limit = default_file_limit) {
  std::vector<std::uint8_t> bytes = read_file(path, limit);
  if (bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B) {  // never UTF-8
    bytes = I::inflate(bytes, path, limit);
  }
  std::string_view text{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  if (std::size_t const bad = detail::utf8_prefix(text); bad < text.size()) {
    throw FileError{path, "the text is not UTF-8 at byte " + std::to_string(bad) +
                              "; convert it first, as 'iconv -t UTF-8' does"};
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.remove_prefix(3);
  }
  return std::string{text};
}

}  // namespace tandem
