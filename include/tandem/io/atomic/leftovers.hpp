// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Temporary files of processes that died while they wrote: which they are, and their removal.
///
/// Who writes holds a lock (flock) on its temporary file, which ends with the process, however it
/// ends. So a file of such a name that can be locked is nobody's. Where files cannot be locked none
/// is removed; where another machine's locks are not seen (a network disk mounted with local locks)
/// two machines that save to one name at once may take each other's: then the commit() of one
/// fails, and no file is torn.

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tandem/core/config.hpp>

#include <memory>
#include <string>
#include <string_view>

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

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

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

}  // namespace tandem::detail

#endif
