// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Small files that only this user may read and write, in folders where others may write, too.
///
/// Whatever else lies there under such a name (another user's file, a link, a folder, a FIFO) is
/// neither followed nor waited for. Root and who has the same user number are trusted.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>

namespace tandem::detail {

/// An open file, socket or the like, closed at the end; -1: none. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_{descriptor} {}
  Descriptor(Descriptor&& other) noexcept : descriptor_{other.descriptor_} {
    other.descriptor_ = -1;
  }
  Descriptor& operator=(Descriptor&& other) noexcept {
    int const mine = descriptor_;
    descriptor_ = other.descriptor_;
    other.descriptor_ = mine;
    return *this;
  }
  ~Descriptor() {
    if (descriptor_ >= 0) {
      static_cast<void>(::close(descriptor_));
    }
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// What read_private_file() found.
struct PrivateFile {
  int error = 0;  ///< the system's number, as ENOENT
  bool is_private =
      false;  ///< a plain file of this user's, for nobody else; else there are no bytes
  std::vector<std::byte> bytes{};
};

/// Whether the open @p file is a plain one of this user's that nobody else may read or write.
inline bool is_private(Descriptor const& file) {
  struct ::stat what {};
  return ::fstat(file.get(), &what) == 0 && S_ISREG(what.st_mode) && what.st_uid == ::geteuid() &&
         (what.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/// The whole of the file at @p path, @p most bytes at most. Never blocks for what others do.
TANDEM_ONCE PrivateFile read_private_file(std::string const& path, std::size_t most);

/// Makes the file @p path, which must not exist, with @p bytes in it. Others may see a part of them
/// for a moment, but only this user's processes.
/// @throws FileError  it exists, the folder does not, or the folder cannot keep files private
TANDEM_ONCE void make_private_file(std::string const& path, std::span<std::byte const> bytes);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE PrivateFile read_private_file(std::string const& path, std::size_t most) {
  PrivateFile read;
  Descriptor const file{
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)};
  if (file.get() < 0) {
    read.error = errno;
    return read;
  }
  read.is_private = is_private(file);
  if (!read.is_private) {
    return read;
  }
  read.bytes.resize(most);
  std::size_t size = 0;
  while (size < most) {
    ::ssize_t const got = ::read(file.get(), read.bytes.data() + size, most - size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    size += static_cast<std::size_t>(got);
  }
  read.bytes.resize(size);
  return read;
}

TANDEM_ONCE void make_private_file(std::string const& path, std::span<std::byte const> bytes) {
  auto const fail = [&path](std::string const& why) {
    throw FileError{printable(path), "cannot be written for the rendezvous: " + why};
  };
  Descriptor const file{
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (file.get() < 0) {
    fail(std::generic_category().message(errno));
  }
  if (!is_private(file)) {
    static_cast<void>(::unlink(path.c_str()));
    fail("files that are made there are not this user's alone; choose another folder");
  }
  while (!bytes.empty()) {
    ::ssize_t const wrote = ::write(file.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) {
      continue;
    }
    if (wrote <= 0) {
      int const error = wrote == 0 ? EIO : errno;
      static_cast<void>(::unlink(path.c_str()));
      fail(std::generic_category().message(error));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
}

}  // namespace tandem::detail

#endif
