// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads a whole file into memory, with an error for each way in which that can fail.
///
/// Not a memory map: a file that another process cuts short meanwhile is an error here, there a
/// signal.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/file.hpp>

namespace tandem::detail {

struct FileBytes {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;

  [[nodiscard]] std::span<std::byte const> span() const noexcept { return {bytes.get(), size}; }
};

/// @throws FileError  there is no regular file at @p path, it cannot be read, it shrinks while it
///                    is read, or memory for it is lacking
TANDEM_ONCE [[nodiscard]] FileBytes read_whole_file(std::string const& path);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE FileBytes read_whole_file(std::string const& path) {
  InputFile file{path, Pipes::refuse};
  FileBytes result{.bytes = nullptr, .size = file.size()};
  result.bytes.reset(new (std::nothrow) std::byte[result.size]);
  if (result.bytes == nullptr) {
    throw FileError{path, "there is no memory for its " + std::to_string(result.size) + " bytes"};
  }
  auto* const to = reinterpret_cast<std::uint8_t*>(result.bytes.get());
  for (std::size_t have = 0; have < result.size;) {
    std::size_t const got = file.read(to + have, result.size - have);
    if (got == 0) {
      throw FileError{path, "the file became shorter while it was read"};
    }
    have += got;
  }
  return result;
}

}  // namespace tandem::detail

#endif
