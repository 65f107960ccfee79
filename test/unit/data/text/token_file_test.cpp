// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/text/token_file.hpp>

#include "data_files.hpp"

namespace token_file_test {

using doctest::Contains;
using tandem::ContractError;
using tandem::Error;
using tandem::FileError;
using tandem::TokenFile;
using tandem::TokenSpan;
using tandem::write_tokens;
using Tokens = std::vector<std::int32_t>;

Tokens all(TokenSpan const& tokens) {
  Tokens out(static_cast<std::size_t>(tokens.size()));
  tokens.copy(0, out);
  return out;
}

TEST_CASE("a TokenFile gives the tokens that were written, of two bytes or four") {
  support::TemporaryFolder const folder;
  std::string const path = folder.path() + "/tokens";
  Tokens tokens(70'001);  // more than one piece of write_tokens
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int const vocabulary : {70'001, 2'000'000'000}) {
    write_tokens(path, tokens, vocabulary);
    TokenFile const file{path};
    CHECK(file.size() == 70'001);
    CHECK(file.vocabulary() == vocabulary);
    CHECK(all(file.tokens()) == tokens);
    CHECK(std::filesystem::file_size(path) == 24U + 70'001U * 4U);
  }
  for (std::int32_t& token : tokens) {
    token %= 65536;
  }
  write_tokens(path, tokens, 65536);
  TokenFile const file{path};
  CHECK(all(file.tokens()) == tokens);
  CHECK(std::filesystem::file_size(path) == 24U + 70'001U * 2U);
}

TEST_CASE("a TokenFile may have no tokens, and may be moved") {
  support::TemporaryFolder const folder;
  write_tokens(folder.path() + "/none", {}, 1);
  CHECK(TokenFile{folder.path() + "/none"}.size() == 0);
  write_tokens(folder.path() + "/some", Tokens{3, 1, 2}, 4);
  TokenFile first{folder.path() + "/some"};
  TokenFile const second{std::move(first)};
  CHECK(all(second.tokens()) == Tokens{3, 1, 2});
}

TEST_CASE("write_tokens refuses a token outside the vocabulary and leaves no file") {
  support::TemporaryFolder const folder;
  std::string const path = folder.path() + "/tokens";
  for (std::int32_t const bad : {-1, 5}) {
    CHECK_THROWS_WITH_AS(write_tokens(path, Tokens{4, bad}, 5),
                         Contains("at position 1 is not in [0, 5), the vocabulary"), Error);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a TokenFile that lies is refused with the byte of the lie") {
  support::TemporaryFolder const folder;
  std::string const path = folder.path() + "/tokens";
  write_tokens(path, Tokens{1, 2, 3}, 4);
  support::Bytes const good = tandem::read_file(path);
  auto const error = [&](auto const& damage) {
    support::Bytes bytes = good;
    damage(bytes);
    folder.write("tokens", bytes);
    try {
      TokenFile const file{path};
      static_cast<void>(all(file.tokens()));
    } catch (Error const& caught) {
      std::string const what = caught.what();
      return what.starts_with("'" + path + "': ") ? what.substr(path.size() + 4) : what;
    }
    return std::string{"no error"};
  };
  CHECK(error([](support::Bytes& b) { b.clear(); }) ==
        "expected a file of tokens, which begins with a header of 24 bytes; found 0 bytes");
  CHECK(error([](support::Bytes& b) { b.resize(23); }) ==
        "expected a file of tokens, which begins with a header of 24 bytes; found 23 bytes");
  CHECK(error([](support::Bytes& b) { b[0] = 'T'; }) ==
        "expected a file of tokens, which begins with the bytes 'tandemTk'; write one with "
        "write_tokens()");
  CHECK(error([](support::Bytes& b) { b[8] = 3; }) ==
        "the header is wrong at byte 8: a token has 2 or 4 bytes, found 3");
  CHECK(error([](support::Bytes& b) { b[12] = 0; }) ==
        "the header is wrong at byte 12: a vocabulary of tokens of 2 bytes has 1 to 65536, found "
        "0");
  CHECK(error([](support::Bytes& b) { b[15] = 1; }) ==
        "the header is wrong at byte 12: a vocabulary of tokens of 2 bytes has 1 to 65536, found "
        "16777220");
  CHECK(error([](support::Bytes& b) { b.pop_back(); }) ==
        "the header at byte 16 says 3 tokens of 2 bytes, but the file has 5 bytes behind its "
        "header");
  CHECK(error([](support::Bytes& b) { b.resize(b.size() + 2); }) ==
        "the header at byte 16 says 3 tokens of 2 bytes, but the file has 8 bytes behind its "
        "header");
  CHECK(error([](support::Bytes& b) { b[23] = 0x80; }) ==
        "the header at byte 16 says 9223372036854775811 tokens of 2 bytes, but the file has 6 "
        "bytes behind its header");
  CHECK(error([](support::Bytes& b) { b[26] = 4; }) ==
        "TokenSpan: the token 4 at position 1 is not in [0, 4), the vocabulary; the tokens are "
        "another tokenizer's, or damaged");
  CHECK(error([](support::Bytes& b) { b[8] = 4; }) ==
        "the header at byte 16 says 3 tokens of 4 bytes, but the file has 6 bytes behind its "
        "header");
  CHECK_THROWS_WITH_AS(TokenFile{folder.path()}, Contains("this is a folder, expected a file"),
                       FileError);
  CHECK_THROWS_WITH_AS(TokenFile{path + "s"}, Contains("there is no such file"), FileError);
}

TEST_CASE("a TokenSpan is split and cut where it is asked to be") {
  Tokens const tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  TokenSpan const span{tokens, 11};
  auto const [train, validation] = span.split(0.9);
  CHECK(all(train) == Tokens{0, 1, 2, 3, 4, 5, 6, 7, 8});  // floor(9.9)
  CHECK(all(validation) == Tokens{9, 10});
  CHECK(span.split(0).first.size() == 0);
  CHECK(span.split(1).second.size() == 0);
  CHECK(all(span.part(3, 2).part(1, 1)) == Tokens{4});
  CHECK(span.part(11, 0).size() == 0);
  std::vector<std::uint16_t> const narrow{65535, 7, 9};
  CHECK(all(TokenSpan{narrow, 65536}.part(1, 2)) == Tokens{7, 9});
  static_assert(!std::is_constructible_v<TokenSpan, Tokens, int>, "it would dangle");
  Tokens const none;
  CHECK(TokenSpan(none, 3).size() == 0);
}

TEST_CASE("a TokenSpan keeps to its tokens") {
  Tokens const tokens{0, 1, 2};
  TokenSpan const span{tokens, 3};
  Tokens to(2);
  CHECK_THROWS_AS(span.copy(2, to), ContractError);
  CHECK_THROWS_AS(span.copy(-1, to), ContractError);
  CHECK_THROWS_AS(static_cast<void>(span.part(2, 2)), ContractError);
  CHECK_THROWS_AS(static_cast<void>(span.part(-1, 2)), ContractError);
  CHECK_THROWS_AS(static_cast<void>(span.part(0, -1)), ContractError);
  CHECK_THROWS_AS(static_cast<void>(span.split(1.1)), ContractError);
  CHECK_THROWS_AS(static_cast<void>(span.split(-0.1)), ContractError);
  CHECK_THROWS_AS(TokenSpan(tokens, 0), ContractError);
  span.copy(3, std::span<std::int32_t>{});
}

}  // namespace token_file_test
