// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Words: a token for each word of a text, by how often it occurs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/data/text/lines.hpp>
#include <tandem/data/text/tokenizer.hpp>
#include <tandem/io/atomic/file.hpp>

namespace tandem {

/// A vocabulary of words, what blanks part: token 0 ends a line, 1 is for each word that it lacks,
/// then come words, the most frequent first, as LogUniform wants them; of like counts in the order
/// of their bytes. A Tokenizer, but what decode() gives has one space between words, and "<UNK>"
/// for those that were unknown.
class Words {
 public:
  static constexpr std::int32_t end_of_line = 0;
  static constexpr std::int32_t unknown = 1;

  /// The words of @p text, at most @p most tokens; 0: all words.
  /// @pre    most is 0 or at least 3
  /// @throws Error  the text is not UTF-8, or has no words
  TANDEM_ONCE explicit Words(std::string_view text, int most = 0);

  /// The vocabulary that save() wrote: a word a line, after "<S>" and "<UNK>".
  /// @throws FileError  the file cannot be read, or is no such list; it says at which line
  TANDEM_ONCE [[nodiscard]] static Words load(std::string const& path);

  /// @throws FileError  the file cannot be written; a previous one is untouched
  TANDEM_ONCE void save(std::string const& path) const;

  TANDEM_ONCE [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

  /// @throws Error  a token is not in [0, size())
  TANDEM_ONCE [[nodiscard]] std::string decode(std::span<std::int32_t const> tokens) const;

  [[nodiscard]] int size() const noexcept { return static_cast<int>(words_.size()); }

  /// By token; the first two are "<S>" and "<UNK>".
  [[nodiscard]] std::span<std::string const> words() const noexcept { return words_; }

 private:
  static constexpr char const* names[] = {"<S>", "<UNK>"};

  Words() = default;

  static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  /// Calls @p take(word) for each word, and with "" for each end of a line.
  template <class Take>
  static void each_word(std::string_view text, Take const& take) {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at;
      while (end < text.size() && !is_blank(text[end])) {
        ++end;
      }
      if (end > at) {
        take(text.substr(at, end - at));
      }
      if (end < text.size() && text[end] == '\n') {
        take(std::string_view{});
      }
      at = end + 1;
    }
  }

  TANDEM_ONCE void index(std::string const& path);

  std::vector<std::string> words_;
  std::unordered_map<std::string, std::int32_t> token_of_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Words::Words(std::string_view text, int most) {
  expects(most == 0 || most >= 3, "Words: give at least 3 tokens, or 0 for all words of the text");
  if (std::size_t const valid = detail::utf8_prefix(text); valid < text.size()) {
    throw Error{"Words: the text is not UTF-8 at byte " + std::to_string(valid) +
                "; convert it first, as 'iconv -t UTF-8' does"};
  }
  std::unordered_map<std::string_view, std::int64_t> count;
  each_word(text, [&](std::string_view word) {
    if (!word.empty() && word != names[end_of_line] && word != names[unknown]) {
      ++count[word];
    }
  });
  if (count.empty()) {
    throw Error{"Words: the text has no words; give one that has those to be learnt"};
  }
  std::vector<std::pair<std::string_view, std::int64_t>> found{count.begin(), count.end()};
  std::sort(found.begin(), found.end(), [](auto const& a, auto const& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  words_ = {names[end_of_line], names[unknown]};
  for (auto const& [word, times] : found) {
    if (most == 0 || words_.size() < static_cast<std::size_t>(most)) {
      words_.emplace_back(word);
    }
  }
  index("the text");
}

TANDEM_ONCE Words Words::load(std::string const& path) {
  Words words;
  words.words_ = read_lines(path);
  words.index(path);
  return words;
}

TANDEM_ONCE void Words::save(std::string const& path) const {
  std::string text;
  for (std::string const& word : words_) {
    text += word + '\n';
  }
  AtomicFile file{path};
  file.write(std::as_bytes(std::span{text}));
  file.commit();
}

TANDEM_ONCE std::vector<std::int32_t> Words::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  each_word(text, [&](std::string_view word) {
    auto const found = word.empty() ? token_of_.end() : token_of_.find(std::string{word});
    tokens.push_back(word.empty()               ? end_of_line
                     : found == token_of_.end() ? unknown
                                                : found->second);
  });
  return tokens;
}

TANDEM_ONCE std::string Words::decode(std::span<std::int32_t const> tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::size_t const token = detail::checked_token(tokens, i, size(), "Words");
    if (token == end_of_line) {
      text += '\n';
      continue;
    }
    if (!text.empty() && text.back() != '\n') {
      text += ' ';
    }
    text += words_[token];
  }
  return text;
}

TANDEM_ONCE void Words::index(std::string const& path) {
  for (std::size_t token = 0; token < words_.size(); ++token) {
    std::string const& word = words_[token];
    std::string const line = "line " + std::to_string(token + 1);
    if (word.empty() || std::any_of(word.begin(), word.end(), is_blank)) {
      throw FileError{path, line + " is empty or has a blank; a vocabulary has a word a line"};
    }
    auto const [place, is_new] = token_of_.emplace(word, static_cast<std::int32_t>(token));
    if (!is_new) {
      throw FileError{path, line + " is that of line " + std::to_string(place->second + 1) +
                                "; a vocabulary has each word once"};
    }
  }
  if (words_.size() < 3 || words_[end_of_line] != names[end_of_line] ||
      words_[unknown] != names[unknown]) {
    throw FileError{path, words_.empty() ? "the vocabulary is empty"
                                         : "a vocabulary begins with the lines '<S>' and "
                                           "'<UNK>', and has a word behind them"};
  }
}

}  // namespace tandem

#endif
