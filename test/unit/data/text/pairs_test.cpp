// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/data/first.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/data/text/characters.hpp>
#include <tandem/data/text/lines.hpp>
#include <tandem/data/text/pairs.hpp>

#include <support/temporary_folder.hpp>

namespace pairs_test {

using tandem::Bytes;
using tandem::FileError;
using tandem::Pairs;
using tandem::PairsOptions;
using tandem::test::contains;
using tandem::test::message;
using Tokens = std::vector<std::int32_t>;

static_assert(tandem::PairDataset<Pairs>);
static_assert(tandem::BucketedDataset<Pairs>);
static_assert(tandem::BucketedDataset<tandem::First<Pairs const&>>);

/// Two files of sentences.
struct Files {
  tandem::test::TemporaryFolder folder;
  std::string source = folder.file("a.en");
  std::string target = folder.file("a.es");
  Files(std::string_view sources, std::string_view targets) {
    tandem::test::put(source, sources);
    tandem::test::put(target, targets);
  }
  template <class T = Bytes>
  [[nodiscard]] Pairs pairs(PairsOptions const& options = {}, T const& tokenizer = {}) const {
    return {source, target, tokenizer, options};
  }
  /// What is wrong with them.
  template <class E = FileError>
  [[nodiscard]] std::string fault(PairsOptions const& options = {}) const {
    return message<E>([&] { static_cast<void>(pairs(options)); });
  }
};

TEST_CASE("a pair is a sentence, what a decoder has said, and what it says next") {
  Files const files{"ab\nc\n", "x\nyzz"};
  Pairs const pairs = files.pairs({.longest = 6, .buckets = 1});
  CHECK(pairs.size() == 2);
  CHECK(pairs.vocabulary() == 258);
  CHECK(pairs.begin() == 256);
  CHECK(pairs.end() == 257);
  CHECK(pairs.shape() == tandem::tokens_shape(6));
  CHECK(pairs.second_shape() == tandem::tokens_shape(6));
  CHECK(pairs.targets() == 6);
  CHECK(pairs.target(1) == "yzz");
  CHECK(pairs.line(1) == 2);
  tandem::Loader<Pairs> loader{pairs, {.batch = 2, .shuffle = false}};
  tandem::Batch<std::int32_t, std::int32_t> batch;
  REQUIRE(loader.next(batch));
  CHECK(batch.time == 4);
  CHECK(batch.second_time == 4);
  CHECK(Tokens(batch.x, batch.x + 8) == Tokens{256, 'a', 'b', 257, 256, 'c', 257, 0});
  CHECK(Tokens(batch.second, batch.second + 8) == Tokens{256, 'x', 0, 0, 256, 'y', 'z', 'z'});
  CHECK(Tokens(batch.y, batch.y + 8) == Tokens{'x', 257, -1, -1, 'y', 'z', 'z', 257});
  CHECK(Tokens(batch.lengths, batch.lengths + 2) == Tokens{4, 3});
  CHECK(Tokens(batch.second_lengths, batch.second_lengths + 2) == Tokens{2, 4});
}

TEST_CASE("begin and end may be tokens of the vocabulary, and each file have its own tokenizer") {
  Files const files{"ab\r\nba\r\n", "\xC3\xA9\nx\n"};
  tandem::Characters const letters{std::string_view{"ab^$"}};
  tandem::Characters const others{std::string_view{"\xC3\xA9x"}};
  Pairs const both{files.source, files.target, letters, others};
  CHECK(both.vocabulary() == 6);
  Pairs const named{files.source, files.target, letters, others, {.begin = 1, .end = 0}};
  CHECK(named.vocabulary() == 4);
  Tokens x(4);
  Tokens second(2);
  Tokens y(2);
  named.read(0, x, second, y);
  CHECK(x == Tokens{1, 2, 3, 0});  // "$^ab" in their order
  CHECK(second == Tokens{1, 1});
  CHECK(y == Tokens{1, 0});
  CHECK(named.source(1) == "ba");
}

TEST_CASE("pairs that are too long or empty are errors, or left out") {
  Files const files{"a\n\nc\nlonger\ne\n", "v\nw\n\ny\nz\n"};
  CHECK(contains(files.fault({.longest = 9}),
                 files.source + "': line 2 is empty: it has no token; PairsOptions::leave_out "
                                "leaves out such pairs"));
  CHECK(contains(Files("a\nlonger\n", "b\nc\n").fault({.longest = 5}),
                 "line 2 is too long: it has 8 tokens, begin and end among them, and the most is "
                 "5; PairsOptions::leave_out leaves out such pairs, and a larger longest takes "
                 "them"));
  Pairs const some = files.pairs({.longest = 7, .leave_out = true});
  CHECK(some.size() == 2);
  CHECK(some.left_out() == 3);
  CHECK(some.line(1) == 5);
  CHECK(some.source(1) == "e");
  CHECK(some.target(1) == "z");
  CHECK(files.pairs({.longest = 8, .leave_out = true}).size() == 3);
  CHECK(contains(Files("long\n\n", "b\nc\n").fault({.longest = 4, .leave_out = true}),
                 "of its 2 sentences none is left: they, or their translations, are empty or "
                 "longer than 4 tokens"));
}

TEST_CASE("each fault of two files is a sentence with file and line") {
  Files const files{"a\nb\nc\n", "x\ny\n"};
  CHECK(files.fault() == "'" + files.target + "': this file has 2 lines and '" + files.source +
                             "' has 3; a sentence and its translation must stand on lines of the "
                             "same number");
  CHECK(contains(Files("", "").fault(), "a.en': there are no sentences in this file"));
  CHECK(contains(Files("a\nb\n", "c\nd\xE9!\n").fault(),
                 "a.es': line 2 is not UTF-8 at its byte 1; convert it first"));
  Files const missing{"a", "b"};
  CHECK(contains(message<FileError>([&] {
                   static_cast<void>(Pairs{missing.source, missing.folder.file("no"), Bytes{}});
                 }),
                 missing.folder.file("no")));
  tandem::Characters const few{std::string_view{"ab"}};
  Files const strange{"a\nb\n", "a\nb?\n"};
  CHECK(contains(message<FileError>([&] { static_cast<void>(strange.pairs({}, few)); }),
                 "a.es': line 2: Characters::encode: the character U+003F at byte 1"));
}

/// Has no tokens, or gives one that it does not have.
struct Empty {
  int tokens = 0;
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view /*text*/) const { return {7}; }
  [[nodiscard]] std::string decode(std::span<std::int32_t const> /*tokens*/) const { return {}; }
  [[nodiscard]] int size() const { return tokens; }
};

TEST_CASE("options and tokenizers that cannot be are refused") {
  Files const files{"a\n", "b\n"};
  CHECK(contains(files.fault<tandem::ContractError>({.longest = 2}), "longest must be at least 3"));
  CHECK(contains(files.fault<tandem::ContractError>({.buckets = 0}), "buckets must be 1"));
  CHECK(contains(files.fault<tandem::ContractError>({.begin = 1}), "two different tokens"));
  CHECK(contains(files.fault<tandem::ContractError>({.begin = 1, .end = 1}), "two different"));
  CHECK(contains(files.fault<tandem::ContractError>({.begin = 1, .end = 256}),
                 "begin and end must be tokens of the vocabulary, or -1 for two more"));
  CHECK(contains(message<tandem::Error>([&] {
                   static_cast<void>(Pairs{files.source, files.target, Bytes{}, Empty{}});
                 }),
                 "the tokenizer of the targets has no tokens; make its vocabulary"));
  CHECK(contains(message<FileError>([&] { static_cast<void>(files.pairs({}, Empty{7})); }),
                 "line 1: the tokenizer gives the token 7, but has only 7"));
  CHECK(contains(
      message<tandem::ContractError>([&] { static_cast<void>(files.pairs().hold_out(1)); }),
      "every second pair at most"));
}

TEST_CASE("hold_out takes every so many pairs to validate, and both parts live on alone") {
  auto const parts = [] {
    Files const files{"a\nb\nc\nd\ne\nf\ng\n", "1\n2\n3\n4\n5\n6\n7\n"};
    return files.pairs().hold_out(3);
  }();
  CHECK(parts.first.size() == 5);
  CHECK(parts.second.size() == 2);
  std::string all;
  for (Pairs const* part : {&parts.first, &parts.second}) {
    for (std::int64_t i = 0; i < part->size(); ++i) {
      all += std::string{part->source(i)} + std::string{part->target(i)};
    }
  }
  CHECK(all == "a1b2d4e5g7c3f6");
  CHECK(tandem::first(parts.first, 2).second_length(1) == 2);
}

TEST_CASE("pairs in buckets have little padding") {
  std::string sources;
  std::string targets;
  for (std::size_t i = 0; i < 300; ++i) {
    sources += std::string(1 + i * 7 % 31, 's') + "\n";
    targets += std::string(1 + i * 7 % 31 / 2 + i % 5, 't') + "\n";
  }
  Files const files{sources, targets};
  auto const share = [&](int buckets) {
    return tandem::padding_share(files.pairs({.longest = 40, .buckets = buckets}), {.batch = 16});
  };
  CHECK(share(1) > 0.4);
  CHECK(share(8) < 0.22);
}

TEST_CASE("read_lines gives a file's lines without their ends") {
  tandem::test::TemporaryFolder const folder;
  auto const lines = [&](std::string_view text) {
    tandem::test::put(folder.file("a"), text);
    return tandem::read_lines(folder.file("a"));
  };
  using Lines = std::vector<std::string>;
  CHECK(lines("").empty());
  CHECK(lines("\n") == Lines{""});
  CHECK(lines("a\r\n\nb") == Lines{"a", "", "b"});
  CHECK(lines("\xEF\xBB\xBF"
              "a\n") == Lines{"a"});
}

}  // namespace pairs_test
