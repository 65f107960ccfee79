// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TokenFile: tokens on the disk, mapped into memory, so that a corpus may be larger than that.
///
/// The format, little-endian: the 8 bytes "tandemTk"; the bytes of a token, 2 or 4, and the size of
/// the vocabulary, 32 bits each; the number of tokens, 64 bits; the tokens. A token has two bytes
/// where the vocabulary allows it.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/data/text/token_span.hpp>
#include <tandem/io/atomic/file.hpp>
#include <tandem/io/mapped_file.hpp>

namespace tandem {

/// What the header of a file of tokens promises, once the file has been seen to keep it.
struct TokenHeader {
  static constexpr std::size_t bytes = 24;  ///< of itself
  static constexpr std::string_view magic = "tandemTk";

  int width = 2;  ///< bytes of a token, 2 or 4
  int vocabulary = 1;
  std::int64_t count = 0;
};

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

/// Checks the front of a file of tokens, of @p size bytes in all; not the tokens themselves, which
/// TokenSpan checks as they are read.
/// @throws FileError  it is no such file, or of another size than it says; @p path is for messages
TANDEM_ONCE [[nodiscard]] TokenHeader parse_token_header(std::span<std::uint8_t const> front,
                                                         std::size_t size, std::string const& path);

/// Writes @p tokens to a file that TokenFile reads; it appears whole or not at all.
/// @throws Error      a token is not in [0, @p vocabulary)
/// @throws FileError  the file cannot be written; a previous one is untouched
TANDEM_ONCE void write_tokens(std::string const& path, std::span<std::int32_t const> tokens,
                              int vocabulary);

/// A file that write_tokens() wrote, mapped.
class TokenFile {
 public:
  /// Cost:   no memory of its own; the tokens are read when they are looked at.
  /// @throws FileError  see MappedFile and parse_token_header()
  TANDEM_ONCE explicit TokenFile(std::string const& path);

  [[nodiscard]] std::int64_t size() const noexcept { return header_.count; }
  [[nodiscard]] int vocabulary() const noexcept { return header_.vocabulary; }

  /// All tokens; valid while this lives.
  TANDEM_ONCE [[nodiscard]] TokenSpan tokens() const&;
  TokenSpan tokens() const&& = delete;  // the file owns them: give it a name

 private:
  MappedFile file_;
  TokenHeader header_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE TokenHeader parse_token_header(std::span<std::uint8_t const> front, std::size_t size,
                                           std::string const& path) {
  if (front.size() < TokenHeader::bytes) {
    throw FileError{path, "expected a file of tokens, which begins with a header of " +
                              std::to_string(TokenHeader::bytes) + " bytes; found " +
                              std::to_string(size) + " bytes"};
  }
  std::uint32_t words[2];
  std::uint64_t count = 0;
  std::memcpy(words, front.data() + 8, 8);
  std::memcpy(&count, front.data() + 16, 8);
  if (std::memcmp(front.data(), TokenHeader::magic.data(), 8) != 0) {
    throw FileError{path,
                    "expected a file of tokens, which begins with the bytes 'tandemTk'; "
                    "write one with write_tokens()"};
  }
  if (words[0] != 2 && words[0] != 4) {
    throw FileError{path, "the header is wrong at byte 8: a token has 2 or 4 bytes, found " +
                              std::to_string(words[0])};
  }
  std::uint32_t const most = words[0] == 2 ? 0x10000U : 0x7FFFFFFFU;
  if (words[1] == 0 || words[1] > most) {
    throw FileError{path, "the header is wrong at byte 12: a vocabulary of tokens of " +
                              std::to_string(words[0]) + " bytes has 1 to " + std::to_string(most) +
                              ", found " + std::to_string(words[1])};
  }
  std::size_t const room = size - TokenHeader::bytes;
  if (room % words[0] != 0 || count != room / words[0]) {
    throw FileError{path, "the header at byte 16 says " + std::to_string(count) + " tokens of " +
                              std::to_string(words[0]) + " bytes, but the file has " +
                              std::to_string(room) + " bytes behind its header"};
  }
  return {static_cast<int>(words[0]), static_cast<int>(words[1]), static_cast<std::int64_t>(count)};
}

TANDEM_ONCE void write_tokens(std::string const& path, std::span<std::int32_t const> tokens,
                              int vocabulary) {
  TokenSpan const source{tokens, vocabulary};
  bool const narrow = vocabulary <= 0x10000;
  std::uint32_t const words[2] = {narrow ? 2U : 4U, static_cast<std::uint32_t>(vocabulary)};
  std::uint64_t const count = tokens.size();
  AtomicFile file{path};
  file.write(std::as_bytes(std::span{TokenHeader::magic}));
  file.write(std::as_bytes(std::span{words}));
  file.write(std::as_bytes(std::span{&count, 1}));
  std::vector<std::int32_t> piece;
  std::vector<std::uint16_t> half;
  for (std::size_t first = 0; first < tokens.size(); first += piece.size()) {
    std::size_t const left = tokens.size() - first;
    piece.resize(left < 65536 ? left : 65536);
    source.copy(static_cast<std::int64_t>(first), piece);
    half.assign(piece.begin(), piece.end());
    file.write(narrow ? std::as_bytes(std::span{half}) : std::as_bytes(std::span{piece}));
  }
  file.commit();
}

TANDEM_ONCE TokenFile::TokenFile(std::string const& path) : file_{path} {
  auto const bytes = file_.bytes();
  header_ = parse_token_header(
      bytes.first(bytes.size() < TokenHeader::bytes ? bytes.size() : TokenHeader::bytes),
      bytes.size(), path);
}

TANDEM_ONCE TokenSpan TokenFile::tokens() const& {
  auto const count = static_cast<std::size_t>(header_.count);
  void const* const first = file_.bytes().data() + TokenHeader::bytes;  // on a page: aligned
  if (header_.width == 2) {
    return {std::span{static_cast<std::uint16_t const*>(first), count}, header_.vocabulary};
  }
  return {std::span{static_cast<std::int32_t const*>(first), count}, header_.vocabulary};
}

}  // namespace tandem

#endif
