// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace tandem::test {

/// An empty folder, removed with all that is in it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(
      std::filesystem::path const& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "tandem-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string const& name() const { return path_.native(); }

  /// Number of entries in the folder.
  [[nodiscard]] std::ptrdiff_t entries() const {
    return std::distance(std::filesystem::directory_iterator{path_},
                         std::filesystem::directory_iterator{});
  }

 private:
  std::filesystem::path path_;
};

inline std::string content(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>{file}, {}};
}

inline void put(std::string const& path, std::string_view text) {
  std::ofstream file{path, std::ios::binary};
  file << text;
  REQUIRE(file.good());
}

/// Flips a bit of a file, in place: a file that is made anew would wait for its disk.
inline void flip(std::string const& path, std::size_t byte, int bit) {
  std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
  file.seekg(static_cast<std::streamoff>(byte));
  int const before = file.get();
  file.seekp(static_cast<std::streamoff>(byte));
  file.put(static_cast<char>(before ^ 1 << bit));
  file.close();
  REQUIRE(file.good());
}

inline std::span<std::byte const> bytes(std::string_view text) {
  return std::as_bytes(std::span{text});
}

/// What the exception of type Exception that @p call throws says; "" and a failed check if none.
template <class Exception, class Call>
std::string message(Call const& call) {
  try {
    call();
  } catch (Exception const& error) {
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace tandem::test
