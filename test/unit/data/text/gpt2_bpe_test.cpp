// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/text/gpt2/bpe.hpp>

#include "data_files.hpp"

namespace gpt2_bpe_test {

using doctest::Contains;
using tandem::Error;
using tandem::FileError;
using tandem::Gpt2Bpe;
using tandem::detail::CharacterKind;
using Tokens = std::vector<std::int32_t>;

static_assert(tandem::Tokenizer<Gpt2Bpe>);

std::string const folder = TANDEM_TEST_DATA "/gpt2/";

Gpt2Bpe const& golden() {
  static Gpt2Bpe const bpe{folder + "vocab.json", folder + "merges.txt"};
  return bpe;
}

std::string from_hexadecimal(std::string const& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::strtol(digits.substr(i, 2).c_str(), nullptr, 16));
  }
  return bytes;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  tandem::detail::each_gpt2_word(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST_CASE("Gpt2Bpe gives the tokens of tokenizers and of GPT-2's own encoder") {
  std::ifstream file{folder + "golden.txt"};
  int texts = 0;
  std::string line;
  while (std::getline(file, line)) {
    std::size_t const space = line.find(' ');
    std::string const text = from_hexadecimal(line.substr(0, space));
    Tokens expected;
    std::istringstream numbers{space == line.npos ? "" : line.substr(space)};
    for (std::int32_t token = 0; numbers >> token;) {
      expected.push_back(token);
    }
    CAPTURE(line);
    CHECK(golden().encode(text) == expected);
    CHECK(golden().decode(expected) == text);
    ++texts;
  }
  CHECK(texts == 271);
}

TEST_CASE("Gpt2Bpe cuts words as the pattern does") {
  using Words = std::vector<std::string>;
  CHECK(words_of("Hello  world's 2 cats!\n") ==
        Words{"Hello", " ", " world", "'s", " 2", " cats", "!", "\n"});
  CHECK(words_of("a   b") == Words{"a", "  ", " b"});
  CHECK(words_of("a \n b") == Words{"a", " \n", " b"});
  CHECK(words_of("a  \nb") == Words{"a", "  ", "\n", "b"});
  CHECK(words_of("a \n") == Words{"a", " \n"});
  CHECK(words_of("'re'S 's") == Words{"'re", "'", "S", " '", "s"});
  CHECK(words_of("\xC2\xA0x\xE2\x80\x83\xE2\x80\x83y") ==
        Words{"\xC2\xA0", "x", "\xE2\x80\x83", "\xE2\x80\x83", "y"});
  CHECK(words_of("").empty());
}

TEST_CASE("Gpt2Bpe knows the letters, numbers and blanks of Unicode") {
  auto const kind = [](std::uint32_t point) { return tandem::detail::character_kind(point); };
  for (std::uint32_t const point :
       {0x41U, 0x7AU, 0xAAU, 0xE9U, 0x3B1U, 0x4E00U, 0xAC00U, 0x20000U}) {
    CHECK(kind(point) == CharacterKind::letter);
  }
  for (std::uint32_t const point : {0x30U, 0x39U, 0xB2U, 0xBDU, 0x660U, 0x2167U, 0x1D7D8U}) {
    CHECK(kind(point) == CharacterKind::number);
  }
  for (std::uint32_t const point :
       {0x9U, 0xDU, 0x20U, 0x85U, 0xA0U, 0x1680U, 0x200AU, 0x2029U, 0x3000U}) {
    CHECK(kind(point) == CharacterKind::space);
  }
  for (std::uint32_t const point : {0x0U, 0x8U, 0xEU, 0x1CU, 0x40U, 0x5BU, 0x60U, 0x7BU, 0x301U,
                                    0x200BU, 0xFEFFU, 0x1F642U, 0xE0041U, 0x10FFFFU}) {
    CHECK(kind(point) == CharacterKind::other);
  }
  int count[4] = {};
  for (std::uint32_t point = 0; point < 0x10000; ++point) {
    ++count[static_cast<int>(kind(point))];
  }
  CHECK(count[3] == 25);
}

TEST_CASE("Gpt2Bpe gives back any bytes, UTF-8 or not") {
  std::string all;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (int byte = 0; byte < 256; ++byte) {
      all += static_cast<char>(byte);
    }
  }
  all += "\xE2\x80 \xF0\x9F\x99 x\xC3";
  CHECK(golden().decode(golden().encode(all)) == all);
  CHECK(words_of("a\xFF\xFE"
                 "b \xC3") == std::vector<std::string>{"a", "\xFF\xFE", "b", " \xC3"});
}

TEST_CASE("Gpt2Bpe merges a long word in time that is not its square") {
  std::string const blanks(30'000, ' ');
  Tokens const tokens = golden().encode(blanks);
  CHECK(tokens.size() < blanks.size() / 2);
  CHECK(golden().decode(tokens) == blanks);
}

TEST_CASE("Gpt2Bpe has special tokens for who asks for them") {
  std::int32_t const end = golden().token("<|endoftext|>");
  CHECK(end == 0);
  CHECK(golden().decode(Tokens{end}) == "<|endoftext|>");
  CHECK(golden().encode("<|endoftext|>").size() > 1);
  CHECK(golden().token(" the") > 255);
  CHECK(golden().token("no such token") == -1);
  CHECK(golden().size() == 700);
  CHECK_THROWS_WITH_AS(static_cast<void>(golden().decode(Tokens{1, 700})),
                       Contains("the token 700 at position 1 is not in [0, 700)"), Error);
}

support::Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

/// What is wrong with these files, or "".
std::string error_of(std::string_view vocabulary, std::string_view merges) {
  try {
    Gpt2Bpe const bpe{bytes_of(vocabulary), "vocab.json", bytes_of(merges), "merges.txt"};
  } catch (FileError const& error) {
    return error.what();
  }
  return "";
}

/// A vocab.json of all bytes, 0 to 255, and what follows.
std::string vocabulary_of_bytes(std::string const& more = "") {
  std::string text = "{";
  for (std::uint32_t point = 0, token = 0; point < 324; ++point) {
    if (tandem::detail::byte_written_as(point) >= 0) {
      std::string character;
      tandem::detail::append_utf8(character, point);
      std::string const quoted =
          character == "\"" || character == "\\" ? "\\" + character : character;
      text += (token > 0 ? ",\"" : "\"") + quoted + "\":" + std::to_string(token);
      ++token;
    }
  }
  return text + more + "}";
}

TEST_CASE("Gpt2Bpe takes files of bytes alone, and lines that end in \\r\\n") {
  CHECK(error_of(vocabulary_of_bytes(), "") == "");
  CHECK(error_of(vocabulary_of_bytes(), "#version: 0.2\n") == "");
  CHECK(error_of(vocabulary_of_bytes(",\"ab\":256"), "#version: 0.2\r\na b\r\n\r\n") == "");
  CHECK(error_of(vocabulary_of_bytes(",\"ab\":256"), "a b\r\n") == "");
  CHECK(error_of(vocabulary_of_bytes(",\"# \":256"), "a b") != "");
}

TEST_CASE("Gpt2Bpe refuses a vocabulary that is none, with the byte") {
  CHECK(error_of("[]", "") ==
        "'vocab.json': the vocabulary is wrong at byte 0: expected an object");
  CHECK(error_of("{\"a\":0,\"b\":0}", "") ==
        "'vocab.json': the vocabulary is wrong at byte 12: the number 0 is there a second time");
  CHECK(error_of("{\"a\":99}", "") ==
        "'vocab.json': the vocabulary is wrong at byte 7: the number 99 leaves a gap; the tokens "
        "are numbered from 0 on");
  CHECK(error_of("{\"a\":1}", "") ==
        "'vocab.json': the vocabulary has 1 tokens, but none of the number 0; they must be 0 to 1");
  CHECK(error_of("{\"a\":0,\"a\":1}", "") == "'vocab.json': the tokens 0 and 1 are the same");
  CHECK(error_of("{\"a\":0}", "") ==
        "'vocab.json': the vocabulary has no token for the byte 0; a byte-level one has one for "
        "each");
  CHECK(error_of("{}", "") != "");
  CHECK(error_of(vocabulary_of_bytes() + "x", "").ends_with("expected nothing more"));
}

TEST_CASE("Gpt2Bpe refuses merges that are none, with the byte") {
  std::string const vocabulary = vocabulary_of_bytes(",\"ab\":256");
  auto const error = [&](std::string_view merges) {
    std::string const what = error_of(vocabulary, merges);
    return what.substr(std::string_view{"'merges.txt': "}.size());
  };
  std::string const no_merge = " is no merge: expected two tokens with one space between, as UTF-8";
  for (std::string const line : {"ab", " ab", "ab ", "a b c", "a  b", "a \xFF", ""}) {
    CHECK(error("a b\n" + line + "\na b\n") == "the line at byte 4" + no_merge);
  }
  CHECK(error("a b\na b\n") == "the merge at byte 4 is there a second time");
  CHECK(error("a c\n") ==
        "the merge at byte 0 gives what is no token of the vocabulary; take both files of the same "
        "model");
  CHECK(error("#version\nac b\n").starts_with("the merge at byte 9 begins with"));
  CHECK(error("a bc\n").starts_with("the merge at byte 0 ends with"));
  CHECK_THROWS_WITH_AS((Gpt2Bpe{folder + "vocab.json", folder + "none"}),
                       Contains("none': there is no such file"), FileError);
}

}  // namespace gpt2_bpe_test
