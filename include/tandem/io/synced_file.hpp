// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SyncedFile: a file written from front to back, flushed to the disk, and summed on the way; and
/// the folders that such files lie in.
///
/// For files of a folder that gets its name when all of them are whole: one alone is an AtomicFile.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/crc32c.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/atomic/file.hpp>

namespace tandem::detail {

/// A file of a folder: what is to be found there.
struct FileSum {
  std::string name;  ///< without the folder
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  bool operator==(FileSum const&) const = default;
};

/// Replaces what is there. What was written when it is destroyed without a finish() stays there.
class [[nodiscard]] SyncedFile {
 public:
  /// @throws FileError  it cannot be created
  TANDEM_ONCE SyncedFile(std::string const& folder, std::string name);
  SyncedFile(SyncedFile const&) = delete;
  SyncedFile& operator=(SyncedFile const&) = delete;
  ~SyncedFile() { close(); }

  /// Appends @p bytes, in pieces that are summed while they are in the cache.
  /// @throws FileError  the disk is full or broken, or the file larger than this process may write
  TANDEM_ONCE void write(std::span<std::byte const> bytes);

  /// Flushes it to the disk.
  /// @throws FileError  it cannot be
  TANDEM_ONCE FileSum finish();

 private:
  TANDEM_ONCE [[noreturn]] void fail(char const* what, int error) const;
  void close() noexcept {
    if (descriptor_ >= 0) {
      static_cast<void>(::close(std::exchange(descriptor_, -1)));
    }
  }

  std::string path_;
  FileSum sum_;
  Crc32c crc_;
  int descriptor_ = -1;
};

/// A file of this text.
TANDEM_ONCE FileSum write_synced(std::string const& folder, std::string name,
                                 std::string_view text);

/// Makes the folder, and those that it is in, where they are not there; each survives a power
/// failure when this returns.
/// @throws FileError  one cannot be made or flushed
TANDEM_ONCE void make_folders(std::string const& path);

/// The names in a folder, sorted; none where it cannot be read.
TANDEM_ONCE [[nodiscard]] std::vector<std::string> names_in(std::string const& folder);

/// Removes a folder and the files in it; a folder within it stays, and so does it then.
TANDEM_ONCE void remove_folder(std::string const& folder) noexcept;

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE SyncedFile::SyncedFile(std::string const& folder, std::string name)
    : path_{folder + "/" + name}, sum_{.name = std::move(name)} {
  do {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) {
    fail("cannot create the file", errno);
  }
}

TANDEM_ONCE void SyncedFile::write(std::span<std::byte const> bytes) {
  constexpr std::size_t piece = std::size_t{1} << 18;
  sum_.bytes += bytes.size();
  if (sum_.bytes > file_size_limit()) {
    fail("cannot write a file that is larger than one may be here (ulimit -f)", EFBIG);
  }
  while (!bytes.empty()) {
    auto const some = bytes.first(std::min(piece, bytes.size()));
    crc_.add(some);
    if (int const error = write_all(descriptor_, some); error != 0) {
      fail("cannot write the file", error);
    }
    bytes = bytes.subspan(some.size());
  }
}

TANDEM_ONCE FileSum SyncedFile::finish() {
  if (::fsync(descriptor_) != 0) {
    fail("cannot flush the file to the disk", errno);
  }
  close();
  sum_.crc32c = crc_.digest();
  return sum_;
}

TANDEM_ONCE void SyncedFile::fail(char const* what, int error) const {
  throw FileError{path_, std::string{what} + ": " + std::generic_category().message(error)};
}

TANDEM_ONCE FileSum write_synced(std::string const& folder, std::string name,
                                 std::string_view text) {
  SyncedFile file{folder, std::move(name)};
  file.write(std::as_bytes(std::span{text}));
  return file.finish();
}

TANDEM_ONCE void make_folders(std::string const& path) {
  for (std::size_t end = 0; end != path.npos;) {
    end = path.find('/', end + 1);
    std::string const folder = path.substr(0, end);
    bool const made = ::mkdir(folder.c_str(), 0777) == 0;
    int error = made ? 0 : errno;
    if (made) {
      std::string const parent = folder_part(folder);
      error = sync_folder(parent.empty() ? "." : parent.c_str());
    }
    struct ::stat status {};
    bool const there = ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    if (!there || (made && error != 0)) {
      throw FileError{
          path, "cannot make this folder: " +
                    std::generic_category().message(there || error != EEXIST ? error : ENOTDIR)};
    }
  }
}

TANDEM_ONCE std::vector<std::string> names_in(std::string const& folder) {
  struct Close {
    void operator()(::DIR* entries) const { static_cast<void>(::closedir(entries)); }
  };
  std::vector<std::string> names;
  std::unique_ptr<::DIR, Close> const entries{::opendir(folder.c_str())};
  while (::dirent const* const entry = entries ? ::readdir(entries.get()) : nullptr) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

TANDEM_ONCE void remove_folder(std::string const& folder) noexcept {
  try {
    for (std::string const& name : names_in(folder)) {
      static_cast<void>(::unlink((folder + "/" + name).c_str()));
    }
    static_cast<void>(::rmdir(folder.c_str()));
  } catch (...) {  // no memory: it stays
  }
}

}  // namespace tandem::detail

#endif
