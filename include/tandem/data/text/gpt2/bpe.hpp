// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Gpt2Bpe: GPT-2's tokenizer, byte-level pairs, read from its two files `vocab.json` and
/// `merges.txt`.
///
/// Source: Radford, Wu, Child, Luan, Amodei, Sutskever, "Language Models are Unsupervised Multitask
/// Learners", 2019, section 2.2; github.com/openai/gpt-2, src/encoder.py

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/data/text/characters.hpp>
#include <tandem/data/text/gpt2/words.hpp>
#include <tandem/data/text/tokenizer.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/json/reader.hpp>

namespace tandem::detail {

/// Whether the files write the byte @p byte as the character of that number.
constexpr bool stands_for_itself(std::uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

/// The byte that the files write as @p point: itself, or where that is a blank or no character, the
/// next free one above 255. -1 if none.
constexpr int byte_written_as(std::uint32_t point) {
  if (point < 256) {
    return stands_for_itself(point) ? static_cast<int>(point) : -1;
  }
  std::uint32_t const place = point - 256;  // among 0x00 to 0x20, 0x7F to 0xA0, 0xAD
  return place < 33    ? static_cast<int>(place)
         : place < 67  ? static_cast<int>(place - 33 + 0x7F)
         : place == 67 ? 0xAD
                       : -1;
}

/// The bytes that the files write as @p text, which is UTF-8; a character that stands for no byte,
/// as special tokens may have, stays as it is.
TANDEM_ONCE std::string bytes_written_as(std::string_view text);

/// The bytes of each token of a vocab.json: an object from tokens to their numbers.
/// @throws FileError  it is not that, or the numbers are not 0, 1, … in some order
TANDEM_ONCE std::vector<std::string> parse_vocabulary(std::string_view text,
                                                      std::string const& name);

/// Calls @p take(left, right, byte) for each pair of a merges.txt: a line each, two words with a
/// space between; a first line that begins with "#version" is none.
/// @throws FileError  a line is not that; it says at which byte it begins
template <class Take>
void each_merge(std::string_view text, std::string const& name, Take const& take) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (!(at == 0 && line.starts_with("#version")) && !(line.empty() && end + 1 >= text.size())) {
      std::size_t const space = line.find(' ');
      if (space == line.npos || space == 0 || space + 1 == line.size() ||
          line.find(' ', space + 1) != line.npos || !is_utf8(line)) {
        throw FileError{name, "the line at byte " + std::to_string(at) +
                                  " is no merge: expected two tokens with one space between, as "
                                  "UTF-8"};
      }
      take(bytes_written_as(line.substr(0, space)), bytes_written_as(line.substr(space + 1)), at);
    }
    at = end + 1;
  }
}

}  // namespace tandem::detail

namespace tandem {

/// A Tokenizer of any bytes: what is no UTF-8 is written byte by byte, and comes back as it was.
///
/// Text that looks like a special token, as "<|endoftext|>", is text; special tokens are asked for
/// by token().
class Gpt2Bpe {
 public:
  /// Reads the files at these paths.
  /// @throws FileError  one cannot be read, or see parse()
  TANDEM_ONCE Gpt2Bpe(std::string const& vocabulary, std::string const& merges);

  /// As above, of the files' contents; the names are for messages.
  /// @throws FileError  a file is not what GPT-2's are, or they do not fit together: a token is
  ///                    there twice or one between others is missing, a byte has no token, a pair
  ///                    or what it becomes has none; it says at which byte
  TANDEM_ONCE Gpt2Bpe(std::span<std::uint8_t const> vocabulary, std::string const& vocabulary_name,
                      std::span<std::uint8_t const> merges, std::string const& merges_name);

  /// Cost: for a word of n bytes n log n; a word that the text has had before is copied.
  TANDEM_ONCE [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// The tokens' bytes, one after the other; UTF-8 if they are all of a text that is.
  /// @throws Error  a token is not in [0, size())
  TANDEM_ONCE [[nodiscard]] std::string decode(std::span<std::int32_t const> tokens) const;

  [[nodiscard]] int size() const noexcept { return static_cast<int>(bytes_of_.size()); }

  /// The token that decodes to @p bytes, as "<|endoftext|>", or -1.
  [[nodiscard]] std::int32_t token(std::string const& bytes) const {
    auto const found = token_of_.find(bytes);
    return found == token_of_.end() ? -1 : found->second;
  }

 private:
  struct Merge {
    std::int32_t rank;
    std::int32_t token;  // what the pair becomes
  };
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }

  TANDEM_ONCE void read_merges(std::string_view text, std::string const& name);

  /// A part of a word; a list, since parts vanish.
  struct Part {
    std::int32_t token;  // -1: merged into one before
    int before;
    int behind;  // the word's bytes: none
  };

  /// Appends the tokens of @p word: the pair that was learnt first is merged, the leftmost if there
  /// are several, until there is none that was learnt.
  TANDEM_ONCE void append(std::string_view word, std::vector<std::int32_t>& tokens) const;

  std::vector<std::string> bytes_of_;  // of a token
  std::unordered_map<std::string, std::int32_t> token_of_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::int32_t first_[256] = {};  // the token of a byte
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string bytes_written_as(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    std::size_t const length = utf8_length(text);
    int const byte = byte_written_as(code_point(text, length));
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      bytes += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return bytes;
}

TANDEM_ONCE std::vector<std::string> parse_vocabulary(std::string_view text,
                                                      std::string const& name) {
  std::vector<std::string> tokens;
  std::vector<bool> known;
  std::size_t count = 0;
  JsonReader reader{text, name, 0, "the vocabulary"};
  reader.object([&](std::string const& key) {
    std::int64_t const number = reader.natural();
    auto const token = static_cast<std::size_t>(number);
    if (token >= text.size()) {  // more than there can be
      reader.fail("the number " + std::to_string(token) +
                  " leaves a gap; the tokens are numbered from 0 on");
    }
    if (token >= tokens.size()) {
      tokens.resize(token + 1);
      known.resize(token + 1);
    }
    if (known[token]) {
      reader.fail("the number " + std::to_string(token) + " is there a second time");
    }
    tokens[token] = bytes_written_as(key);
    known[token] = true;
    ++count;
  });
  reader.end();
  for (std::size_t token = 0; token < known.size(); ++token) {
    if (!known[token]) {
      throw FileError{name, "the vocabulary has " + std::to_string(count) +
                                " tokens, but none of the number " + std::to_string(token) +
                                "; they must be 0 to " + std::to_string(known.size() - 1)};
    }
  }
  return tokens;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE Gpt2Bpe::Gpt2Bpe(std::string const& vocabulary, std::string const& merges)
    : Gpt2Bpe{read_file(vocabulary, text_file_limit), vocabulary,
              read_file(merges, text_file_limit), merges} {}

TANDEM_ONCE Gpt2Bpe::Gpt2Bpe(std::span<std::uint8_t const> vocabulary,
                             std::string const& vocabulary_name,
                             std::span<std::uint8_t const> merges, std::string const& merges_name) {
  bytes_of_ = detail::parse_vocabulary(detail::characters_of(vocabulary), vocabulary_name);
  for (std::size_t number = 0; number < bytes_of_.size(); ++number) {
    auto const [place, is_new] =
        token_of_.emplace(bytes_of_[number], static_cast<std::int32_t>(number));
    if (!is_new) {
      throw FileError{vocabulary_name, "the tokens " + std::to_string(place->second) + " and " +
                                           std::to_string(number) + " are the same"};
    }
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::string const one(1, static_cast<char>(byte));
    first_[byte] = token(one);
    if (first_[byte] < 0) {
      throw FileError{vocabulary_name, "the vocabulary has no token for the byte " +
                                           std::to_string(byte) +
                                           "; a byte-level one has one for each"};
    }
  }
  read_merges(detail::characters_of(merges), merges_name);
}

TANDEM_ONCE std::vector<std::int32_t> Gpt2Bpe::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> known;
  detail::each_gpt2_word(text, [&](std::string_view word) {
    auto const [place, is_new] = known.try_emplace(word, tokens.size(), 0);
    auto& [first, count] = place->second;
    if (is_new) {
      append(word, tokens);
      count = tokens.size() - first;
      return;
    }
    tokens.resize(tokens.size() + count);
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(first), count,
                tokens.end() - static_cast<std::ptrdiff_t>(count));
  });
  return tokens;
}

TANDEM_ONCE std::string Gpt2Bpe::decode(std::span<std::int32_t const> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    text += bytes_of_[detail::checked_token(tokens, i, size(), "Gpt2Bpe")];
  }
  return text;
}

TANDEM_ONCE void Gpt2Bpe::read_merges(std::string_view text, std::string const& name) {
  std::int32_t rank = 0;
  detail::each_merge(
      text, name, [&](std::string const& left, std::string const& right, std::size_t at) {
        std::int32_t const from = token(left);
        std::int32_t const to = token(right);
        std::int32_t const joined = token(left + right);
        auto const fail = [&](std::string const& what) {
          throw FileError{name, "the merge at byte " + std::to_string(at) + what};
        };
        if (from < 0 || to < 0 || joined < 0) {
          fail(std::string{from < 0 ? " begins with"
                           : to < 0 ? " ends with"
                                    : " gives"} +
               " what is no token of the vocabulary; take both files of the same model");
        }
        if (!merges_.try_emplace(key(from, to), Merge{rank, joined}).second) {
          fail(" is there a second time");
        }
        ++rank;
      });
}

TANDEM_ONCE void Gpt2Bpe::append(std::string_view word, std::vector<std::int32_t>& tokens) const {
  using Candidate = std::tuple<std::int32_t, int, std::int32_t, std::int32_t>;   // rank, left part,
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;  // and its pair
  expects(word.size() < std::size_t{1} << 31, "Gpt2Bpe: a word may have at most 2^31 - 1 bytes");
  int const count = static_cast<int>(word.size());
  std::vector<Part> parts(word.size());
  auto const propose = [&](int left) {
    if (left < 0 || parts[static_cast<std::size_t>(left)].behind == count) {
      return;
    }
    Part const& part = parts[static_cast<std::size_t>(left)];
    std::int32_t const right = parts[static_cast<std::size_t>(part.behind)].token;
    auto const merge = merges_.find(key(part.token, right));
    if (merge != merges_.end()) {
      queue.emplace(merge->second.rank, left, part.token, right);
    }
  };
  for (int i = 0; i < count; ++i) {
    auto const at = static_cast<std::size_t>(i);
    parts[at] = {first_[static_cast<unsigned char>(word[at])], i - 1, i + 1};
  }
  for (int i = 0; i < count; ++i) {
    propose(i);
  }
  while (!queue.empty()) {
    auto const [rank, left, token, right_token] = queue.top();
    queue.pop();
    Part& part = parts[static_cast<std::size_t>(left)];
    if (part.token != token || part.behind == count) {
      continue;  // merged meanwhile
    }
    Part& right = parts[static_cast<std::size_t>(part.behind)];
    if (right.token != right_token) {
      continue;
    }
    part.token = merges_.find(key(token, right_token))->second.token;
    right.token = -1;
    part.behind = right.behind;
    if (part.behind < count) {
      parts[static_cast<std::size_t>(part.behind)].before = left;
    }
    propose(part.before);
    propose(left);
  }
  for (int i = 0; i < count; i = parts[static_cast<std::size_t>(i)].behind) {
    tokens.push_back(parts[static_cast<std::size_t>(i)].token);
  }
}

}  // namespace tandem

#endif
