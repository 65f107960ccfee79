// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TypeTerm: a type's text as a tree, "DataParallel<2, Weighted<1, 2>>". What the names stand for
/// is not known here.

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/strategy/argument_rules.hpp>

namespace tandem::detail {

/// A name, a number or a quoted path, and what stands in its brackets.
struct TypeTerm {
  std::string_view word{};
  std::string_view text{};  ///< with its brackets
  bool has_brackets = false;
  std::vector<TypeTerm> arguments{};
};

inline constexpr std::int64_t most_of_int = std::numeric_limits<int>::max();

/// Terms refer to @p text. Names may have "tandem::" or "td::" before them, numbers ' among digits.
/// @throws ContractError  where it cannot be read, and why
TANDEM_ONCE TypeTerm read_type(std::string_view text);

/// @throws ContractError  the sentence, and the term, where it does not hold
TANDEM_ONCE void type_expects(bool holds, TypeTerm const& term, Sentence sentence);

/// @throws ContractError  the sentence, where the term is no such number; 010 is 8 to a compiler
TANDEM_ONCE std::int64_t type_number(TypeTerm const& term, std::int64_t least, std::int64_t most,
                                     Sentence sentence);

/// The only one between a term's brackets.
TANDEM_ONCE int only_number(TypeTerm const& term, int least, Sentence sentence,
                            std::int64_t most = most_of_int);

}  // namespace tandem::detail

#if TANDEM_BODIES

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <system_error>

#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>

namespace tandem::detail {

class TypeTermReader {
 public:
  explicit TypeTermReader(std::string_view text) : text_{text} {}

  TypeTerm read() {
    expect(text_.size() <= most, "it is longer than 65536 characters");
    TypeTerm term = read_term(0);
    skip_spaces();
    expect(at_ == text_.size(), "the type ends before this");
    return term;
  }

 private:
  static constexpr std::size_t most = 1 << 16;
  static constexpr int most_levels = 64;

  void expect(bool holds, char const* what) const {
    if (!holds) {
      throw ContractError{"a strategy's type cannot be read at character " + std::to_string(at_) +
                          ", '" + printable(text_.substr(std::min(at_, text_.size())), 32) +
                          "': " + what};
    }
  }
  void skip_spaces() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || (text_[at_] >= '\t' && text_[at_] <= '\r'))) {
      ++at_;
    }
  }
  bool take(char c) {
    skip_spaces();
    bool const is = at_ < text_.size() && text_[at_] == c;
    at_ += is ? 1 : 0;
    return is;
  }

  std::string_view read_word() {
    skip_spaces();
    std::size_t const begin = at_;
    if (take('"')) {
      std::size_t const end = text_.find('"', at_);
      expect(end != std::string_view::npos, "the quote is not closed");
      at_ = end + 1;
    } else {
      auto const belongs = [this, begin](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == (at_ > begin ? '\'' : '-');
      };
      while (at_ < text_.size() && belongs(text_[at_])) {
        ++at_;
      }
    }
    return text_.substr(begin, at_ - begin);
  }

  TypeTerm read_term(int level) {
    expect(level < most_levels, "it is nested more than 64 levels deep");
    TypeTerm term{.word = read_word()};
    while (take(':')) {
      expect(take(':') && (term.word.empty() || term.word == "tandem" || term.word == "td"),
             "before a name may stand tandem:: or td::");
      term.word = read_word();
    }
    expect(!term.word.empty(), "a name or a number is missing here");
    std::size_t end = at_;
    if (take('<')) {
      term.has_brackets = true;
      if (!take('>')) {
        do {
          term.arguments.push_back(read_term(level + 1));
        } while (take(','));
        expect(take('>'), "a comma or a closing bracket is missing here");
      }
      end = at_;
    }
    auto const begin = static_cast<std::size_t>(term.word.data() - text_.data());
    term.text = text_.substr(begin, end - begin);
    return term;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

TANDEM_ONCE TypeTerm read_type(std::string_view text) { return TypeTermReader{text}.read(); }

TANDEM_ONCE void type_expects(bool holds, TypeTerm const& term, Sentence sentence) {
  if (!holds) {
    throw ContractError{std::string{sentence.text} + "; here stands '" + printable(term.text, 64) +
                        "'"};
  }
}

TANDEM_ONCE std::int64_t type_number(TypeTerm const& term, std::int64_t least, std::int64_t most,
                                     Sentence sentence) {
  std::string digits{term.word};
  std::erase(digits, '\'');
  std::int64_t number = 0;
  char const* const last = digits.data() + digits.size();
  auto const [end, error] = std::from_chars(digits.data(), last, number);
  bool const is_plain = !term.has_brackets && (digits.size() == 1 || digits[0] != '0');
  type_expects(error == std::errc{} && end == last && is_plain && least <= number && number <= most,
               term, sentence);
  return number;
}

TANDEM_ONCE int only_number(TypeTerm const& term, int least, Sentence sentence, std::int64_t most) {
  type_expects(term.arguments.size() == 1, term, sentence);
  return static_cast<int>(type_number(term.arguments[0], least, most, sentence));
}

}  // namespace tandem::detail

#endif
