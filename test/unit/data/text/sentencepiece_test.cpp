// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/text/pairs.hpp>
#include <tandem/data/text/sentencepiece.hpp>

#include "data_files.hpp"
#include "temporary_folder.hpp"

namespace sentencepiece_test {

#if defined(TANDEM_SENTENCEPIECE) && TANDEM_SENTENCEPIECE

using doctest::Contains;
using tandem::Error;
using tandem::FileError;
using tandem::SentencePiece;
using Tokens = std::vector<std::int32_t>;

static_assert(tandem::Tokenizer<SentencePiece>);

std::string text_to_learn() {
  std::vector<std::string> const words = {
      "begat",      "heaven",   "earth",  "void",     "waters", "firmament", "evening",
      "morning",    "gathered", "grass",  "yielding", "fruit",  "seasons",   "light",
      "abundantly", "multiply", "cattle", "creeping", "beast",  "image",     "\xC3\x86neas"};
  std::string text;
  for (std::size_t i = 0; i < 300; ++i) {
    text += "And the " + words[i % 21] + " was " + words[i * i % 19] + ", and the " +
            words[i * 7 % 17] + " " + std::to_string(i) + " \xE2\x80\x94 " + words[i * 5 % 21] +
            ".\n";
  }
  return text;
}

SentencePiece const& learnt() {
  static SentencePiece const model = SentencePiece::train(text_to_learn(), {.vocabulary = 340});
  return model;
}

TEST_CASE("SentencePiece learns tokens longer than characters") {
  CHECK(learnt().size() == 340);
  std::string const text = text_to_learn();
  Tokens const tokens = learnt().encode(text);
  CHECK(tokens.size() * 2 < text.size());
  CHECK(learnt().decode(tokens) == text);
}

TEST_CASE("a copy of a SentencePiece outlives it, so that Pairs can write what was found") {
  tandem::test::TemporaryFolder const folder;
  for (auto const& [name, text] : {std::pair{"a.en", "And the light\nthe grass\n"},
                                   std::pair{"a.es", "the evening\nthe cattle\n"}}) {
    std::ofstream{folder.file(name)} << text;
  }
  auto const pairs = [&] {
    auto const own = SentencePiece::train(text_to_learn(), {.vocabulary = 340});
    return tandem::Pairs{
        folder.file("a.en"), folder.file("a.es"), own, {.longest = 20, .begin = 1, .end = 2}};
  }();
  Tokens const found = learnt().encode("and the waters");
  CHECK(pairs.decode(found) == "and the waters");
}

TEST_CASE("SentencePiece gives back texts that it has not learnt, blank by blank") {
  for (std::string_view const text :
       {"", " ", "  ", "a", " a  b ", "\n", "\n\n the\n", "\t x\r\n", "zq\xE6\x97\xA5\xE6\x9C\xAC",
        "the <s> </s> <unk> <0x41>", "\xF0\x9F\x99\x82\xC2\xA0\xE2\x80\x83",
        "\xEF\xBC\xA1 \xEF\xAC\x81 \xC2\xBD"}) {
    CAPTURE(text);
    Tokens const tokens = learnt().encode(text);
    CHECK(learnt().decode(tokens) == text);
    for (std::int32_t const token : tokens) {
      CHECK(token > 2);  // nothing is unknown
    }
  }
  std::string const zero{"a\0 b", 4};
  CHECK(learnt().decode(learnt().encode(zero)) == zero);
  CHECK(learnt().decode(learnt().encode("a\xE2\x96\x81"
                                        "b")) == "a b");
}

TEST_CASE("SentencePiece learns the same tokens of the same text, also by pairs") {
  SentencePiece const again = SentencePiece::train(text_to_learn(), {.vocabulary = 340});
  CHECK(again.encode(text_to_learn()) == learnt().encode(text_to_learn()));
  SentencePiece const pairs =
      SentencePiece::train(text_to_learn(), {.vocabulary = 320, .model = "bpe"});
  CHECK(pairs.size() == 320);
  CHECK(pairs.decode(pairs.encode(text_to_learn())) == text_to_learn());
}

TEST_CASE("SentencePiece is what it was after save and load") {
  support::TemporaryFolder const folder;
  std::string const path = folder.path() + "/model";
  learnt().save(path);
  SentencePiece const loaded = SentencePiece::load(path);
  CHECK(loaded.size() == learnt().size());
  CHECK(loaded.encode("And the earth\n") == learnt().encode("And the earth\n"));
}

TEST_CASE("SentencePiece says what is wrong in one sentence") {
  auto const train = [](std::string_view text, tandem::SentencePieceOptions const& options) {
    static_cast<void>(SentencePiece::train(text, options));
  };
  CHECK_THROWS_WITH_AS(train(text_to_learn(), {.vocabulary = 5000}),
                       Contains("SentencePiece::train: the library cannot learn this vocabulary: "
                                "Vocabulary size too high (5000)"),
                       Error);
  CHECK_THROWS_WITH_AS(train("a b\n", {.vocabulary = 10}), Contains("SentencePiece::train: "),
                       Error);
  CHECK_THROWS_WITH_AS(train("", {}), "SentencePiece::train: the text is empty", Error);
  CHECK_THROWS_WITH_AS(train(text_to_learn(), {.model = "none"}),
                       Contains("SentencePiece::train: "), Error);
  CHECK_THROWS_WITH_AS(train("ab\xFF", {}),
                       Contains("SentencePiece::train: the text is not UTF-8 at byte 2"), Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(learnt().encode("ab\xFF")),
                       Contains("SentencePiece::encode: the text is not UTF-8 at byte 2"), Error);
  for (std::int32_t const token : {-1, 340}) {
    CHECK_THROWS_WITH_AS(static_cast<void>(learnt().decode(Tokens{5, token})),
                         Contains("at position 1 is not in [0, 340)"), Error);
  }
  support::TemporaryFolder const folder;
  CHECK_THROWS_WITH_AS(static_cast<void>(SentencePiece::load(folder.write("bad", {1, 2, 3, 4, 5}))),
                       Contains("bad': this is no model of SentencePiece"), FileError);
  CHECK_THROWS_WITH_AS(static_cast<void>(SentencePiece::load(folder.path() + "/none")),
                       Contains("there is no such file"), FileError);
}

TEST_CASE("a model for which the library throws is a FileError with its path") {
  // Pieces "<unk>", of the type "unknown", then NUL, which Darts refuses, and another.
  std::string const model{
      "\x0A\x09\x0A\x05<unk>\x18\x02\x0A\x03\x0A\x01\0\x0A\x0F\x0A\x0D"
      "thirteen lett",
      33};
  support::TemporaryFolder const folder;
  std::string const path =
      folder.write("33", std::vector<std::uint8_t>{model.begin(), model.end()});
  CHECK_THROWS_WITH_AS(static_cast<void>(SentencePiece::load(path)),
                       ("'" + path +
                        "': this is no model of SentencePiece: failed to insert key: zero-length "
                        "key")
                           .c_str(),
                       FileError);
}

#else

TEST_CASE("SentencePiece is tested where there is its library") {
  MESSAGE("skipped: compiled without SentencePiece, install libsentencepiece-dev");
}

#endif

}  // namespace sentencepiece_test
