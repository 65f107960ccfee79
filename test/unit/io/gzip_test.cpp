// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/io/gzip.hpp>

#include "data_files.hpp"

namespace gzip_test {

using doctest::Contains;
using support::Bytes;
using tandem::FileError;
using tandem::read_plain_or_gzip;

/// An Inflater that leaves its argument as it is, but for a mark.
struct Marking {
  static Bytes inflate(std::span<std::uint8_t const> packed, std::string const&, std::size_t) {
    Bytes bytes(packed.begin(), packed.end());
    bytes.push_back('!');
    return bytes;
  }
};

static_assert(tandem::Inflater<tandem::NoZlib> && tandem::Inflater<Marking>);
static_assert(tandem::Inflater<tandem::Inflate> && !tandem::Inflater<int>);

TEST_CASE("NoZlib says how to get along without zlib") {
  CHECK_THROWS_WITH_AS(
      static_cast<void>(tandem::NoZlib::inflate({}, "images.gz", 1)),
      "'images.gz': this program was compiled without zlib and cannot read gzip files; define "
      "TANDEM_ZLIB=1 and link -lz, or gunzip the file first",
      FileError);
}

TEST_CASE("read_plain_or_gzip prefers the plain file") {
  support::TemporaryFolder const folder;
  std::string const path = folder.path() + "/some";
  CHECK_THROWS_WITH_AS(static_cast<void>(read_plain_or_gzip<Marking>(path)),
                       Contains("some': neither this file nor one of this name with '.gz'"),
                       FileError);
  folder.write("some.gz", {0x1F, 0x8B});
  CHECK(read_plain_or_gzip<Marking>(path) == Bytes{0x1F, 0x8B, '!'});
  folder.write("some", {'p'});
  CHECK(read_plain_or_gzip<Marking>(path) == Bytes{'p'});
}

TEST_CASE("read_plain_or_gzip inflates what begins as gzip does, whatever its name") {
  support::TemporaryFolder const folder;
  std::string const path = folder.path() + "/some";
  folder.write("some.gz", {0x1F});
  CHECK(read_plain_or_gzip<Marking>(path) == Bytes{0x1F});
  folder.write("some", {0x1F, 0x8B, 8});
  CHECK(read_plain_or_gzip<Marking>(path) == Bytes{0x1F, 0x8B, 8, '!'});
}

TEST_CASE("read_plain_or_gzip passes its limit on") {
  support::TemporaryFolder const folder;
  std::string const path = folder.write("some", Bytes(5));
  CHECK_THROWS_WITH_AS(static_cast<void>(read_plain_or_gzip<Marking>(path, 4)),
                       Contains("larger than the limit of 4 bytes"), FileError);
}

}  // namespace gzip_test
