// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AtomicFile: a file that appears whole under its name, or not at all.
///
/// The bytes go to a temporary file in the same folder, which commit() flushes to the disk and
/// renames. A process that dies before that leaves the previous file as it was, and the temporary
/// file beside it, which the next AtomicFile of this path removes. Links, permissions and owner of
/// what is there stay (target.hpp); another hard link to it keeps the old content.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/atomic/target.hpp>

namespace tandem {

namespace detail {

/// Writes all of @p bytes to @p descriptor; returns 0, or the errno of the call that failed.
TANDEM_ONCE [[nodiscard]] int write_all(int descriptor, std::span<std::byte const> bytes) noexcept;

/// Flushes a folder, so that a rename in it survives a power failure; returns 0 or an errno.
/// EINVAL counts as success: it is how a file system says that it has nothing to flush.
TANDEM_ONCE [[nodiscard]] int sync_folder(char const* folder) noexcept;

}  // namespace detail

/// Writes a file through a temporary one; only commit() gives it its name.
///
/// Any call that throws has removed the temporary file already; afterwards the object is closed.
/// Two AtomicFiles of one path do not mix: the last commit() wins.
class [[nodiscard]] AtomicFile {
 public:
  /// Removes what dead processes left of this path, and creates the temporary file
  /// `<path>.tmp-<process>-<n>`, locked while this lives.
  /// @throws FileError  the folder does not exist or cannot be written, or what is at @p path is
  ///                    no file, is write-protected or could not keep its owner or permissions
  TANDEM_ONCE explicit AtomicFile(std::string path);

  AtomicFile(AtomicFile const&) = delete;
  AtomicFile& operator=(AtomicFile const&) = delete;

  /// Without a commit(): removes the temporary file.
  ~AtomicFile() { discard(); }

  /// Appends @p bytes.
  /// @throws FileError  the disk is full or broken, or the file larger than this process may write;
  ///                    the previous file is untouched
  TANDEM_ONCE void write(std::span<std::byte const> bytes);

  /// Flushes the bytes to the disk and gives the file its name. Call it once, as the last verb.
  /// @throws FileError  some step failed; the text says whether the previous file is untouched
  TANDEM_ONCE void commit();

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  void expects_open() const {
    expects(descriptor_ >= 0,
            "AtomicFile: this file is closed, after commit() or a call that threw; make another");
  }

  // Whether there is a new file of this name, which is ours: not one that another process took for
  // a dead one's and removed before it was locked.
  TANDEM_ONCE bool create(std::string name);

  TANDEM_ONCE void keep_owner_and_mode();

  TANDEM_ONCE [[noreturn]] TANDEM_COLD void fail(char const* what, int error);

  TANDEM_ONCE void discard() noexcept;

  std::string path_;
  detail::AtomicTarget target_;  // the file at the end of links
  std::string temporary_;        // empty once it has been renamed or removed
  int descriptor_ = -1;
  std::uint64_t size_ = 0;  // written, and about to be
};

}  // namespace tandem

#if TANDEM_BODIES

#include <tandem/io/atomic/leftovers.hpp>

namespace tandem::detail {

/// The largest file that this process may write (ulimit -f). A write beyond it would end the
/// process: its signal, SIGXFSZ, does so unless somebody minds it.
TANDEM_ONCE [[nodiscard]] std::uint64_t file_size_limit() noexcept {
  struct ::rlimit limit {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
             ? std::uint64_t{limit.rlim_cur}
             : std::numeric_limits<std::uint64_t>::max();
}

TANDEM_ONCE int write_all(int descriptor, std::span<std::byte const> bytes) noexcept {
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

TANDEM_ONCE int sync_folder(char const* folder) noexcept {
  int const descriptor = ::open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return errno;
  }
  int const error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  static_cast<void>(::close(descriptor));
  return error;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE AtomicFile::AtomicFile(std::string path)
    : path_{std::move(path)}, target_{detail::find_atomic_target(path_)} {
  detail::remove_leftovers(target_.folder, target_.path);
  std::string const stem = target_.path + ".tmp-" + std::to_string(::getpid()) + "-";
  for (int n = 0; !create(stem + std::to_string(n)); ++n) {
  }
  if (target_.exists) {
    keep_owner_and_mode();
  }
}

TANDEM_ONCE void AtomicFile::keep_owner_and_mode() {
  struct ::stat own {};
  if (::fstat(descriptor_, &own) != 0) {
    fail("cannot ask for the owner of the new content", errno);
  }
  if ((own.st_uid != target_.owner || own.st_gid != target_.group) &&
      ::fchown(descriptor_, target_.owner, target_.group) != 0) {
    fail(
        "cannot give the new content the owner and group of the file that is there, so save "
        "under another name or remove it",
        errno);
  }
  if (::fchmod(descriptor_, target_.mode) != 0) {
    fail("cannot give the new content the permissions of the file that is there", errno);
  }
}

TANDEM_ONCE void AtomicFile::write(std::span<std::byte const> bytes) {
  expects_open();
  size_ += bytes.size();
  if (size_ > detail::file_size_limit()) {
    fail("cannot write the new content, which is larger than a file may be here (ulimit -f)",
         EFBIG);
  }
  if (int const error = detail::write_all(descriptor_, bytes); error != 0) {
    fail("cannot write the new content", error);
  }
}

TANDEM_ONCE void AtomicFile::commit() {
  expects_open();
  if (::fsync(descriptor_) != 0) {
    fail("cannot flush the new content to the disk", errno);
  }
  if (std::rename(temporary_.c_str(), target_.path.c_str()) != 0) {  // still locked
    fail("cannot rename the new content to this name", errno);
  }
  temporary_.clear();
  discard();  // what close() could say, fsync() has said
  if (int const error = detail::sync_folder(target_.folder.c_str()); error != 0) {
    throw FileError{path_, "the new content is in place, but its folder cannot be flushed (" +
                               std::generic_category().message(error) +
                               "): a power failure may bring the previous file back"};
  }
}

TANDEM_ONCE bool AtomicFile::create(std::string name) {
  int const descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                target_.exists ? 0600 : 0666);  // until the owner is known
  if (descriptor < 0) {
    if (errno != EEXIST && errno != EINTR) {
      fail("cannot create a temporary file beside it", errno);
    }
    return false;
  }
  bool const taken = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  struct ::stat status {};
  if (taken || (::fstat(descriptor, &status) == 0 && status.st_nlink == 0)) {
    static_cast<void>(::close(descriptor));
    return false;
  }
  descriptor_ = descriptor;
  temporary_ = std::move(name);
  return true;
}

TANDEM_ONCE void AtomicFile::fail(char const* what, int error) {
  discard();
  throw FileError{path_, std::string{what} + ": " + std::generic_category().message(error) +
                             "; the previous file, if there was one, is untouched"};
}

TANDEM_ONCE void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) {
    static_cast<void>(::close(std::exchange(descriptor_, -1)));
  }
  if (!temporary_.empty()) {
    static_cast<void>(::unlink(temporary_.c_str()));
    temporary_.clear();
  }
}

}  // namespace tandem

#endif
