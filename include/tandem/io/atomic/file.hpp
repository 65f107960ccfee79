// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AtomicFile: a file that appears whole under its name, or not at all.
///
/// The bytes go to a temporary file in the same folder, which commit() flushes to the disk and
/// renames. A process that dies before that leaves the previous file as it was, and the temporary
/// file beside it, which the next AtomicFile of this path removes. Links, permissions and owner of
/// what is there stay; another hard link to it keeps the old content.
///
/// A process that writes holds a lock (flock) on its temporary file, which ends with the process,
/// however it ends. So a file of such a name that can be locked is nobody's. Where files cannot be
/// locked none is removed; where another machine's locks are not seen (a network disk mounted with
/// local locks) two machines that save to one name at once may take each other's: then the commit()
/// of one fails, and no file is torn.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

struct AtomicTarget {
  std::string path;    ///< with all links followed
  std::string folder;  ///< of it, ends in '/' or is "."
  bool exists = false;
  ::mode_t mode = 0;  ///< this and the next two: if it exists
  ::uid_t owner = 0;
  ::gid_t group = 0;
};

/// The folder of a path, with the '/' behind it, or "".
inline std::string folder_part(std::string const& path) {
  std::size_t const slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace tandem::detail

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

#include <memory>
#include <string_view>

#include <dirent.h>

namespace tandem::detail {

/// Whether @p name is `<file>.tmp-<digits>-<digits>`.
constexpr bool is_leftover(std::string_view name, std::string_view file) {
  constexpr std::string_view mark = ".tmp-";
  if (!name.starts_with(file) || !name.substr(file.size()).starts_with(mark)) {
    return false;
  }
  std::string_view const numbers = name.substr(file.size() + mark.size());
  auto const digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  auto const dash = numbers.find('-');
  return dash != std::string_view::npos && digits(numbers.substr(0, dash)) &&
         digits(numbers.substr(dash + 1));
}

/// Removes what is left beside the file @p path of dead processes; what cannot be, stays.
/// @param folder  of the path
/// Cost: one look through the folder.
TANDEM_ONCE void remove_leftovers(std::string const& folder, std::string const& path);

/// Removes the file if nobody has it locked.
TANDEM_ONCE void remove_if_abandoned(std::string const& path) noexcept {
  // O_RDWR: a network disk locks only what may be written. O_NONBLOCK: a pipe is not waited for.
  int const file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    return;
  }
  struct ::stat opened {};
  struct ::stat named {};
  // While the lock is held nobody else removes it, so that the name stays this file's.
  if (::fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) &&
      ::flock(file, LOCK_EX | LOCK_NB) == 0 && ::lstat(path.c_str(), &named) == 0 &&
      named.st_dev == opened.st_dev && named.st_ino == opened.st_ino) {
    static_cast<void>(::unlink(path.c_str()));
  }
  static_cast<void>(::close(file));
}

TANDEM_ONCE void remove_leftovers(std::string const& folder, std::string const& path) {
  struct Close {
    void operator()(::DIR* entries) const { static_cast<void>(::closedir(entries)); }
  };
  std::unique_ptr<::DIR, Close> const entries{::opendir(folder.c_str())};
  if (entries == nullptr) {
    return;
  }
  std::string const parent = path.find('/') == std::string::npos ? "" : folder;
  std::string_view const file = std::string_view{path}.substr(parent.size());
  while (::dirent const* const entry = ::readdir(entries.get())) {
    if (is_leftover(entry->d_name, file)) {
      remove_if_abandoned(parent + entry->d_name);
    }
  }
}

/// The path with symbolic links at its end followed, also those to a file that there is not.
TANDEM_ONCE std::string follow_links(std::string const& path) {
  std::string at = path;
  for (int links = 0; links < 40; ++links) {  // as many as Linux follows
    std::string to(4096, '\0');               // PATH_MAX: no link is longer
    ::ssize_t const size = ::readlink(at.c_str(), to.data(), to.size());
    if (size < 0) {  // no link, or nothing there: whoever opens it says what is wrong
      return at;
    }
    to.resize(static_cast<std::size_t>(size));
    at = to.starts_with('/') ? to : folder_part(at) + to;
  }
  throw FileError{path, "symbolic links go round in a circle here; give the name of a file"};
}

/// @throws FileError  what is at @p path is no regular file, or it is write-protected
TANDEM_ONCE AtomicTarget find_atomic_target(std::string const& path) {
  struct ::stat status {};
  bool const exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT && errno != ELOOP) {
    throw FileError{path,
                    "cannot look at what is there: " + std::generic_category().message(errno)};
  }
  if (exists && !S_ISREG(status.st_mode)) {
    throw FileError{path, std::string{"this is a "} +
                              (S_ISDIR(status.st_mode)    ? "folder"
                               : S_ISFIFO(status.st_mode) ? "pipe"
                               : S_ISSOCK(status.st_mode) ? "socket"
                                                          : "device") +
                              ", which a file would replace; give the name of a file"};
  }
  // Renaming asks for the permissions of the folder only.
  if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
    throw FileError{path, "the file is write-protected (" + std::generic_category().message(errno) +
                              "); allow writing to it, or save under another name"};
  }
  AtomicTarget target;
  target.path = follow_links(path);
  target.exists = exists;
  target.folder = folder_part(target.path);
  if (target.folder.empty()) {
    target.folder = ".";
  }
  if (exists) {
    target.mode = status.st_mode & 07777;
    target.owner = status.st_uid;
    target.group = status.st_gid;
  }
  return target;
}

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
