// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/text/read_text.hpp>

#include "data_files.hpp"
#include "gzip_support.hpp"

namespace read_text_test {

using doctest::Contains;
using support::Bytes;
using tandem::FileError;
using tandem::read_text;

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

TEST_CASE("read_text gives the bytes of a file as they are") {
  support::TemporaryFolder const folder;
  std::string const text = "One\r\n\xC3\x86neas\n\xEF\xBB\xBF\t\xF0\x9F\x99\x82";
  CHECK(read_text(folder.write("a", bytes_of(text))) == text);
  CHECK(read_text(folder.write("b", {})).empty());
}

TEST_CASE("read_text leaves out a byte order mark at the front") {
  support::TemporaryFolder const folder;
  CHECK(read_text(folder.write("a", bytes_of("\xEF\xBB\xBF"
                                             "One"))) == "One");
}

TEST_CASE("read_text says at which byte a file ceases to be UTF-8") {
  support::TemporaryFolder const folder;
  std::string const path = folder.write("a", bytes_of("caf\xC3\xA9 caf\xE9 x"));
  CHECK_THROWS_WITH_AS(static_cast<void>(read_text(path)),
                       ("'" + path +
                        "': the text is not UTF-8 at byte 9; convert it first, as "
                        "'iconv -t UTF-8' does")
                           .c_str(),
                       FileError);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_text(folder.write("b", bytes_of("ab\xE2\x80")))),
                       Contains("at byte 2;"), FileError);
}

TEST_CASE("read_text refuses files above its limit and such that are not there") {
  support::TemporaryFolder const folder;
  std::string const path = folder.write("a", bytes_of("12345"));
  CHECK(read_text(path, 5) == "12345");
  CHECK_THROWS_WITH_AS(static_cast<void>(read_text(path, 4)),
                       Contains("larger than the limit of 4 bytes"), FileError);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_text(path + "x")), Contains("no such file"),
                       FileError);
}

TEST_CASE("read_text without zlib says so of a gzip file") {
  support::TemporaryFolder const folder;
  std::string const path = folder.write("a.txt", {0x1F, 0x8B, 8});
  CHECK_THROWS_WITH_AS(static_cast<void>(read_text<tandem::NoZlib>(path)),
                       Contains("compiled without zlib"), FileError);
}

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB

TEST_CASE("read_text inflates what begins as gzip does, whatever its name") {
  support::TemporaryFolder const folder;
  std::string const path = folder.write("a.txt", support::gzip(bytes_of("One \xC3\x86\n")));
  CHECK(read_text(path) == "One \xC3\x86\n");
  Bytes cut = support::gzip(bytes_of("One"));
  cut.resize(cut.size() - 4);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_text(folder.write("b.gz", cut))),
                       Contains("b.gz': the gzip file is truncated"), FileError);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(read_text(folder.write("c.gz", support::gzip(bytes_of("ab\xE9"))))),
      Contains("not UTF-8 at byte 2;"), FileError);
}

#endif

}  // namespace read_text_test
