// SPDX-License-Identifier: Apache-2.0
// Fuzzes GPT-2's tokenizer: the first byte chooses a vocab.json, a merges.txt for a vocabulary of
// the bytes and a few words, or a text for one that has merges; the rest is that.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/data/text/gpt2/bpe.hpp>

#include "require.hpp"

namespace {

using tandem::Gpt2Bpe;

/// The pairs in the order of their rank; a pair's parts are bytes, or earlier pairs.
std::vector<std::pair<std::string, std::string>> const pairs = {
    {"a", "b"},   {"'", "s"},    {" ", " "}, {" ", "a"},   {"b", "a"},      {"ab", "ab"},
    {"  ", "  "}, {"abab", "a"}, {"1", "2"}, {" a", "ba"}, {"\xC3", "\xA9"}};

/// @p bytes as the files write them.
std::string written(std::string_view bytes) {
  std::string text;
  for (char const c : bytes) {
    for (std::uint32_t point = 0; point < 324; ++point) {
      if (tandem::detail::byte_written_as(point) == static_cast<unsigned char>(c)) {
        tandem::detail::append_utf8(text, point);
      }
    }
  }
  return text;
}

std::string vocabulary() {
  std::string text = "{";
  int token = 0;
  auto const add = [&](std::string_view bytes) {
    text += token > 0 ? "," : "";
    tandem::detail::append_json_string(text, written(bytes));
    text += ":" + std::to_string(token);
    ++token;
  };
  for (int byte = 0; byte < 256; ++byte) {
    char const c = static_cast<char>(byte);
    add({&c, 1});
  }
  for (auto const& [left, right] : pairs) {
    add(left + right);
  }
  return text + "}";
}

std::span<std::uint8_t const> bytes_of(std::string const& text) {
  return {reinterpret_cast<std::uint8_t const*>(text.data()), text.size()};
}

/// As encoder.py does it: all of the pair that was learnt first, until there is none.
std::vector<std::string> merged(std::string_view word) {
  std::vector<std::string> parts;
  for (char const c : word) {
    parts.emplace_back(1, c);
  }
  while (true) {
    std::size_t best = pairs.size();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      auto const pair = std::find(pairs.begin(), pairs.end(), std::pair{parts[i], parts[i + 1]});
      best = std::min(best, static_cast<std::size_t>(pair - pairs.begin()));
    }
    if (best == pairs.size()) {
      return parts;
    }
    std::vector<std::string> next;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      bool const here = i + 1 < parts.size() && parts[i] == pairs[best].first &&
                        parts[i + 1] == pairs[best].second;
      next.push_back(here ? parts[i] + parts[i + 1] : parts[i]);
      i += here ? 1 : 0;
    }
    parts = std::move(next);
  }
}

void check_text(Gpt2Bpe const& bpe, std::string_view text) {
  std::vector<std::int32_t> const tokens = bpe.encode(text);
  fuzz::require(bpe.decode(tokens) == text);
  std::size_t at = 0;
  std::size_t joined = 0;
  tandem::detail::each_gpt2_word(text, [&](std::string_view word) {
    fuzz::require(!word.empty() && word.data() == text.data() + joined);
    joined += word.size();
    for (std::string const& part : merged(word)) {
      fuzz::require(at < tokens.size() && tokens[at] == bpe.token(part));
      ++at;
    }
  });
  fuzz::require(joined == text.size() && at == tokens.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static std::string const good = vocabulary();
  static Gpt2Bpe const bpe = [] {
    std::string merges = "#version: 0.2\n";
    for (auto const& [left, right] : pairs) {
      merges += written(left) + " " + written(right) + "\n";
    }
    return Gpt2Bpe{bytes_of(good), "vocab.json", bytes_of(merges), "merges.txt"};
  }();
  if (size == 0) {
    return 0;
  }
  std::span<std::uint8_t const> const file{data + 1, size - 1};
  try {
    if (data[0] % 3 == 0) {
      tandem::detail::parse_vocabulary(fuzz::text_of(data + 1, size - 1), "vocab.json");
    } else if (data[0] % 3 == 1) {
      Gpt2Bpe const other{bytes_of(good), "vocab.json", file, "merges.txt"};
      std::string const text =
          "abab a 's  \xC3\xA9"
          "12";
      fuzz::require(other.decode(other.encode(text)) == text);
    } else {
      check_text(bpe, fuzz::text_of(data + 1, std::min<std::size_t>(size - 1, 300)));
    }
  } catch (tandem::FileError const& error) {  // any other exception is a finding
    fuzz::require(error.path() == "vocab.json" || error.path() == "merges.txt");
    fuzz::require_sentence(error.what());
  }
  return 0;
}
