// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>

#include <tandem/core/error.hpp>
#include <tandem/io/safetensors/file.hpp>

#include <sanitizers.hpp>

#include "temporary_folder.hpp"

namespace tandem {
namespace safetensors_file_test {

std::string fault(std::string const& path) {
  return test::message<FileError>([&] { static_cast<void>(detail::read_whole_file(path)); });
}

TEST_CASE("read_whole_file gives the bytes, also none") {
  test::TemporaryFolder const folder;
  for (std::string const& text : {std::string{}, std::string{"a"}, std::string{"a\0b\n", 4}}) {
    test::put(folder.file("x"), text);
    detail::FileBytes const file = detail::read_whole_file(folder.file("x"));
    CHECK(std::string_view{reinterpret_cast<char const*>(file.span().data()), file.size} == text);
  }
}

TEST_CASE("read_whole_file refuses what is no regular file") {
  test::TemporaryFolder const folder;
  std::string const missing = folder.file("missing");
  std::string const pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(fault(missing) == "'" + missing + "': there is no such file");
  CHECK(fault(folder.name()) == "'" + folder.name() + "': this is a folder, expected a file");
  CHECK(fault(pipe) == "'" + pipe + "': this is a pipe, whose size is not known; give a file");
  CHECK(fault("/dev/null") == "'/dev/null': this is a device or a socket, expected a file");
}

constexpr bool stops_without_memory = TANDEM_TEST_SANITIZED;

/// A file of 2^62 bytes, more than any address space has; few file systems make one.
bool make_sparse(std::string const& path) {
  test::put(path, "");
  return ::truncate(path.c_str(), ::off_t{1} << 62) == 0;
}

TEST_CASE("read_whole_file refuses a file for which memory is lacking") {
  if (stops_without_memory) {
    MESSAGE("skipped: this sanitizer stops the program when memory is lacking");
    return;
  }
  bool const has_memory_disk = std::filesystem::exists("/dev/shm");
  test::TemporaryFolder const folder{has_memory_disk ? std::filesystem::path{"/dev/shm"}
                                                     : std::filesystem::temp_directory_path()};
  std::string const path = folder.file("sparse");
  if (!make_sparse(path)) {
    MESSAGE("skipped: no file of 2^62 bytes can be made here");
    return;
  }
  CHECK(fault(path) == "'" + path + "': there is no memory for its 4611686018427387904 bytes");
}

TEST_CASE("read_whole_file refuses a file that is shorter than its size says") {
  std::string const path = "/sys/devices/system/cpu/online";  // says 4096 bytes and has a few
  struct ::stat status {};
  if (::stat(path.c_str(), &status) != 0 || status.st_size < 4096) {
    MESSAGE("skipped: there is no /sys here");
    return;
  }
  CHECK(fault(path) == "'" + path + "': the file became shorter while it was read");
}

}  // namespace safetensors_file_test
}  // namespace tandem
