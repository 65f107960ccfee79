// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pairs: sentences and their translations, as tokens for a network on two inputs.
///
/// Two files have a sentence a line, the translation on the line of the same number. The first
/// input is the sentence, the second what a decoder has said so far, and the targets what it is to
/// say next.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/buckets.hpp>
#include <tandem/data/order.hpp>
#include <tandem/data/text/lines.hpp>
#include <tandem/data/text/read_text.hpp>
#include <tandem/data/text/tokenizer.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/gzip.hpp>

namespace tandem {

struct PairsOptions {
  int longest = 50;         ///< tokens of a sentence, its begin and end among them
  int buckets = 5;          ///< of lengths: see BucketedDataset
  std::int32_t begin = -1;  ///< token of the tokenizers; -1: one more than the larger of them has
  std::int32_t end = -1;    ///< likewise; -1: two more
  bool leave_out = false;   ///< pairs that are too long or empty; else they are an error
};

namespace detail {

/// What all parts of a text share.
struct PairedText {
  PairsOptions options;
  int vocabulary = 0;
  std::string text[2];                    // source, target
  std::vector<std::string_view> line[2];  // of text
  std::vector<std::int32_t> tokens[2];    // of all pairs, one behind the other
  std::vector<std::size_t> first[2];      // of a pair's tokens; one more than there are pairs
  std::vector<std::int64_t> number;       // of a pair's line, from 0
  std::int64_t left_out = 0;
  /// Text from tokens, by a copy of the target's tokenizer; empty if that cannot be copied.
  std::function<std::string(std::span<std::int32_t const>)> decode;

  [[nodiscard]] std::span<std::int32_t const> words(int side, std::int64_t pair) const {
    auto const at = static_cast<std::size_t>(pair);
    return std::span{tokens[side]}.subspan(first[side][at], first[side][at + 1] - first[side][at]);
  }
};

TANDEM_ONCE void check_lines(std::size_t lines, std::string const& source, std::size_t others,
                             std::string const& target);

TANDEM_ONCE void set_options(PairedText& all, PairsOptions const& options, int source, int target);

TANDEM_ONCE void append_pair(PairedText& all, std::size_t line,
                             std::vector<std::int32_t> const (&words)[2], int const (&sizes)[2],
                             std::string const* const (&names)[2]);

/// The tokens of @p line, the one of @p number, from 0, in the file @p name.
template <class T>
std::vector<std::int32_t> encoded(T const& tokenizer, std::string_view line, std::size_t number,
                                  std::string const& name) {
  try {
    return tokenizer.encode(line);
  } catch (Error const& error) {
    throw FileError{name, "line " + std::to_string(number + 1) + ": " + error.what()};
  }
}

/// See Pairs.
template <class Source, class Target>
std::shared_ptr<PairedText const> read_pairs(std::string const& source, std::string const& target,
                                             Source const& source_tokenizer,
                                             Target const& target_tokenizer,
                                             PairsOptions const& options) {
  auto all = std::make_shared<PairedText>();
  int const sizes[] = {source_tokenizer.size(), target_tokenizer.size()};
  std::string const* const names[] = {&source, &target};
  set_options(*all, options, sizes[0], sizes[1]);
  for (int side = 0; side < 2; ++side) {
    all->text[side] = read_unchecked<Inflate>(*names[side], default_file_limit);
    drop_byte_order_mark(all->text[side]);
    all->line[side] = lines_of(all->text[side], *names[side]);
  }
  check_lines(all->line[0].size(), source, all->line[1].size(), target);
  all->first[0] = all->first[1] = {0};
  for (std::size_t line = 0; line < all->line[0].size(); ++line) {
    std::vector<std::int32_t> const words[] = {
        encoded(source_tokenizer, all->line[0][line], line, source),
        encoded(target_tokenizer, all->line[1][line], line, target)};
    append_pair(*all, line, words, sizes, names);
  }
  if constexpr (std::is_copy_constructible_v<Target>) {
    all->decode = [own = target_tokenizer](std::span<std::int32_t const> tokens) {
      return own.decode(tokens);
    };
  }
  if (all->number.empty()) {
    throw FileError{source, "of its " + std::to_string(all->left_out) +
                                " sentences none is left: they, or their translations, are empty "
                                "or longer than " +
                                std::to_string(options.longest) +
                                " tokens; give a larger PairsOptions::longest"};
  }
  return all;
}

}  // namespace detail

/// A PairDataset. Of a sentence of n tokens and a translation of m:
///
///   x        begin, the n tokens, end   (n + 2)
///   second   begin, the m tokens        (m + 1)
///   y        the m tokens, end          (m + 1); behind it -1, which a loss leaves out
///
/// Cost:   both texts, 4 bytes a token and 24 a pair; copies and parts share them.
class Pairs {
 public:
  using Input = std::int32_t;
  using Target = std::int32_t;

  /// Reads two files of UTF-8, plain or gzipped, with the same number of lines, as one vocabulary.
  /// @throws FileError  a file cannot be read, is not UTF-8 or has no lines, they are of different
  ///                    numbers of lines, or a pair is empty or too long: it says which line
  /// @throws Error      the tokenizer has no tokens, or gives one that it does not have
  template <Tokenizer T>
  Pairs(std::string const& source, std::string const& target, T const& tokenizer,
        PairsOptions const& options = {})
      : Pairs{source, target, tokenizer, tokenizer, options} {}

  /// The same with a tokenizer for each; the vocabulary is as large as the larger one.
  template <Tokenizer Source, Tokenizer Target>
  Pairs(std::string const& source, std::string const& target, Source const& source_tokenizer,
        Target const& target_tokenizer, PairsOptions const& options = {})
      : Pairs{detail::read_pairs(source, target, source_tokenizer, target_tokenizer, options)} {}

  // ---- the dataset

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(pairs_->size()); }
  [[nodiscard]] Shape shape() const { return tokens_shape(all_->options.longest); }
  [[nodiscard]] Shape second_shape() const { return shape(); }
  [[nodiscard]] int targets() const { return all_->options.longest; }
  [[nodiscard]] int buckets() const { return all_->options.buckets; }
  [[nodiscard]] int length(std::int64_t index) const {
    return static_cast<int>(words(0, index).size()) + 2;
  }
  [[nodiscard]] int second_length(std::int64_t index) const {
    return static_cast<int>(words(1, index).size()) + 1;
  }
  TANDEM_ONCE void read(std::int64_t index, std::span<std::int32_t> x,
                        std::span<std::int32_t> second, std::span<std::int32_t> y) const;

  // ---- the text

  /// Tokens that an embedding has rows for, begin and end among them.
  [[nodiscard]] int vocabulary() const { return all_->vocabulary; }
  [[nodiscard]] std::int32_t begin() const { return all_->options.begin; }
  [[nodiscard]] std::int32_t end() const { return all_->options.end; }

  /// Line of pair @p index in both files, from 1.
  [[nodiscard]] std::int64_t line(std::int64_t index) const {
    return all_->number[static_cast<std::size_t>(pair(index))] + 1;
  }
  /// A sentence as it stands in its file; holds as long as any copy of this.
  [[nodiscard]] std::string_view source(std::int64_t index) const { return text(0, index); }
  [[nodiscard]] std::string_view target(std::int64_t index) const { return text(1, index); }

  /// The text of @p tokens of a translation, begin and end left out.
  /// @throws Error  the tokenizer does not know one, or cannot be copied, so that this has none
  TANDEM_ONCE [[nodiscard]] std::string decode(std::span<std::int32_t const> tokens) const;

  /// Pairs of the files that are in no part, since they are too long or empty.
  [[nodiscard]] std::int64_t left_out() const { return all_->left_out; }

  /// All pairs but each @p every-th, to train on, and these, to validate: pairs of all places of a
  /// book alike. Both share this one's memory.
  /// @pre every >= 2
  TANDEM_ONCE [[nodiscard]] std::pair<Pairs, Pairs> hold_out(int every) const;

 private:
  explicit Pairs(std::shared_ptr<detail::PairedText const> all) : all_{std::move(all)} {
    std::vector<std::int64_t> pairs(all_->number.size());
    ascending_order(pairs);
    pairs_ = std::make_shared<std::vector<std::int64_t> const>(std::move(pairs));
  }
  Pairs(std::shared_ptr<detail::PairedText const> all, std::vector<std::int64_t> pairs)
      : all_{std::move(all)},
        pairs_{std::make_shared<std::vector<std::int64_t> const>(std::move(pairs))} {}

  [[nodiscard]] std::int64_t pair(std::int64_t index) const {
    return (*pairs_)[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::span<std::int32_t const> words(int side, std::int64_t index) const {
    return all_->words(side, pair(index));
  }
  [[nodiscard]] std::string_view text(int side, std::int64_t index) const {
    return all_->line[side][static_cast<std::size_t>(line(index) - 1)];
  }

  std::shared_ptr<detail::PairedText const> all_;
  std::shared_ptr<std::vector<std::int64_t> const> pairs_;  // of all_, in this part
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void check_lines(std::size_t lines, std::string const& source, std::size_t others,
                             std::string const& target) {
  if (lines != others) {
    throw FileError{target, "this file has " + std::to_string(others) + " lines and '" + source +
                                "' has " + std::to_string(lines) +
                                "; a sentence and its translation must stand on lines of the "
                                "same number"};
  }
  if (lines == 0) {
    throw FileError{source, "there are no sentences in this file; it must have one a line"};
  }
}

TANDEM_ONCE void set_options(PairedText& all, PairsOptions const& options, int source, int target) {
  expects(options.longest >= 3,
          "PairsOptions: longest must be at least 3: the begin, a token and the end");
  expects(options.buckets >= 1, "PairsOptions: buckets must be 1, for none, or more");
  expects((options.begin < 0) == (options.end < 0) &&
              (options.begin < 0 || options.begin != options.end),
          "PairsOptions: give two different tokens as begin and end, or none");
  if (source < 1 || target < 1) {
    throw Error{std::string{"Pairs: the tokenizer of the "} + (source < 1 ? "sources" : "targets") +
                " has no tokens; make its vocabulary of the text first"};
  }
  all.options = options;
  all.vocabulary = std::max(source, target);
  if (options.begin < 0) {
    all.options.begin = all.vocabulary++;
    all.options.end = all.vocabulary++;
  }
  expects(std::max(all.options.begin, all.options.end) < all.vocabulary,
          "PairsOptions: begin and end must be tokens of the vocabulary, or -1 for two more");
}

TANDEM_ONCE void append_pair(PairedText& all, std::size_t line,
                             std::vector<std::int32_t> const (&words)[2], int const (&sizes)[2],
                             std::string const* const (&names)[2]) {
  auto const most = static_cast<std::size_t>(all.options.longest - 2);
  for (int side = 0; side < 2; ++side) {
    std::size_t const count = words[side].size();
    if (count >= 1 && count <= most) {
      continue;
    }
    if (all.options.leave_out) {
      ++all.left_out;
      return;
    }
    throw FileError{*names[side],
                    "line " + std::to_string(line + 1) +
                        (count == 0 ? " is empty: it has no token"
                                    : " is too long: it has " + std::to_string(count + 2) +
                                          " tokens, begin and end among them, and the most is " +
                                          std::to_string(all.options.longest)) +
                        "; PairsOptions::leave_out leaves out such pairs" +
                        (count == 0 ? "" : ", and a larger longest takes them")};
  }
  for (int side = 0; side < 2; ++side) {
    for (std::size_t i = 0; i < words[side].size(); ++i) {
      std::int32_t const token = words[side][i];
      if (token < 0 || token >= sizes[side]) {
        throw FileError{*names[side], "line " + std::to_string(line + 1) +
                                          ": the tokenizer gives the token " +
                                          std::to_string(token) + ", but has only " +
                                          std::to_string(sizes[side])};
      }
    }
    all.tokens[side].insert(all.tokens[side].end(), words[side].begin(), words[side].end());
    all.first[side].push_back(all.tokens[side].size());
  }
  all.number.push_back(static_cast<std::int64_t>(line));
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string Pairs::decode(std::span<std::int32_t const> tokens) const {
  if (!all_->decode) {
    throw Error{"Pairs::decode: the tokenizer of the targets cannot be copied; decode with it"};
  }
  std::vector<std::int32_t> words;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(words),
               [this](std::int32_t token) { return token != begin() && token != end(); });
  return all_->decode(words);
}

TANDEM_ONCE std::pair<Pairs, Pairs> Pairs::hold_out(int every) const {
  expects(every >= 2, "Pairs::hold_out: every second pair at most can be held out");
  std::vector<std::int64_t> parts[2];
  for (std::size_t i = 0; i < pairs_->size(); ++i) {
    parts[(i + 1) % static_cast<std::size_t>(every) == 0 ? 1 : 0].push_back((*pairs_)[i]);
  }
  return {Pairs{all_, std::move(parts[0])}, Pairs{all_, std::move(parts[1])}};
}

TANDEM_ONCE void Pairs::read(std::int64_t index, std::span<std::int32_t> x,
                             std::span<std::int32_t> second, std::span<std::int32_t> y) const {
  auto const source = words(0, index);
  auto const target = words(1, index);
  x.front() = second.front() = begin();
  std::copy(source.begin(), source.end(), x.begin() + 1);
  std::copy(target.begin(), target.end(), second.begin() + 1);
  std::copy(target.begin(), target.end(), y.begin());
  x.back() = y.back() = end();
}

}  // namespace tandem

#endif
