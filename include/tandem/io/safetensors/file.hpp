// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads a whole file into memory, with an error for each way in which that can fail.
///
/// Not a memory map: a file that another process cuts short meanwhile is an error here, there a
/// signal.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <system_error>

#include <tandem/core/error.hpp>
#include <tandem/io/file.hpp>

namespace tandem::detail {

struct FileBytes {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;

  [[nodiscard]] std::span<std::byte const> span() const noexcept { return {bytes.get(), size}; }
};

/// @throws FileError  there is no regular file at @p path, it cannot be read, it shrinks while it
/// is
///                    read, or memory for it is lacking
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] FileBytes read_whole_file(std::string const& path) {
  auto const fail = [&](char const* what, int error) {
    throw FileError{path, std::string{what} + ": " + std::generic_category().message(error)};
  };
  // O_NONBLOCK: a pipe at this path is refused below, not waited for.
  ReadDescriptor const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.get() < 0) {
    fail("cannot open the file", errno);
  }
  struct ::stat status {};
  if (::fstat(file.get(), &status) != 0) {
    fail("cannot ask for the size of the file", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw FileError{path, "this is a folder or a device, not a regular file"};
  }
  FileBytes result;
  result.size = static_cast<std::size_t>(status.st_size);
  result.bytes.reset(new (std::nothrow) std::byte[result.size]);
  if (result.bytes == nullptr) {
    throw FileError{path, "there is no memory for its " + std::to_string(result.size) + " bytes"};
  }
  constexpr std::size_t most = std::size_t{1} << 30;  // some systems refuse 2 GiB in one call
  for (std::size_t have = 0; have < result.size;) {
    std::size_t const missing = result.size - have;
    ::ssize_t const got =
        ::read(file.get(), result.bytes.get() + have, missing < most ? missing : most);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      fail("cannot read the file", errno);
    }
    if (got == 0) {
      throw FileError{path, "the file became shorter while it was read"};
    }
    have += static_cast<std::size_t>(got);
  }
  return result;
}

}  // namespace tandem::detail
