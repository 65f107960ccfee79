// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/io/mapped_file.hpp>

#include "data_files.hpp"

namespace mapped_file_test {

using doctest::Contains;
using support::Bytes;
using tandem::FileError;
using tandem::MappedFile;

Bytes content(MappedFile const& file) { return {file.bytes().begin(), file.bytes().end()}; }

TEST_CASE("a MappedFile has the bytes of a file, also of an empty one") {
  support::TemporaryFolder const folder;
  Bytes large(100'000, 7);
  large[99'999] = 8;
  CHECK(content(MappedFile{folder.write("a", large)}) == large);
  CHECK(content(MappedFile{folder.write("b", {})}).empty());
}

TEST_CASE("a MappedFile may be moved, and outlives the name of its file") {
  support::TemporaryFolder const folder;
  MappedFile first{folder.write("a", {1, 2, 3})};
  MappedFile second{folder.write("b", {4})};
  std::filesystem::remove(folder.path() + "/a");
  second = std::move(first);
  MappedFile const third{std::move(second)};
  CHECK(content(third) == Bytes{1, 2, 3});
}

TEST_CASE("a MappedFile says what cannot be mapped") {
  support::TemporaryFolder const folder;
  CHECK_THROWS_WITH_AS(MappedFile{folder.path() + "/none"},
                       Contains("/none': there is no such file"), FileError);
  CHECK_THROWS_WITH_AS(MappedFile{folder.path()}, Contains("this is a folder, expected a file"),
                       FileError);
  std::string const pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(MappedFile{pipe}, Contains("this is a pipe or a device, expected a file"),
                       FileError);
}

}  // namespace mapped_file_test
