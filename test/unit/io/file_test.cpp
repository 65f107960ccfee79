// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/io/file.hpp>

#include "data_files.hpp"

namespace file_test {

using doctest::Contains;
using support::Bytes;
using tandem::FileError;
using tandem::read_file;

TEST_CASE("read_file returns all bytes of files of all sizes") {
  support::TemporaryFolder const folder;
  for (std::size_t const size : {0U, 1U, 2U, 65535U, 65536U, 65537U, 300000U}) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<std::uint8_t>(i * 31);
    }
    CHECK(read_file(folder.write("some.bin", bytes)) == bytes);
  }
}

TEST_CASE("read_file reads what does not know its size") {
  if (::access("/proc/self/status", R_OK) != 0) {
    MESSAGE("skipped: no /proc here");
    return;
  }
  Bytes const bytes = read_file("/proc/self/status");
  CHECK(bytes.size() > 100);
  CHECK(bytes.back() == '\n');
}

TEST_CASE("read_file takes files up to its limit") {
  support::TemporaryFolder const folder;
  std::string const path = folder.write("ten.bin", Bytes(10));
  CHECK(read_file(path, 10).size() == 10);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_file(path, 9)),
                       Contains("ten.bin': the file is larger than the limit of 9 bytes"),
                       FileError);
}

TEST_CASE("read_file refuses devices, which may never end") {
  for (char const* const device : {"/dev/zero", "/dev/null"}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(read_file(device, 100000)),
                         Contains("this is a device or a socket, expected a file or a pipe"),
                         FileError);
  }
}

TEST_CASE("a pipe is read to its end, and refused where nobody writes") {
  support::TemporaryFolder const folder;
  std::string const path = folder.path() + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_file(path)),
                       Contains("this is a pipe into which nobody writes"), FileError);
  CHECK(tandem::path_exists(path));  // does not wait, either

  for (bool const late : {false, true}) {
    int ends[2] = {-1, -1};
    REQUIRE(::pipe(ends) == 0);
    auto const write = [&] {
      for (char const byte : {'a', 'b', 'c'}) {
        CHECK(::write(ends[1], &byte, 1) == 1);
      }
      ::close(ends[1]);
    };
    std::thread writer;
    if (late) {  // often after read_file() has begun, which must not matter
      writer = std::thread{write};
    } else {
      write();
    }
    CHECK(read_file("/dev/fd/" + std::to_string(ends[0])) == Bytes{'a', 'b', 'c'});
    if (late) {
      writer.join();
    }
    ::close(ends[0]);
  }

  int ends[2] = {-1, -1};
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "abcdefghij", 10) == 10);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_file("/dev/fd/" + std::to_string(ends[0]), 9)),
                       Contains("larger than the limit of 9 bytes"), FileError);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("read_file says what is wrong with what is no file") {
  support::TemporaryFolder const folder;
  CHECK_THROWS_WITH_AS(static_cast<void>(read_file(folder.path() + "/missing")),
                       Contains("missing': there is no such file"), FileError);
  std::string const file = folder.write("file", Bytes(1));
  CHECK_THROWS_WITH_AS(static_cast<void>(read_file(file + "/below")),
                       Contains("below': there is no such file"), FileError);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_file(folder.path())),
                       Contains("this is a folder, expected a file"), FileError);
}

TEST_CASE("read_file says why a file cannot be opened") {
  support::TemporaryFolder const folder;
  std::string const loop = folder.path() + "/loop";  // also root cannot open this one
  REQUIRE(::symlink("loop", loop.c_str()) == 0);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_file(loop)), Contains("the file cannot be opened: "),
                       FileError);
  if (::geteuid() == 0) {
    MESSAGE("skipped: root reads files without permission");
    return;
  }
  std::string const secret = folder.write("secret", Bytes(1));
  REQUIRE(::chmod(secret.c_str(), 0) == 0);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_file(secret)),
                       Contains("the file cannot be opened: Permission denied"), FileError);
}

TEST_CASE("path_exists and folder_exists tell files from folders") {
  support::TemporaryFolder const folder;
  std::string const file = folder.write("file", Bytes(1));
  CHECK(tandem::path_exists(file));
  CHECK(tandem::path_exists(folder.path()));
  CHECK_FALSE(tandem::path_exists(folder.path() + "/missing"));
  CHECK(tandem::folder_exists(folder.path()));
  CHECK_FALSE(tandem::folder_exists(file));
  CHECK_FALSE(tandem::folder_exists(folder.path() + "/missing"));
}

}  // namespace file_test
