// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// bleu(): how near translations are to those of people, as WMT and sacrebleu count it.
///
/// Source: Papineni, Roukos, Ward, Zhu, "BLEU", ACL 2002; Post, "A call for clarity in reporting
/// BLEU scores", WMT 2018; the smoothing is method 3 of Chen, Cherry, WMT 2014. Words are cut as by
/// sacrebleu 2.6.0, tokenizers/tokenizer_13a.py and tokenizer_re.py.

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/utf8.hpp>

namespace tandem {

/// The words of @p sentence with a space between: marks are words, full stops and commas too but
/// between digits, and so is a dash behind a digit; four entities of SGML are what they mean.
TANDEM_ONCE [[nodiscard]] std::string bleu_words(std::string_view sentence);

/// Of a corpus: what sacrebleu's BLEUScore has.
struct Bleu {
  static constexpr int orders = 4;  ///< words of the longest n-gram that is counted

  double score = 0.0;             ///< from 0 to 100
  double brevity_penalty = 0.0;   ///< from 0 to 1
  double precision[orders] = {};  ///< of n-grams, n - 1 being the index; from 0 to 100
  std::int64_t correct[orders] = {};
  std::int64_t total[orders] = {};
  std::int64_t words = 0;            ///< of the translations
  std::int64_t reference_words = 0;  ///< of the references, the one nearest in length of each
};

namespace detail {

/// How often each n-gram stands in a sentence. Keys are views of its words with a space between.
struct NGrams {
  std::unordered_map<std::string_view, std::int64_t> count[Bleu::orders];
  std::int64_t words = 0;

  /// @p sentence must live as long as this.
  TANDEM_ONCE explicit NGrams(std::string_view sentence);
};

/// Adds what @p translation has of the n-grams of @p references, all of them words as bleu_words()
/// gives them.
TANDEM_ONCE void count_bleu(Bleu& sum, std::string_view translation,
                            std::span<std::string const> references);

/// The score of the counts of a corpus. A precision of 0 is that of half a hit, the next of a
/// quarter, and so on.
TANDEM_ONCE Bleu scored(Bleu bleu);

/// As bleu(), of references(i), an array of strings for sentence i.
template <class References>
Bleu bleu_of(std::span<std::string const> translations, std::size_t sentences,
             References const& references) {
  if (translations.size() != sentences || translations.empty()) {
    throw Error{translations.empty() ? "bleu: there are no translations"
                                     : "bleu: there are " + std::to_string(translations.size()) +
                                           " translations and " + std::to_string(sentences) +
                                           " references; give one for each"};
  }
  Bleu sum;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    std::vector<std::string> words;
    for (auto const& reference : references(i)) {
      words.push_back(bleu_words(reference));
    }
    count_bleu(sum, bleu_words(translations[i]), words);
  }
  return scored(sum);
}

}  // namespace detail

/// BLEU of a corpus, with its capitals, by words of bleu_words(), with exponential smoothing: what
/// `sacrebleu` says by default ("case:mixed|eff:no|tok:13a|smooth:exp").
///
/// Cost:   an array of n-grams for one sentence at a time; some 20 us a sentence of 25 words.
/// @throws Error  there are no translations, or not as many as references
TANDEM_ONCE [[nodiscard]] Bleu bleu(std::span<std::string const> translations,
                                    std::span<std::string const> references);

/// BLEU where each sentence has several references: references[k][i] is the k-th of sentence i.
/// @throws Error  as above, or there are no references
TANDEM_ONCE [[nodiscard]] Bleu bleu(std::span<std::string const> translations,
                                    std::span<std::vector<std::string> const> references);

/// BLEU against the targets of @p data, which is as Pairs.
template <class Data>
  requires requires(Data const& data) {
    { data.target(std::int64_t{}) } -> std::convertible_to<std::string_view>;
  }
[[nodiscard]] Bleu bleu(std::span<std::string const> translations, Data const& data) {
  return detail::bleu_of(translations, static_cast<std::size_t>(data.size()), [&](std::size_t i) {
    return std::vector<std::string_view>{data.target(static_cast<std::int64_t>(i))};
  });
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

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

TANDEM_ONCE void count_bleu(Bleu& sum, std::string_view translation,
                            std::span<std::string const> references) {
  NGrams const own{translation};
  std::vector<NGrams> others;
  others.reserve(references.size());
  std::int64_t nearest = -1;
  auto const distance = [&](std::int64_t words) {
    return words > own.words ? words - own.words : own.words - words;
  };
  for (std::string const& reference : references) {
    std::int64_t const words = others.emplace_back(reference).words;
    bool const is_nearer = nearest < 0 || distance(words) < distance(nearest);
    nearest =
        is_nearer || (distance(words) == distance(nearest) && words < nearest) ? words : nearest;
  }
  sum.words += own.words;
  sum.reference_words += nearest;
  for (int n = 0; n < Bleu::orders; ++n) {
    for (auto const& [gram, count] : own.count[n]) {
      std::int64_t most = 0;
      for (NGrams const& other : others) {
        auto const found = other.count[n].find(gram);
        most = found != other.count[n].end() && found->second > most ? found->second : most;
      }
      sum.correct[n] += count < most ? count : most;
      sum.total[n] += count;
    }
  }
}

TANDEM_ONCE Bleu scored(Bleu bleu) {
  auto const words = static_cast<double>(bleu.words);
  auto const reference_words = static_cast<double>(bleu.reference_words);
  bleu.brevity_penalty = bleu.words >= bleu.reference_words ? 1.0
                         : bleu.words > 0 ? std::exp(1.0 - reference_words / words)
                                          : 0.0;
  bool any = false;
  for (std::int64_t const correct : bleu.correct) {
    any = any || correct > 0;
  }
  if (!any) {
    return bleu;
  }
  double smoothing = 1.0;
  double logarithms = 0.0;
  bool has_all = true;
  for (int n = 0; n < Bleu::orders; ++n) {
    auto const total = static_cast<double>(bleu.total[n]);
    if (bleu.total[n] == 0) {
      has_all = false;  // no sentence is that long
      break;
    }
    if (bleu.correct[n] == 0) {
      smoothing *= 2.0;
      bleu.precision[n] = 100.0 / (smoothing * total);
    } else {
      bleu.precision[n] = 100.0 * static_cast<double>(bleu.correct[n]) / total;
    }
    logarithms += std::log(bleu.precision[n]);
  }
  bleu.score = has_all ? bleu.brevity_penalty * std::exp(logarithms / Bleu::orders) : 0.0;
  return bleu;
}

TANDEM_ONCE NGrams::NGrams(std::string_view sentence) {
  std::vector<std::size_t> begin{};  // of each word
  for (std::size_t at = 0; at < sentence.size(); ++at) {
    if (at == 0 || sentence[at - 1] == ' ') {
      begin.push_back(at);
    }
  }
  words = static_cast<std::int64_t>(begin.size());
  begin.push_back(sentence.size() + 1);  // where one more would
  for (std::size_t n = 1; n <= Bleu::orders; ++n) {
    for (std::size_t i = 0; i + n < begin.size(); ++i) {
      ++count[n - 1][sentence.substr(begin[i], begin[i + n] - 1 - begin[i])];
    }
  }
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

TANDEM_ONCE Bleu bleu(std::span<std::string const> translations,
                      std::span<std::string const> references) {
  return detail::bleu_of(translations, references.size(),
                         [&](std::size_t i) { return references.subspan(i, 1); });
}

TANDEM_ONCE Bleu bleu(std::span<std::string const> translations,
                      std::span<std::vector<std::string> const> references) {
  std::size_t sentences = references.empty() ? 0 : translations.size();
  for (auto const& each : references) {
    sentences = each.size() == translations.size() ? sentences : each.size();
  }
  return detail::bleu_of(translations, sentences, [&](std::size_t i) {
    std::vector<std::string_view> all;
    for (auto const& each : references) {
      all.push_back(each[i]);
    }
    return all;
  });
}

}  // namespace tandem

#endif
