// SPDX-License-Identifier: Apache-2.0
// Fuzzes what is kept of a tokenizer and of tokens: the first byte chooses a file of tokens or a
// vocabulary of characters; the rest is the file.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/data/text/characters.hpp>
#include <tandem/data/text/text_stream.hpp>
#include <tandem/data/text/token_file.hpp>

#include "require.hpp"

namespace {

/// Reads every window of @p tokens, and one at random.
void check_windows(tandem::TokenSpan const& tokens) {
  int const window = 3;
  if (tokens.size() <= window) {
    return;
  }
  tandem::TextStream const stream{tokens, window};
  std::vector<std::int32_t> x(3);
  std::vector<std::int32_t> y(3);
  for (std::int64_t index = 0; index < stream.size(); ++index) {
    int const length = stream.read(index, x, y);
    fuzz::require(length >= 1 && length <= window);
    for (std::size_t i = 0; i < 3; ++i) {
      fuzz::require(x[i] >= 0 && x[i] < tokens.vocabulary());
      fuzz::require(y[i] < tokens.vocabulary() && (y[i] >= 0) == (static_cast<int>(i) < length));
    }
  }
  stream.read(0, x, y, {1, 2, 3});
}

void check_tokens(std::span<std::uint8_t const> file) {
  tandem::TokenHeader const header = tandem::parse_token_header(
      file.first(file.size() < 24 ? file.size() : 24), file.size(), "input");
  auto const count = static_cast<std::size_t>(header.count);
  auto const width = static_cast<std::size_t>(header.width);
  fuzz::require(24 + count * width == file.size());
  std::vector<std::int32_t> wide(count);
  std::vector<std::uint16_t> narrow(count);
  void* const to = width == 4 ? static_cast<void*>(wide.data()) : narrow.data();
  if (count > 0) {
    std::memcpy(to, file.data() + 24, count * width);
  }
  check_windows(width == 4 ? tandem::TokenSpan{wide, header.vocabulary}
                           : tandem::TokenSpan{narrow, header.vocabulary});
}

void check_characters(std::string_view text) {
  tandem::Characters const characters = tandem::Characters::parse(text, "input");
  std::vector<std::int32_t> const tokens = characters.encode(text);
  fuzz::require(static_cast<int>(tokens.size()) == characters.size());
  fuzz::require(characters.decode(tokens) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  try {
    if ((data[0] & 1U) != 0) {
      check_characters(fuzz::text_of(data + 1, size - 1));
    } else {
      check_tokens({data + 1, size - 1});
    }
  } catch (tandem::Error const& error) {  // any other exception is a finding
    fuzz::require_sentence(error.what());
  }
  return 0;
}
