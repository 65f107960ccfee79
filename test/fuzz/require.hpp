// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What fuzz targets share: a check that ends the program, and text and words of a fuzzer's
/// bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/utf8.hpp>

namespace fuzz {

/// A finding where @p condition is false.
inline void require(bool condition) {
  if (!condition) {
    __builtin_trap();
  }
}

inline std::string_view text_of(std::uint8_t const* data, std::size_t size) {
  return {reinterpret_cast<char const*>(data), size};
}

/// The words of a command line, a line each.
inline std::vector<std::string> words_of(std::uint8_t const* data, std::size_t size) {
  std::vector<std::string> words;
  for (std::string_view text = text_of(data, size); !text.empty();) {
    std::size_t const end = text.find('\n');
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return words;
}

/// What people read of a file that they did not write: one line that no terminal obeys.
inline void require_sentence(std::string_view what) {
  require(!what.empty() && what.find('\n') == what.npos);
  require(tandem::detail::text_length(what) == what.size());
}

/// UTF-8, and outside of strings no word but null, true and false: neither inf nor nan.
inline void require_json(std::string_view json) {
  require(tandem::detail::is_utf8(json));
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') {
      in_string = !in_string;
    } else if (in_string) {
      require(static_cast<unsigned char>(json[i]) >= 0x20);
      i += json[i] == '\\' ? 1 : 0;
    } else {
      require(json.substr(i, 3) != "inf" && json.substr(i, 3) != "nan");
    }
  }
  require(!in_string);
}

}  // namespace fuzz
