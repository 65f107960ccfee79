// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of data/ share: a folder for temporary files, and files of the formats it reads.

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

namespace support {

using Bytes = std::vector<std::uint8_t>;

/// A new folder below the current one, which ctest makes the build tree; removed with its content.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> next = 0;
    path_ = "data_test_" + std::to_string(::getpid()) + "_" + std::to_string(next++);
    std::filesystem::create_directory(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;

  [[nodiscard]] std::string const& path() const { return path_; }

  std::string write(std::string const& name, Bytes const& bytes) const {
    std::string const path = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path{path}.parent_path());
    std::ofstream file{path, std::ios::binary};
    file.write(reinterpret_cast<char const*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path;
  }

 private:
  std::string path_;
};

inline void append_word(Bytes& bytes, std::uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
}

/// An IDX file of @p values values: value i is (7 i + salt) % modulus.
inline Bytes idx_file(std::uint32_t magic, std::initializer_list<std::uint32_t> extents,
                      std::size_t values, std::size_t modulus, std::size_t salt = 0) {
  Bytes bytes;
  append_word(bytes, magic);
  for (std::uint32_t const extent : extents) {
    append_word(bytes, extent);
  }
  for (std::size_t i = 0; i < values; ++i) {
    bytes.push_back(static_cast<std::uint8_t>((7 * i + salt) % modulus));
  }
  return bytes;
}

inline Bytes idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t columns,
                        std::size_t salt = 0) {
  return idx_file(0x803, {count, rows, columns}, std::size_t{count} * rows * columns, 256, salt);
}

inline Bytes idx_labels(std::uint32_t count, std::size_t salt = 0) {
  return idx_file(0x801, {count}, count, 10, salt);
}

/// Records of CIFAR-10: record i has label (i + salt) % 10, and pixel p is (i + 3 p + salt) % 256.
inline Bytes cifar10_records(std::size_t count, std::size_t salt = 0) {
  Bytes bytes(count * 3073);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t* const record = bytes.data() + i * 3073;
    record[0] = static_cast<std::uint8_t>((i + salt) % 10);
    for (std::size_t p = 0; p < 3072; ++p) {
      record[1 + p] = static_cast<std::uint8_t>(i + 3 * p + salt);
    }
  }
  return bytes;
}

}  // namespace support
