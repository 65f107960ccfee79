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
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/buckets.hpp>
#include <tandem/data/order.hpp>
#include <tandem/data/text/paired_text.hpp>
#include <tandem/data/text/tokenizer.hpp>

namespace tandem {

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
