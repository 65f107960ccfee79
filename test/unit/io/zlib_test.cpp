// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/io/gzip.hpp>

#include "data_files.hpp"
#include "gzip_support.hpp"

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB

namespace zlib_test {

using doctest::Contains;
using support::Bytes;
using support::gzip;
using tandem::FileError;
using tandem::Zlib;

static_assert(tandem::Inflater<Zlib>);

Bytes some_bytes(std::size_t size) {
  Bytes bytes(size);
  std::uint32_t state = 1;
  for (auto& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

TEST_CASE("Zlib inflates what was deflated, up to its limit") {
  for (std::size_t const size : {0U, 1U, 65535U, 65536U, 65537U, 400000U}) {
    Bytes const bytes = some_bytes(size);
    Bytes const packed = gzip(bytes);
    CHECK(Zlib::inflate(packed, "some.gz", 1000000) == bytes);
    CHECK(Zlib::inflate(packed, "some.gz", size) == bytes);
    if (size > 0) {
      CHECK_THROWS_WITH_AS(static_cast<void>(Zlib::inflate(packed, "some.gz", size - 1)),
                           Contains("some.gz': the unpacked content is larger than the limit"),
                           FileError);
    }
  }
}

TEST_CASE("Zlib stops a bomb at its limit") {
  Bytes const packed = gzip(Bytes(50000000));  // 48 kB
  REQUIRE(packed.size() < 100000);
  CHECK_THROWS_WITH_AS(static_cast<void>(Zlib::inflate(packed, "bomb.gz", 100000)),
                       Contains("larger than the limit of 100000 bytes"), FileError);
}

TEST_CASE("Zlib joins the members of a file") {
  Bytes packed = gzip({'a', 'b'});
  Bytes const second = gzip({'c'});
  packed.insert(packed.end(), second.begin(), second.end());
  CHECK(Zlib::inflate(packed, "two.gz", 10) == Bytes{'a', 'b', 'c'});
}

TEST_CASE("Zlib leaves out zeros after the last member") {
  Bytes packed = gzip({'a', 'b'});
  packed.insert(packed.end(), 100000, 0);
  CHECK(Zlib::inflate(packed, "padded.gz", 10) == Bytes{'a', 'b'});
  packed.push_back('x');
  CHECK_THROWS_WITH_AS(static_cast<void>(Zlib::inflate(packed, "padded.gz", 10)),
                       Contains("the gzip file is damaged: incorrect header check"), FileError);
}

TEST_CASE("Zlib refuses every truncation") {
  Bytes const packed = gzip(some_bytes(1000));
  for (std::size_t size = 0; size < packed.size(); size += 13) {
    Bytes const cut(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_THROWS_WITH_AS(static_cast<void>(Zlib::inflate(cut, "cut.gz", 5000)),
                         Contains("cut.gz': the gzip file is truncated: it ends after"), FileError);
  }
}

TEST_CASE("Zlib refuses damage: no gzip, a wrong checksum, something behind the end") {
  CHECK_THROWS_WITH_AS(static_cast<void>(Zlib::inflate(Bytes{'n', 'o', 't'}, "no.gz", 10)),
                       Contains("no.gz': the gzip file is damaged: incorrect header check"),
                       FileError);
  Bytes packed = gzip({'a', 'b'});
  packed[packed.size() - 8] ^= 1U;
  CHECK_THROWS_WITH_AS(static_cast<void>(Zlib::inflate(packed, "bad.gz", 10)),
                       Contains("the gzip file is damaged: incorrect data check"), FileError);
  packed[packed.size() - 8] ^= 1U;
  packed.insert(packed.end(), {'x', 'y', 'z'});
  CHECK_THROWS_WITH_AS(static_cast<void>(Zlib::inflate(packed, "more.gz", 10)),
                       Contains("the gzip file is damaged: incorrect header check"), FileError);
}

}  // namespace zlib_test

#else

TEST_CASE("Zlib") { MESSAGE("skipped: compiled without TANDEM_ZLIB"); }

#endif
