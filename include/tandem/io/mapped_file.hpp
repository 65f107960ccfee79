// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MappedFile: a file's bytes in the address space, read from the disk where they are looked at.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/file.hpp>

namespace tandem {

/// A regular file, mapped to be read. Several processes that map it share its memory.
///
/// The file must not get shorter meanwhile: reading what is no longer there ends the program
/// (SIGBUS). Replacing it under its name, as AtomicFile does, is safe.
class MappedFile {
 public:
  /// @throws FileError  there is no such file, it is no regular one, or it cannot be mapped
  TANDEM_ONCE explicit MappedFile(std::string const& path);

  MappedFile(MappedFile&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedFile() {
    if (data_ != nullptr) {
      static_cast<void>(::munmap(const_cast<std::uint8_t*>(data_), size_));
    }
  }

  /// Aligned to a page. The memory is the file's: valid while this lives, also after a move.
  [[nodiscard]] std::span<std::uint8_t const> bytes() const noexcept { return {data_, size_}; }

 private:
  std::uint8_t const* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE MappedFile::MappedFile(std::string const& path) {
  detail::ReadDescriptor const file{
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // no waiting for a pipe's writer
  if (file.get() < 0) {
    throw FileError{path, detail::no_such_entry(errno)
                              ? "there is no such file"
                              : std::string{"the file cannot be opened: "} + std::strerror(errno)};
  }
  struct ::stat status {};
  if (::fstat(file.get(), &status) != 0) {
    throw FileError{path, std::string{"the file cannot be read: "} + std::strerror(errno)};
  }
  if (!S_ISREG(status.st_mode)) {
    throw FileError{path, std::string{"this is a "} +
                              (S_ISDIR(status.st_mode) ? "folder" : "pipe or a device") +
                              ", expected a file"};
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) {
    return;  // which cannot be mapped
  }
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    throw FileError{path, std::string{"the file cannot be mapped: "} + std::strerror(errno)};
  }
  data_ = static_cast<std::uint8_t const*>(data);
}

}  // namespace tandem

#endif
