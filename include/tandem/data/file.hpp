// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whole files into memory, with one sentence for each way in which that fails.
///
/// On <cstdio>: <fstream> and <filesystem> would cost every user of the umbrella their compile
/// time.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>

namespace tandem {

/// The largest file, and the largest content of a compressed file, that a reader takes by default:
/// 1 GiB, twenty times the largest file of the formats that tandem reads.
inline constexpr std::size_t default_file_limit = std::size_t{1} << 30;

namespace detail {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
};

using OpenFile = std::unique_ptr<std::FILE, CloseFile>;

inline bool no_such_entry(int error) { return error == ENOENT || error == ENOTDIR; }

}  // namespace detail

/// Whether there is an entry of this name, readable or not, file or folder.
[[nodiscard]] inline bool path_exists(std::string const& path) {
  detail::OpenFile const file{std::fopen(path.c_str(), "rb")};
  return file != nullptr || !detail::no_such_entry(errno);
}

/// Whether @p path is a folder.
[[nodiscard]] inline bool folder_exists(std::string const& path) {
  return path_exists(path + "/.");
}

/// All bytes of a file.
///
/// Cost:   one allocation of the file's size if the file knows it, as pipes do not.
/// @throws FileError  the file is missing, a folder, unreadable, or larger than @p limit bytes
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] std::vector<std::uint8_t> read_file(std::string const& path,
                                                  std::size_t limit = default_file_limit) {
  auto const too_large = [&] {
    return FileError{path, "the file is larger than the limit of " + std::to_string(limit) +
                               " bytes for files of its kind"};
  };
  errno = 0;
  detail::OpenFile const file{std::fopen(path.c_str(), "rb")};
  if (file == nullptr) {
    throw detail::no_such_entry(errno)
        ? FileError{path, "there is no such file"}
        : FileError{path, std::string{"the file cannot be opened: "} + std::strerror(errno)};
  }
  std::vector<std::uint8_t> bytes(1);
  std::size_t used = std::fread(bytes.data(), 1, 1, file.get());  // tells folders from files
  if (used == 1 && std::fseek(file.get(), 0, SEEK_END) == 0) {
    long const size = std::ftell(file.get());
    static_cast<void>(std::fseek(file.get(), 1, SEEK_SET));
    if (size > 0 && static_cast<std::size_t>(size) > limit) {
      throw too_large();
    }
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) + 1 : 1);  // one more finds the end
  }
  while (std::feof(file.get()) == 0 && std::ferror(file.get()) == 0 && used <= limit) {
    if (used == bytes.size()) {
      bytes.resize(used + used / 2 + 65536);
    }
    used += std::fread(bytes.data() + used, 1, bytes.size() - used, file.get());
  }
  if (std::ferror(file.get()) != 0) {
    throw errno == EISDIR
        ? FileError{path, "this is a folder, expected a file"}
        : FileError{path, std::string{"the file cannot be read: "} + std::strerror(errno)};
  }
  if (used > limit) {
    throw too_large();
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace tandem
