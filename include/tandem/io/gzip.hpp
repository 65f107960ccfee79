// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Inflate: how this program reads .gz files, with zlib or not at all; and files that may be .gz.
///
/// tandem needs no library. A program that defines TANDEM_ZLIB=1 and links -lz reads .gz files; any
/// other is told what to do. The macro chooses what an alias names, never the body of a function.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/zlib.hpp>

namespace tandem {

/// What inflates a gzip buffer to at most @p limit bytes; the name is for messages.
template <class I>
concept Inflater = requires(std::span<std::uint8_t const> packed, std::string const& name,
                            std::size_t limit) {
  { I::inflate(packed, name, limit) } -> std::same_as<std::vector<std::uint8_t>>;
};

/// What inflates the zlib stream at byte @p first of a file, to at most @p limit bytes.
template <class I>
concept BlockInflater = requires(std::span<std::uint8_t const> packed, std::string const& name,
                                 std::size_t first, std::size_t limit) {
  { I::inflate_block(packed, name, first, limit) } -> std::same_as<std::vector<std::uint8_t>>;
};

/// The Inflater and BlockInflater of a program without zlib.
struct NoZlib {
  /// @throws FileError  always: it says how to get along
  TANDEM_ONCE [[noreturn]] TANDEM_COLD static std::vector<std::uint8_t> inflate(
      std::span<std::uint8_t const>, std::string const& name, std::size_t);

  /// @throws FileError  always: it says how to get along
  TANDEM_ONCE [[noreturn]] TANDEM_COLD static std::vector<std::uint8_t> inflate_block(
      std::span<std::uint8_t const>, std::string const& name, std::size_t, std::size_t);
};

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB
using Inflate = Zlib;
#else
using Inflate = NoZlib;
#endif

namespace detail {

/// Whether @p bytes begin as a gzip file does.
[[nodiscard]] inline bool is_gzip(std::span<std::uint8_t const> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

}  // namespace detail

/// The content of a file, inflated if it begins as gzip does, whatever its name.
/// @throws FileError  as read_file(), or it is larger than @p limit bytes when inflated
template <Inflater I>
[[nodiscard]] std::vector<std::uint8_t> read_inflated(std::string const& path,
                                                      std::size_t limit = default_file_limit) {
  std::vector<std::uint8_t> bytes = read_file(path, limit);
  return detail::is_gzip({bytes.data(), bytes.size()})
             ? I::inflate({bytes.data(), bytes.size()}, path, limit)
             : bytes;
}

/// The content of @p path, or if there is no such file, of the one of that name with ".gz".
/// @throws FileError  neither is there, or as read_inflated()
template <Inflater I>
[[nodiscard]] std::vector<std::uint8_t> read_plain_or_gzip(std::string const& path,
                                                           std::size_t limit = default_file_limit) {
  if (path_exists(path)) {
    return read_inflated<I>(path, limit);
  }
  std::string const packed_path = path + ".gz";
  if (!path_exists(packed_path)) {
    throw FileError{path, "neither this file nor one of this name with '.gz' is there"};
  }
  return read_inflated<I>(packed_path, limit);
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::vector<std::uint8_t> NoZlib::inflate(std::span<std::uint8_t const>,
                                                      std::string const& name, std::size_t) {
  throw FileError{name,
                  "this program was compiled without zlib and cannot read gzip files; define "
                  "TANDEM_ZLIB=1 and link -lz, or gunzip the file first"};
}

TANDEM_ONCE std::vector<std::uint8_t> NoZlib::inflate_block(std::span<std::uint8_t const>,
                                                            std::string const& name, std::size_t,
                                                            std::size_t) {
  throw FileError{name,
                  "this program was compiled without zlib and cannot read compressed blocks; "
                  "define TANDEM_ZLIB=1 and link -lz"};
}

}  // namespace tandem

#endif
