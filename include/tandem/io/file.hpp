// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whole files into memory, with one sentence for each way in which that fails, and the largest
/// sizes that readers take.
///
/// On POSIX: <fstream> would cost every user of the umbrella its compile time, and neither it nor
/// <cstdio> can open a pipe without waiting for whoever writes into it.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// The largest file, and the largest content of a compressed file, that a reader takes by default:
/// 1 GiB, twenty times the largest file of the formats that tandem reads.
inline constexpr std::size_t default_file_limit = std::size_t{1} << 30;

/// The largest text that a person or a program writes for the planner to read: a graph, or an
/// action table, whose every cell of 4 bytes or more takes some 100 bytes.
inline constexpr std::size_t text_file_limit = std::size_t{1} << 26;

namespace detail {

/// Closes a descriptor that was only read from, where an error of close() means nothing.
class ReadDescriptor {
 public:
  explicit ReadDescriptor(int descriptor) noexcept : descriptor_{descriptor} {}
  ReadDescriptor(ReadDescriptor const&) = delete;
  ReadDescriptor& operator=(ReadDescriptor const&) = delete;
  ~ReadDescriptor() {
    if (descriptor_ >= 0) {
      static_cast<void>(::close(descriptor_));
    }
  }

  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

/// @p bytes as the characters of a text.
inline std::string_view characters_of(std::span<std::uint8_t const> bytes) {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

inline bool no_such_entry(int error) { return error == ENOENT || error == ENOTDIR; }

enum class Pipes { read, refuse };

/// A file that is read once, from front to back: a regular one, of which parts can be read, too, or
/// a pipe that has a writer.
class InputFile {
 public:
  /// @throws FileError  as read_file(), but for the limit
  TANDEM_ONCE explicit InputFile(std::string const& path, Pipes pipes = Pipes::read);

  /// 0 of what does not know it, as pipes.
  [[nodiscard]] std::size_t size() const {
    return S_ISREG(status_.st_mode) ? static_cast<std::size_t>(status_.st_size) : 0;
  }

  /// Bytes read, at most @p room, which is not 0; 0 at the end.
  TANDEM_ONCE std::size_t read(std::uint8_t* to, std::size_t room);

  /// @p size bytes from @p begin on, of a regular file.
  /// @throws FileError  it ends before, or cannot be read
  TANDEM_ONCE void read_at(std::uint64_t begin, std::uint8_t* to, std::size_t size);

 private:
  TANDEM_ONCE [[nodiscard]] FileError failure(char const* what) const;

  // Without waiting, a pipe is at its end if nobody has it open to write; else it is read as a file
  // is, for as long as its writer takes.
  TANDEM_ONCE void await_writer();

  std::string const& path_;
  ReadDescriptor file_;
  struct ::stat status_ {};
  std::uint8_t first_ = 0;
  int ahead_ = 0;  // bytes in first_ that are still to be given
};

}  // namespace detail

/// Whether there is an entry of this name, readable or not, file or folder.
[[nodiscard]] inline bool path_exists(std::string const& path) {
  struct ::stat status {};
  return ::stat(path.c_str(), &status) == 0 || !detail::no_such_entry(errno);
}

/// Whether @p path is a folder.
[[nodiscard]] inline bool folder_exists(std::string const& path) {
  return path_exists(path + "/.");
}

/// Whether @p path is a file, and no folder, pipe or device.
[[nodiscard]] inline bool is_regular_file(std::string const& path) {
  struct ::stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

/// All bytes of a file, or of a pipe that somebody writes into, to its end: so /dev/stdin and what
/// a shell makes of <(…) are read. Folders, devices and pipes without a writer are refused.
///
/// Cost:   one allocation of the file's size if the file knows it, as pipes do not.
/// @throws FileError  the file is missing, none of those, unreadable, or larger than @p limit bytes
TANDEM_ONCE [[nodiscard]] std::vector<std::uint8_t> read_file(
    std::string const& path, std::size_t limit = default_file_limit);

}  // namespace tandem

#if TANDEM_BODIES

#include <algorithm>
#include <cstring>

namespace tandem::detail {

TANDEM_ONCE InputFile::InputFile(std::string const& path, Pipes pipes)
    : path_{path}, file_{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {
  if (file_.get() < 0) {
    throw no_such_entry(errno) ? FileError{path, "there is no such file"}
                               : failure("the file cannot be opened: ");
  }
  if (::fstat(file_.get(), &status_) != 0) {
    throw failure("the file cannot be read: ");
  }
  if (S_ISDIR(status_.st_mode)) {
    throw FileError{path, "this is a folder, expected a file"};
  }
  if (S_ISFIFO(status_.st_mode) && pipes == Pipes::refuse) {
    throw FileError{path, "this is a pipe, whose size is not known; give a file"};
  }
  if (S_ISFIFO(status_.st_mode)) {
    await_writer();
  } else if (!S_ISREG(status_.st_mode)) {
    throw FileError{path, std::string{"this is a device or a socket, expected a file"} +
                              (pipes == Pipes::read ? " or a pipe" : "")};
  }
}

TANDEM_ONCE std::size_t InputFile::read(std::uint8_t* to, std::size_t room) {
  if (ahead_ > 0) {
    ahead_ = 0;
    to[0] = first_;
    return 1;
  }
  constexpr std::size_t most = std::size_t{1} << 30;  // some systems refuse 2 GiB in one call
  ::ssize_t got = -1;
  do {
    got = ::read(file_.get(), to, std::min(room, most));
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    throw failure("the file cannot be read: ");
  }
  return static_cast<std::size_t>(got);
}

TANDEM_ONCE void InputFile::read_at(std::uint64_t begin, std::uint8_t* to, std::size_t size) {
  constexpr std::size_t most = std::size_t{1} << 30;
  while (size > 0) {
    ::ssize_t const got =
        ::pread(file_.get(), to, std::min(size, most), static_cast<::off_t>(begin));
    if (got == 0) {
      throw FileError{path_, "the file became shorter while it was read"};
    }
    if (got < 0 && errno != EINTR) {
      throw failure("the file cannot be read: ");
    }
    std::size_t const some = got > 0 ? static_cast<std::size_t>(got) : 0;
    to += some;
    begin += some;
    size -= some;
  }
}

TANDEM_ONCE FileError InputFile::failure(char const* what) const {
  return FileError{path_, std::string{what} + std::strerror(errno)};
}

TANDEM_ONCE void InputFile::await_writer() {
  ::ssize_t const got = ::read(file_.get(), &first_, 1);
  if (got == 0) {
    throw FileError{path_,
                    "this is a pipe into which nobody writes; start what writes into it first, or "
                    "give a file"};
  }
  if (got < 0 && errno != EAGAIN) {
    throw failure("the file cannot be read: ");
  }
  ahead_ = got > 0 ? 1 : 0;
  if (::fcntl(file_.get(), F_SETFL, O_RDONLY) != 0) {  // from now on it waits
    throw failure("the file cannot be read: ");
  }
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::vector<std::uint8_t> read_file(std::string const& path, std::size_t limit) {
  auto const check = [&](std::size_t size) {
    if (size > limit) {
      throw FileError{path, "the file is larger than the limit of " + std::to_string(limit) +
                                " bytes for files of its kind"};
    }
  };
  detail::InputFile file{path};
  check(file.size());
  std::vector<std::uint8_t> bytes(file.size() + 1);  // one more finds the end
  std::size_t used = 0;
  while (std::size_t const got = file.read(bytes.data() + used, bytes.size() - used)) {
    used += got;
    check(used);
    if (used == bytes.size()) {
      bytes.resize(used + used / 2 + 65536);
    }
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace tandem

#endif
