// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// bleu_words(): a sentence cut into words as WMT's evaluations cut it, by the rules of
/// mteval-v13a.
///
/// Source: sacrebleu 2.6.0, tokenizers/tokenizer_13a.py and tokenizer_re.py

#include <cstddef>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/utf8.hpp>

namespace tandem {

namespace detail {

constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_stop(char c) { return c == '.' || c == ','; }

/// Bytes of the blank at the front of @p text, one of Unicode's as Python's str.isspace() has them;
/// 0 if there is none.
constexpr std::size_t blank_length(std::string_view text) {
  auto const at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  unsigned const lead = at(0);
  if (lead < 0x80) {
    return lead == ' ' || (lead >= 0x09 && lead <= 0x0D) || (lead >= 0x1C && lead <= 0x1F) ? 1 : 0;
  }
  if (lead == 0xC2) {
    return at(1) == 0x85 || at(1) == 0xA0 ? 2 : 0;  // U+0085, U+00A0
  }
  unsigned const point = lead == 0xE1 || lead == 0xE2 || lead == 0xE3
                             ? (lead & 0xFU) << 12 | (at(1) & 0x3FU) << 6 | (at(2) & 0x3FU)
                             : 0;
  bool const is_blank = point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
                        point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F ||
                        point == 0x3000;
  return is_blank && at(2) != 0 ? 3 : 0;
}

/// Whether 13a sets @p c apart wherever it stands: marks of ASCII but ' , - .
constexpr bool stands_apart(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/// @p text with each pair of neighbours that @p is_pair takes, from the left and none in two pairs,
/// written by @p write(out, first, second).
template <class IsPair, class Write>
std::string rewritten_pairs(std::string_view text, IsPair const& is_pair, Write const& write) {
  std::string out;
  out.reserve(text.size() * 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && is_pair(text[i], text[i + 1])) {
      write(out, text[i], text[i + 1]);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace detail

/// The words of @p sentence with a space between: marks are words, full stops and commas too but
/// between digits, and so is a dash behind a digit; four entities of SGML are what they mean.
TANDEM_ONCE [[nodiscard]] std::string bleu_words(std::string_view sentence);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

/// The words of @p text, which blanks of any kind part, with one space between.
TANDEM_ONCE std::string single_spaced(std::string_view text) {
  std::string out;
  bool between = false;
  while (!text.empty()) {
    if (std::size_t const blank = blank_length(text); blank > 0) {
      between = true;
      text.remove_prefix(blank);
      continue;
    }
    if (between && !out.empty()) {
      out += ' ';
    }
    between = false;
    std::size_t const length = utf8_length(text);
    out += text.substr(0, length > 0 ? length : 1);
    text.remove_prefix(length > 0 ? length : 1);
  }
  return out;
}

/// @p text without the blanks at its end.
TANDEM_ONCE std::string_view without_last_blanks(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const blank = blank_length(text.substr(at));
    std::size_t const length = blank > 0 ? blank : utf8_length(text.substr(at));
    at += length > 0 ? length : 1;
    end = blank > 0 ? end : at;
  }
  return text.substr(0, end);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string bleu_words(std::string_view sentence) {
  std::string text{detail::without_last_blanks(sentence)};
  detail::replace_all(text, "<skipped>", "");
  detail::replace_all(text, "-\n", "");
  detail::replace_all(text, "\n", " ");
  detail::replace_all(text, "&quot;", "\"");
  detail::replace_all(text, "&amp;", "&");
  detail::replace_all(text, "&lt;", "<");
  detail::replace_all(text, "&gt;", ">");
  std::string apart = " ";
  for (char const c : text) {
    if (detail::stands_apart(c)) {
      apart += ' ';
      apart += c;
      apart += ' ';
    } else {
      apart += c;
    }
  }
  apart += ' ';
  using detail::is_ascii_digit;
  using detail::is_stop;
  apart = detail::rewritten_pairs(
      apart, [](char a, char b) { return !is_ascii_digit(a) && is_stop(b); },
      [](std::string& out, char a, char b) {
        out.append({a, ' ', b, ' '});
      });
  apart = detail::rewritten_pairs(
      apart, [](char a, char b) { return is_stop(a) && !is_ascii_digit(b); },
      [](std::string& out, char a, char b) {
        out.append({' ', a, ' ', b});
      });
  apart = detail::rewritten_pairs(
      apart, [](char a, char b) { return is_ascii_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) {
        out.append({a, ' ', b, ' '});
      });
  return detail::single_spaced(apart);
}

}  // namespace tandem

#endif
