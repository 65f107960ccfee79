// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// parse_npy(): the header of NumPy's .npy files, checked against the number of bytes.
///
/// Versions 1 to 3, in C order, of bytes, bools and little-endian int32, int64, float32 and
/// float64.
/// Source: NumPy, numpy.lib.format

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>

namespace tandem {

enum class NpyType { u1, i4, i8, f4, f8 };

/// What a .npy file holds, once it has been seen to.
struct NpyHeader {
  NpyType type = NpyType::f4;
  int rank = 0;
  std::int64_t extent[5] = {};
  std::int64_t elements = 1;
  std::size_t bytes = 0;  ///< of the header: where the elements start
};

/// Bytes of an element.
constexpr std::size_t size_of(NpyType type) {
  return type == NpyType::u1 ? 1 : type == NpyType::i4 || type == NpyType::f4 ? 4 : 8;
}

/// Checks the .npy file with content @p bytes.
/// @throws FileError  it is none, of another type or order, or its header does not agree with the
///                    number of bytes; @p name is for the message
TANDEM_ONCE [[nodiscard]] NpyHeader parse_npy(std::span<std::uint8_t const> bytes,
                                              std::string const& name);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Reads Python's literal of a dictionary with the three keys of a .npy file, each once.
class NpyLiteral {
 public:
  NpyLiteral(std::string_view text, std::string const& name) : text_{text}, name_{name} {}

  NpyHeader parse() {
    bool has_type = false;
    bool has_order = false;
    bool has_shape = false;
    want('{');
    while (!take('}')) {
      std::string_view const key = string();
      want(':');
      if (key == "descr" && !has_type) {
        has_type = true;
        type();
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        order();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        shape();
      } else {
        fail("has the key '" + printable(key) + "', or has it twice");
      }
      if (!take(',') && !next_is('}')) {
        fail("lacks a comma");
      }
    }
    skip();
    if (at_ != text_.size() || !has_type || !has_order || !has_shape) {
      fail(at_ != text_.size() ? "goes on behind its end" : "lacks one of its keys");
    }
    return header_;
  }

 private:
  [[noreturn]] void fail(std::string const& what) const {
    throw FileError{
        name_, "the header of the .npy file " + what + ", at byte " + std::to_string(at_) +
                   " of its dictionary; expected {'descr': …, 'fortran_order': …, 'shape': …}"};
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool next_is(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    bool const is_there = next_is(c);
    at_ += is_there ? 1 : 0;
    return is_there;
  }
  void want(char c) {
    if (!take(c)) {
      fail(std::string{"lacks '"} + c + "'");
    }
  }
  bool take_word(std::string_view word) {
    skip();
    bool const is_there = text_.substr(at_, word.size()) == word;
    at_ += is_there ? word.size() : 0;
    return is_there;
  }

  std::string_view string() {
    char const quote = next_is('"') ? '"' : '\'';
    want(quote);
    std::size_t const end = text_.find(quote, at_);
    if (end == text_.npos) {
      fail("has a string without an end");
    }
    std::string_view const inside = text_.substr(at_, end - at_);
    at_ = end + 1;
    return inside;
  }

  void type() {
    bool const is_plain = next_is('\'') || next_is('"');
    std::string_view const found = is_plain ? string() : "several fields";
    for (auto const& [word, type] :
         {std::pair{"|u1", NpyType::u1}, std::pair{"|b1", NpyType::u1},
          std::pair{"<i4", NpyType::i4}, std::pair{"<i8", NpyType::i8},
          std::pair{"<f4", NpyType::f4}, std::pair{"<f8", NpyType::f8}}) {
      if (found == word) {
        header_.type = type;
        return;
      }
    }
    throw FileError{name_, "the elements of the .npy file are " + printable(found) +
                               "; expected |u1, |b1, <i4, <i8, <f4 or <f8: save "
                               "array.astype(\"<f4\") or another of them"};
  }

  void order() {
    if (take_word("True")) {
      throw FileError{name_,
                      "the .npy file is in Fortran's order; save numpy.ascontiguousarray(array)"};
    }
    if (!take_word("False")) {
      fail("lacks True or False");
    }
  }

  void shape() {
    constexpr std::int64_t most = std::int64_t{1} << 48;
    want('(');
    while (!take(')')) {
      std::int64_t extent = 0;
      std::size_t const begin = (skip(), at_);
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && extent < most) {
        extent = extent * 10 + (text_[at_++] - '0');
      }
      if (at_ == begin || extent < 1 || extent >= most || header_.rank == 5 ||
          header_.elements > most / extent) {
        throw FileError{name_,
                        "the shape of the .npy file is empty, larger than any file, or of more "
                        "than five axes"};
      }
      take('L');  // Python 2 wrote (3L, 4L) on Windows
      header_.extent[header_.rank++] = extent;
      header_.elements *= extent;
      if (!take(',') && !next_is(')')) {
        fail("lacks a comma");
      }
    }
  }

  std::string_view text_;
  std::string const& name_;
  std::size_t at_ = 0;
  NpyHeader header_;
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE NpyHeader parse_npy(std::span<std::uint8_t const> bytes, std::string const& name) {
  constexpr std::string_view magic = "\x93NUMPY";
  for (std::size_t i = 0; i < magic.size(); ++i) {
    if (i < bytes.size() && bytes[i] != static_cast<std::uint8_t>(magic[i])) {
      throw FileError{name, "this is no .npy file, by its first bytes; numpy.save writes them"};
    }
  }
  std::size_t const sizes = bytes.size() > 6 && bytes[6] > 1 ? 12 : 10;  // bytes before the text
  std::size_t length = 0;
  for (std::size_t i = sizes; i-- > 8 && bytes.size() >= sizes;) {
    length = length << 8U | bytes[i];
  }
  if (bytes.size() < sizes || bytes.size() - sizes < length) {
    throw FileError{name, "the .npy file is truncated: it ends within its header, after " +
                              std::to_string(bytes.size()) + " bytes"};
  }
  if (bytes[6] < 1 || bytes[6] > 3) {
    throw FileError{
        name, "the .npy file is of version " + std::to_string(bytes[6]) + ", expected 1, 2 or 3"};
  }
  NpyHeader header =
      detail::NpyLiteral{{reinterpret_cast<char const*>(bytes.data()) + sizes, length}, name}
          .parse();
  header.bytes = sizes + length;
  std::uint64_t const size =
      header.bytes + static_cast<std::uint64_t>(header.elements) * size_of(header.type);
  if (size != bytes.size()) {
    throw FileError{name, std::string{bytes.size() < size ? "the .npy file is truncated"
                                                          : "the .npy file is too long"} +
                              ": expected " + std::to_string(size) + " bytes for a header and " +
                              std::to_string(header.elements) + " elements, found " +
                              std::to_string(bytes.size()) + " bytes"};
  }
  return header;
}

}  // namespace tandem

#endif
