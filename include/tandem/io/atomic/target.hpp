// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What an AtomicFile replaces: the file at the end of symbolic links, with its owner and
/// permissions, and nothing that is no file.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>

#include <tandem/core/config.hpp>
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

/// @throws FileError  what is at @p path is no regular file, or it is write-protected
TANDEM_ONCE AtomicTarget find_atomic_target(std::string const& path);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

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

}  // namespace tandem::detail

#endif
