// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/text/sword.hpp>
#include <tandem/data/text/token_span.hpp>

#include "data_files.hpp"
#include "sword_module.hpp"

#if !defined(TANDEM_SWORD_KJV)
#define TANDEM_SWORD_KJV "/usr/share/sword/modules/texts/ztext/engKJV2006eb"
#endif

namespace sword_test {

using doctest::Contains;
using support::AsIs;
using support::Bytes;
using support::SwordFiles;
using tandem::FileError;
using Verses = std::vector<std::string>;

static_assert(tandem::BlockInflater<tandem::NoZlib> && tandem::BlockInflater<tandem::Inflate>);
static_assert(tandem::BlockInflater<AsIs> && !tandem::BlockInflater<int>);

SwordFiles two_blocks() {
  SwordFiles files;
  files.append({"", "<title>A</title>", "In the <w>beginning</w>", "", "\xC3\x86neas  &amp; I"});
  files.append({"Let there be light<note>x</note>."});
  return files;
}

Verses verses_of(SwordFiles const& files, std::size_t limit = 1000) {
  Verses verses;
  tandem::append_sword_verses<AsIs>({files.blocks, files.entries, files.packed, "m/ot.b"}, verses,
                                    limit);
  return verses;
}

TEST_CASE("a SWORD module gives a string for each entry, stripped") {
  CHECK(verses_of(two_blocks()) ==
        Verses{"", "", "In the beginning", "", "\xC3\x86neas & I", "Let there be light."});
  CHECK(verses_of({}).empty());
}

TEST_CASE("a SWORD entry without bytes may point anywhere, and two may share theirs") {
  SwordFiles files;
  files.entry(77, 99, 0);
  files.append({"And so"});
  files.entry(0, 0, 6);
  files.entry(0, 4, 2);
  CHECK(verses_of(files) == Verses{"", "And so", "And so", "so"});
}

TEST_CASE("read_sword gives both testaments in order, a line an entry") {
  support::TemporaryFolder const folder;
  two_blocks().write(folder, "nt.b");
  CHECK(tandem::read_sword<AsIs>(folder.path()) ==
        "In the beginning\n\xC3\x86neas & I\nLet there be light.\n");
  SwordFiles old;
  old.append({"First"});
  old.write(folder, "ot.v");  // a block a verse
  CHECK(tandem::read_sword_verses<AsIs>(folder.path()).size() == 7);
  CHECK(tandem::read_sword<AsIs>(folder.path()) ==
        "First\nIn the beginning\n\xC3\x86neas & I\nLet there be light.\n");
}

TEST_CASE("read_sword says what a folder lacks") {
  support::TemporaryFolder const folder;
  CHECK_THROWS_WITH_AS(
      static_cast<void>(tandem::read_sword(folder.path() + "/none")),
      Contains("/none': there is no such folder; expected one with a SWORD module of driver zText, "
               "such as /usr/share/sword/modules/texts/ztext/engKJV2006eb of the Debian package "
               "sword-text-kjv"),
      FileError);
  CHECK_THROWS_WITH_AS(static_cast<void>(tandem::read_sword(folder.path())),
                       Contains("this folder holds no SWORD module of driver zText: expected "
                                "ot.bzs or nt.bzs"),
                       FileError);
  folder.write("ot.czs", Bytes(12));
  CHECK_THROWS_WITH_AS(static_cast<void>(tandem::read_sword(folder.path())),
                       Contains("/ot.czv': there is no such file"), FileError);
}

TEST_CASE("read_sword_pairs gives the verses that two modules both have") {
  support::TemporaryFolder const first;
  support::TemporaryFolder const second;
  support::TemporaryFolder const third;
  two_blocks().write(first, "ot.b");
  SwordFiles files;
  files.append({"preface", "", "En el principio", "mas", ""});
  files.append({"la luz."});
  files.write(second, "ot.c");
  auto const [ours, theirs] = tandem::read_sword_pairs<AsIs>(first.path(), second.path());
  CHECK(ours == Verses{"In the beginning", "Let there be light."});
  CHECK(theirs == Verses{"En el principio", "la luz."});
  files.append({"one more"});
  files.write(third, "ot.b");
  CHECK_THROWS_WITH_AS(
      static_cast<void>(tandem::read_sword_pairs<AsIs>(first.path(), third.path())),
      Contains("this module has 7 entries and '"), FileError);
}

TEST_CASE("read_sword without zlib says so") {
  support::TemporaryFolder const folder;
  two_blocks().write(folder, "ot.b");
  CHECK_THROWS_WITH_AS(static_cast<void>(tandem::read_sword<tandem::NoZlib>(folder.path())),
                       Contains("/ot.bzz': this program was compiled without zlib and cannot read "
                                "compressed blocks; define TANDEM_ZLIB=1 and link -lz"),
                       FileError);
}

/// What the error of a module says that @p damage has changed.
template <class Damage>
std::string error_of(Damage const& damage, std::size_t limit = 1000) {
  SwordFiles files = two_blocks();
  damage(files);
  try {
    static_cast<void>(verses_of(files, limit));
  } catch (FileError const& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a SWORD module that lies is refused with the byte of the lie") {
  CHECK(error_of([](SwordFiles& f) { f.blocks.pop_back(); }) ==
        "'m/ot.bzs': the file is truncated: it has 23 bytes, no multiple of the 12 of each block");
  CHECK(error_of([](SwordFiles& f) { f.entries.pop_back(); }) ==
        "'m/ot.bzv': the file is truncated: it has 59 bytes, no multiple of the 10 of each entry");
  CHECK(error_of([](SwordFiles& f) { f.packed.pop_back(); }) ==
        "'m/ot.bzs': the block at byte 12 should be bytes 54 to 87 of 'm/ot.bzz', which has 86");
  CHECK(error_of([](SwordFiles& f) { f.blocks[8] += 1; }) ==
        "'m/ot.bzz': the block at byte 0 unpacks to 54 bytes, expected 55");
  CHECK(error_of([](SwordFiles& f) { f.blocks[7] = 255; }) ==
        "'m/ot.bzs': the block at byte 0 should be bytes 0 to 4278190134 of 'm/ot.bzz', which has "
        "87");
  CHECK(error_of([](SwordFiles& f) { f.entries[50] = 2; }) ==
        "'m/ot.bzv': the entry at byte 50 should be bytes 0 to 33 of block 2, but there are 2 "
        "blocks");
  CHECK(error_of([](SwordFiles& f) { f.entries[54] = 1; }) ==
        "'m/ot.bzv': the entry at byte 50 should be bytes 1 to 34 of block 1, which has 33");
  CHECK(error_of([](SwordFiles& f) { f.packed[39] = 'n'; }) ==
        "'m/ot.bzv': the entry at byte 40 should be bytes 39 to 54 of block 0, which is not UTF-8 "
        "at byte 40");
  CHECK(error_of([](SwordFiles&) {}, 60) ==
        "'m/ot.bzs': the blocks up to byte 12 unpack to more than the limit of 60 bytes for files "
        "of this kind");
  CHECK(error_of(
            [](SwordFiles& f) {
              for (int i = 0; i < 9; ++i) {
                f.entry(1, 0, 20);
              }
            },
            100) ==
        "'m/ot.bzv': the entries up to byte 80 are of more than the limit of 100 bytes "
        "of text");
}

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB

TEST_CASE("read_sword unpacks blocks with zlib, whatever stands behind them") {
  auto const pack = [](Bytes const& text) {
    Bytes packed(compressBound(static_cast<uLong>(text.size())));
    uLongf size = static_cast<uLongf>(packed.size());
    REQUIRE(compress(packed.data(), &size, text.data(), static_cast<uLong>(text.size())) == Z_OK);
    packed.resize(size + 3);
    return packed;
  };
  SwordFiles files;
  files.append({"Words"}, pack);
  files.append({std::string(5000, 'a'), "End"}, pack);
  support::TemporaryFolder const folder;
  files.write(folder, "ot.b");
  CHECK(tandem::read_sword(folder.path()) == "Words\n" + std::string(5000, 'a') + "\nEnd\n");

  std::size_t const second = files.blocks[12];
  auto const message = [&](SwordFiles const& damaged) {
    damaged.write(folder, "ot.b");
    try {
      static_cast<void>(tandem::read_sword(folder.path()));
    } catch (FileError const& error) {
      std::string const what = error.what();
      return what.substr(what.find("': ") + 3);
    }
    return std::string{"no error"};
  };
  std::string const block = "the block at byte " + std::to_string(second);
  SwordFiles damaged = files;
  damaged.packed[second + 1] ^= 1;
  CHECK(message(damaged) ==
        block + " is damaged: incorrect header check near byte " + std::to_string(second + 2));
  damaged = files;
  damaged.blocks[16] = 9;
  CHECK(message(damaged) == block + " is truncated: it ends after 9 bytes, within its content");
  damaged = files;
  damaged.blocks[20] -= 1;
  CHECK(message(damaged) == "the unpacked content of " + block +
                                " is larger than the limit of 5002 bytes that are expected");
}

TEST_CASE("read_sword reads the King James Bible of the Debian package") {
  std::string const folder = TANDEM_SWORD_KJV;
  if (!tandem::folder_exists(folder)) {
    MESSAGE("skipped: no folder " << folder << ", install sword-text-kjv");
    return;
  }
  std::string const text = tandem::read_sword(folder);
  std::set<std::string> characters;
  bool ascii[128] = {};
  std::size_t counted = 0;
  std::size_t lines = 0;
  std::size_t words = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto const byte = static_cast<unsigned char>(text[at]);
    counted += (byte & 0xC0) != 0x80 ? 1 : 0;
    lines += byte == '\n' ? 1 : 0;
    words += byte == '\n' || byte == ' ' ? 1 : 0;  // one behind each word
    if (byte < 0x80) {
      ascii[byte] = true;
    } else if (byte >= 0xC0) {
      characters.insert(text.substr(at, byte < 0xE0 ? 2 : 3));
    }
  }
  CHECK(std::count(ascii, ascii + 128, true) == 65);
  CHECK(characters ==
        std::set<std::string>{"\xC3\x86", "\xC3\xA6", "\xE2\x80\x94", "\xE2\x80\x99"});
  CHECK(lines == 31102);
  CHECK(words == 789706);
  CHECK(counted == 4138643);
  CHECK(text.size() == 4142733);
  std::vector<std::int32_t> const tokens(counted);
  auto const [train, validation] = tandem::TokenSpan{tokens, 69}.split(0.9);
  CHECK(train.size() == 3724778);
  CHECK(validation.size() == 413865);
  CHECK(
      text.starts_with("In the beginning God created the heaven and the earth.\n"
                       "And the earth was without form, and void; "));
  CHECK(text.ends_with("\nThe grace of our Lord Jesus Christ be with you all. Amen.\n"));
}

#endif

}  // namespace sword_test
