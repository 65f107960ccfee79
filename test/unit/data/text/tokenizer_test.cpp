// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/text/characters.hpp>
#include <tandem/data/text/tokenizer.hpp>
#include <tandem/data/text/words.hpp>

#include "data_files.hpp"

namespace tokenizer_test {

using doctest::Contains;
using tandem::Characters;
using tandem::Error;
using tandem::FileError;
using tandem::Words;
using Tokens = std::vector<std::int32_t>;

struct Archetype {
  Tokens encode(std::string_view) const { return {}; }
  std::string decode(std::span<std::int32_t const>) const { return {}; }
  int size() const { return 0; }
};
struct NoEncode {
  std::string decode(std::span<std::int32_t const>) const { return {}; }
  int size() const { return 0; }
};
struct EncodesToBytes : Archetype {
  std::string encode(std::string_view) const { return {}; }
};
struct NoDecode {
  Tokens encode(std::string_view) const { return {}; }
  int size() const { return 0; }
};
struct ChangesWithSize : Archetype {
  int size() { return 0; }
};

static_assert(tandem::Tokenizer<Archetype>);
static_assert(!tandem::Tokenizer<NoEncode> && !tandem::Tokenizer<EncodesToBytes>);
static_assert(!tandem::Tokenizer<NoDecode> && !tandem::Tokenizer<ChangesWithSize>);
static_assert(tandem::Tokenizer<tandem::Bytes> && tandem::Tokenizer<Characters> &&
              tandem::Tokenizer<Words>);

TEST_CASE("Bytes writes every byte as its number") {
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all += static_cast<char>(i);
  }
  tandem::Bytes const bytes;
  Tokens const tokens = bytes.encode(all);
  REQUIRE(tokens.size() == 256);
  CHECK(tokens[0] == 0);
  CHECK(tokens[200] == 200);
  CHECK(bytes.decode(tokens) == all);
  CHECK(bytes.size() == 256);
  CHECK(bytes.encode("").empty());
  CHECK_THROWS_WITH_AS(static_cast<void>(bytes.decode(Tokens{1, 256})),
                       "Bytes::decode: the token 256 at position 1 is not in [0, 256), the tokens "
                       "of this vocabulary",
                       Error);
}

TEST_CASE("Characters numbers the code points of a text in their order") {
  Characters const characters{
      "b\xF0\x9F\x99\x82"
      "a\n\xC3\x86"
      "ab\xE2\x80\x94"};
  CHECK(characters.size() == 6);
  CHECK(Tokens(characters.points().begin(), characters.points().end()) ==
        Tokens{'\n', 'a', 'b', 0xC6, 0x2014, 0x1F642});
  std::string const text =
      "\xF0\x9F\x99\x82"
      "aab\xC3\x86\xE2\x80\x94\n";
  CHECK(characters.encode(text) == Tokens{5, 1, 1, 2, 3, 4, 0});
  CHECK(characters.decode(characters.encode(text)) == text);
  CHECK(characters.encode("").empty());
  CHECK(characters.decode({}).empty());
}

TEST_CASE("Characters says at which byte a text has what the vocabulary lacks") {
  Characters const characters{"ab\xC3\x86"};
  CHECK_THROWS_WITH_AS(
      static_cast<void>(characters.encode("\xC3\x86"
                                          "bc")),
      "Characters::encode: the character U+0063 at byte 3 is not among the 3 of the vocabulary; "
      "make the vocabulary of a text that has it, or leave it out",
      Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(characters.encode("a\xF0\x9F\x99\x82")),
                       Contains("the character U+1F642 at byte 1"), Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(characters.encode(std::string_view{"a\0", 2})),
                       Contains("the character U+0000 at byte 1"), Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(characters.encode("ab\xC3")),
                       Contains("Characters::encode: the text is not UTF-8 at byte 2"), Error);
  CHECK_THROWS_WITH_AS(Characters{"ab\x80"},
                       Contains("Characters: the text is not UTF-8 at byte 2"), Error);
  CHECK_THROWS_WITH_AS(Characters{""}, Contains("the text is empty"), Error);
  for (std::int32_t const token : {-1, 3}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(characters.decode(Tokens{token})),
                         Contains("at position 0 is not in [0, 3)"), Error);
  }
}

TEST_CASE("Characters are what they were after save and load") {
  support::TemporaryFolder const folder;
  std::string const path = folder.path() + "/characters";
  Characters const characters{
      std::string_view{"b\0\xC3\x86"
                       "a\n\xF4\x8F\xBF\xBF",
                       10}};
  characters.save(path);
  Characters const loaded = Characters::load(path);
  CHECK(Tokens(loaded.points().begin(), loaded.points().end()) ==
        Tokens(characters.points().begin(), characters.points().end()));
  CHECK(loaded.encode("ab") == characters.encode("ab"));
}

TEST_CASE("Characters refuse a vocabulary that is not ascending UTF-8") {
  auto const parse = [](std::string_view text) {
    static_cast<void>(Characters::parse(text, "characters"));
  };
  CHECK_THROWS_WITH_AS(parse(""), "'characters': the vocabulary is empty", FileError);
  CHECK_THROWS_WITH_AS(parse("ab\xFF"), "'characters': the vocabulary is not UTF-8 at byte 2",
                       FileError);
  CHECK_THROWS_WITH_AS(parse("a\xC3\x86"
                             "b"),
                       "'characters': the character U+0062 at byte 3 is not above U+00C6 before "
                       "it; a vocabulary has each once, ascending",
                       FileError);
  CHECK_THROWS_WITH_AS(parse("aa"), Contains("U+0061 at byte 1"), FileError);
  CHECK_THROWS_WITH_AS(static_cast<void>(Characters::load("none")), Contains("no such file"),
                       FileError);
}

TEST_CASE("Words numbers the words of a text by how often they occur") {
  Words const words{"b a\tb c\r\n<UNK> \xC3\x86 a b\n\n"};
  auto const list = words.words();
  CHECK(std::vector<std::string>(list.begin(), list.end()) ==
        std::vector<std::string>{"<S>", "<UNK>", "b", "a", "c", "\xC3\x86"});
  CHECK(words.encode(" a  b\nd <UNK> c\n") == Tokens{3, 2, 0, 1, 1, 4, 0});
  CHECK(words.decode(words.encode(" a  b\nd c\n")) == "a b\n<UNK> c\n");
  CHECK(words.encode("").empty());
  CHECK(Words{"b a b c", 3}.encode("a b") == Tokens{1, 2});
  CHECK(Words{"b a b c", 4}.size() == 4);
  CHECK_THROWS_WITH_AS(static_cast<void>(words.decode(Tokens{6})),
                       Contains("Words::decode: the token 6 at position 0"), Error);
  CHECK_THROWS_WITH_AS(Words{" \n<S>"}, Contains("Words: the text has no words"), Error);
  CHECK_THROWS_WITH_AS(Words{"a \xE9"}, Contains("not UTF-8 at byte 2"), Error);
  CHECK_THROWS_WITH_AS((Words{"a", 2}), Contains("at least 3 tokens"), tandem::ContractError);
}

TEST_CASE("a vocabulary of Words is a file of them, and lies are refused with the line") {
  support::TemporaryFolder const folder;
  std::string const path = folder.path() + "/words";
  Words const words{"the cat and the dog"};
  words.save(path);
  CHECK(Words::load(path).encode("dog the bird") == words.encode("dog the bird"));
  auto const refused = [&](std::string const& text, char const* sentence) {
    std::string const file = folder.write("lie", {text.begin(), text.end()});
    CHECK_THROWS_WITH_AS(static_cast<void>(Words::load(file)), Contains(sentence), FileError);
  };
  refused("", "the vocabulary is empty");
  refused("<S>\n<UNK>\n", "has a word behind them");
  refused("<UNK>\n<S>\na\n", "begins with the lines '<S>' and '<UNK>'");
  refused("<S>\n<UNK>\na\nb\na\n", "line 5 is that of line 3");
  refused("<S>\n<UNK>\n\na\n", "line 3 is empty or has a blank");
  refused("<S>\n<UNK>\na b\n", "line 3 is empty or has a blank");
}

}  // namespace tokenizer_test
