// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AtomicFile: a file that appears whole under its name, or not at all.
///
/// The bytes go to a temporary file in the same folder, which commit() flushes to the disk and
/// renames. A process that dies before that leaves the previous file as it was, and the temporary
/// file beside it. A symbolic link at the name is replaced, not followed.

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

namespace detail {

/// Writes all of @p bytes to @p descriptor; returns 0, or the errno of the call that failed.
[[nodiscard]] inline int write_all(int descriptor, std::span<std::byte const> bytes) noexcept {
  constexpr std::size_t most = std::size_t{1} << 30;  // some systems refuse 2 GiB in one call
  while (!bytes.empty()) {
    std::size_t const ask = bytes.size() < most ? bytes.size() : most;
    ::ssize_t const wrote = ::write(descriptor, bytes.data(), ask);
    if (wrote < 0 && errno == EINTR) {
      continue;
    }
    if (wrote <= 0) {
      return wrote < 0 ? errno : EIO;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return 0;
}

/// Flushes a folder, so that a rename in it survives a power failure; returns 0 or an errno.
/// EINVAL counts as success: it is how a file system says that it has nothing to flush.
[[nodiscard]] inline int sync_folder(char const* folder) noexcept {
  int const descriptor = ::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return errno;
  }
  int const error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  static_cast<void>(::close(descriptor));
  return error;
}

}  // namespace detail

/// Writes a file through a temporary one; only commit() gives it its name.
///
/// Any call that throws has removed the temporary file already; afterwards the object is closed.
/// Two AtomicFiles of one path do not mix: the last commit() wins.
class [[nodiscard]] AtomicFile {
 public:
  /// Creates the temporary file `<path>.tmp-<process>-<n>`.
  /// @throws FileError  the folder does not exist or cannot be written
  template <class = void>  // compiled where it is called, not by every include
  explicit AtomicFile(std::string path) : path_{std::move(path)} {
    std::string const stem = path_ + ".tmp-" + std::to_string(::getpid()) + "-";
    for (int n = 0; descriptor_ < 0; ++n) {
      temporary_ = stem + std::to_string(n);
      descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && errno != EEXIST && errno != EINTR) {
        temporary_.clear();
        fail("cannot create a temporary file beside it", errno);
      }
    }
  }

  AtomicFile(AtomicFile const&) = delete;
  AtomicFile& operator=(AtomicFile const&) = delete;

  /// Without a commit(): removes the temporary file.
  ~AtomicFile() { discard(); }

  /// Appends @p bytes.
  /// @throws FileError  the disk is full or broken; the previous file is untouched
  void write(std::span<std::byte const> bytes) {
    expects_open();
    if (int const error = detail::write_all(descriptor_, bytes); error != 0) {
      fail("cannot write the new content", error);
    }
  }

  /// Flushes the bytes to the disk and gives the file its name. Call it once, as the last verb.
  /// @throws FileError  some step failed; the text says whether the previous file is untouched
  void commit() {
    expects_open();
    if (::fsync(descriptor_) != 0) {
      fail("cannot flush the new content to the disk", errno);
    }
    if (::close(std::exchange(descriptor_, -1)) != 0) {  // closed also if it fails
      fail("cannot close the new content", errno);
    }
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      fail("cannot rename the new content to this name", errno);
    }
    temporary_.clear();
    if (int const error = detail::sync_folder(folder().c_str()); error != 0) {
      throw FileError{path_, "the new content is in place, but its folder cannot be flushed (" +
                                 std::generic_category().message(error) +
                                 "): a power failure may bring the previous file back"};
    }
  }

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  void expects_open() const {
    expects(descriptor_ >= 0,
            "AtomicFile: this file is closed, after commit() or a call that threw; make another");
  }

  [[noreturn]] void fail(char const* what, int error) {
    discard();
    throw FileError{path_, std::string{what} + ": " + std::generic_category().message(error) +
                               "; the previous file, if there was one, is untouched"};
  }

  void discard() noexcept {
    if (descriptor_ >= 0) {
      static_cast<void>(::close(std::exchange(descriptor_, -1)));
    }
    if (!temporary_.empty()) {
      static_cast<void>(::unlink(temporary_.c_str()));
      temporary_.clear();
    }
  }

  [[nodiscard]] std::string folder() const {
    std::size_t const slash = path_.rfind('/');
    return slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  }

  std::string path_;
  std::string temporary_;  // empty once it has been renamed or removed
  int descriptor_ = -1;
};

}  // namespace tandem
