// SPDX-License-Identifier: Apache-2.0
// BLEU and its words against sacrebleu's: test/golden/bleu.py writes the file that is read here.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/data/text/bleu/bleu.hpp>

#include <support/temporary_folder.hpp>

namespace bleu_test {

using Strings = std::vector<std::string>;
using tandem::test::contains;
using tandem::test::message;

/// The next text in quotes of @p in.
std::string quoted(std::istream& in) {
  char c = ' ';
  while (c != '"') {
    REQUIRE(in.get(c));
  }
  std::string text;
  while (in.get(c) && c != '"') {
    if (c == '\\') {
      char digits[4] = {};
      in.read(digits, 3);  // xHH
      c = static_cast<char>(std::stoi(digits + 1, nullptr, 16));
    }
    text += c;
  }
  return text;
}

struct Corpus {
  Strings translations;
  std::vector<Strings> references;
  tandem::Bleu wanted;
};

struct Golden {
  std::vector<std::pair<std::string, std::string>> words;
  std::vector<Corpus> corpora;

  Golden() {
    std::ifstream in{TANDEM_TEST_DATA "/golden/bleu.txt"};
    for (std::string kind; in >> kind;) {
      if (kind == "tokens") {
        std::string text = quoted(in);
        words.emplace_back(std::move(text), quoted(in));
      } else {
        REQUIRE(kind == "corpus");
        read(in, corpora.emplace_back());
      }
    }
  }

  static void read(std::istream& in, Corpus& corpus) {
    std::size_t sentences = 0;
    std::size_t sets = 0;
    tandem::Bleu& b = corpus.wanted;
    in >> sentences >> sets >> b.score >> b.brevity_penalty;
    for (auto& count : b.correct) {
      in >> count;
    }
    for (auto& count : b.total) {
      in >> count;
    }
    for (auto& precision : b.precision) {
      in >> precision;
    }
    in >> b.words >> b.reference_words;
    auto const lines = [&] {
      Strings all;
      for (std::size_t i = 0; i < sentences; ++i) {
        all.push_back(quoted(in));
      }
      return all;
    };
    corpus.translations = lines();
    for (std::size_t k = 0; k < sets; ++k) {
      corpus.references.push_back(lines());
    }
  }
};

TEST_CASE("the words of BLEU are those of sacrebleu's 13a") {
  Golden const golden;
  CHECK(golden.words.size() == 108);
  for (auto const& [text, words] : golden.words) {
    CHECK(tandem::bleu_words(text) == words);
  }
}

TEST_CASE("BLEU is sacrebleu's, with one reference and with several") {
  Golden const golden;
  CHECK(golden.corpora.size() == 23);
  for (Corpus const& corpus : golden.corpora) {
    tandem::Bleu const found = corpus.references.size() == 1
                                   ? tandem::bleu(corpus.translations, corpus.references[0])
                                   : tandem::bleu(corpus.translations, corpus.references);
    tandem::Bleu const& wanted = corpus.wanted;
    // Logarithms of 4 precisions, a sum, an exponential: some 10 roundings.
    CHECK(std::fabs(found.score - wanted.score) <= 1e-14 * wanted.score);
    CHECK(std::fabs(found.brevity_penalty - wanted.brevity_penalty) <= 1e-15);
    CHECK(found.words == wanted.words);
    CHECK(found.reference_words == wanted.reference_words);
    for (int n = 0; n < tandem::Bleu::orders; ++n) {
      CHECK(found.correct[n] == wanted.correct[n]);
      CHECK(found.total[n] == wanted.total[n]);
      CHECK(found.precision[n] == wanted.precision[n]);
    }
  }
}

/// As Pairs, to compare with.
struct Targets {
  Strings lines;
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(lines.size()); }
  [[nodiscard]] std::string_view target(std::int64_t i) const {
    return lines[static_cast<std::size_t>(i)];
  }
};

TEST_CASE("BLEU against the targets of a dataset, and of as many as there are") {
  Strings const one{"a b c d e", "x"};
  CHECK(tandem::bleu(one, Targets{{"a b c d f", "x"}}).score ==
        tandem::bleu(one, Strings{"a b c d f", "x"}).score);
  auto const refused = [&](Strings const& translations, Strings const& references) {
    return message<tandem::Error>(
        [&] { static_cast<void>(tandem::bleu(translations, references)); });
  };
  CHECK(refused(one, {"a"}) ==
        "bleu: there are 2 translations and 1 references; give one for each");
  CHECK(refused({}, {}) == "bleu: there are no translations");
  std::vector<Strings> const uneven{one, {"a"}};
  CHECK(contains(message<tandem::Error>([&] { static_cast<void>(tandem::bleu(one, uneven)); }),
                 "2 translations and 1 references"));
  CHECK(contains(
      message<tandem::Error>([&] { static_cast<void>(tandem::bleu(one, std::vector<Strings>{})); }),
      "2 translations and 0 references"));
}

}  // namespace bleu_test
