// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// read_lines(): a file of UTF-8 as its lines.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/data/text/read_text.hpp>
#include <tandem/io/gzip.hpp>

namespace tandem {

namespace detail {

/// The lines of @p text, without '\n' and a '\r' before it; what is behind the last '\n' is a line
/// only if it is not empty.
/// @throws FileError  one is not UTF-8; @p name is the file's
TANDEM_ONCE std::vector<std::string_view> lines_of(std::string_view text, std::string const& name);

}  // namespace detail

/// The lines of a file, plain or gzipped, without their ends; a byte order mark is left out.
/// @throws FileError  the file cannot be read, is of more than @p limit bytes, packed or not, or a
///                    line is not UTF-8; it says which
template <Inflater I = Inflate>
[[nodiscard]] std::vector<std::string> read_lines(std::string const& path,
                                                  std::size_t limit = default_file_limit) {
  std::string text = detail::read_unchecked<I>(path, limit);
  detail::drop_byte_order_mark(text);
  auto const lines = detail::lines_of(text, path);
  return {lines.begin(), lines.end()};
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::vector<std::string_view> lines_of(std::string_view text, std::string const& name) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    std::size_t const end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (std::size_t const bad = utf8_prefix(line); bad < line.size()) {
      throw FileError{name, "line " + std::to_string(lines.size() + 1) +
                                " is not UTF-8 at its byte " + std::to_string(bad) +
                                "; convert it first, as 'iconv -t UTF-8' does"};
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace tandem::detail

#endif
