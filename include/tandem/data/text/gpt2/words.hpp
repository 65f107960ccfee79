// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// each_gpt2_word(): a text cut as GPT-2's pattern cuts it, before pairs are merged.

#include <cstddef>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/data/text/characters.hpp>
#include <tandem/data/text/gpt2/unicode.hpp>

namespace tandem::detail {

struct KindOfCharacter {
  CharacterKind kind = CharacterKind::other;
  std::size_t length = 1;
};

/// The character at @p at; a byte that is of no UTF-8 sequence is one of kind `other`.
TANDEM_ONCE KindOfCharacter character_at(std::string_view text, std::size_t at);

/// The end of the characters of @p kind from @p at on.
TANDEM_ONCE std::size_t end_of_run(std::string_view text, std::size_t at, CharacterKind kind);

/// Bytes of an English contraction at @p at, or 0.
TANDEM_ONCE std::size_t contraction(std::string_view text, std::size_t at);

/// The end of the blanks at @p at that are one word: those that follow each other, without the last
/// if it goes with what comes behind.
TANDEM_ONCE std::size_t end_of_blanks(std::string_view text, std::size_t at);

/// Calls @p take(word) for each match of
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, which leave
/// nothing out. Bytes that are no UTF-8 count as [^\s\p{L}\p{N}].
///
/// Cost:   linear in the text.
/// Source: github.com/openai/gpt-2, src/encoder.py
template <class Take>
void each_gpt2_word(std::string_view text, Take const& take) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + contraction(text, at);
    if (end == at) {
      KindOfCharacter const first = character_at(text, at);
      std::size_t const behind = at + first.length;
      bool const joins = text[at] == ' ' && behind < text.size();  // no other blank does
      CharacterKind const kind = joins ? character_at(text, behind).kind : first.kind;
      end = kind == CharacterKind::space ? end_of_blanks(text, at)
                                         : end_of_run(text, joins ? behind : at, kind);
    }
    take(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE KindOfCharacter character_at(std::string_view text, std::size_t at) {
  std::size_t const length = utf8_length(text.substr(at, 4));
  return length == 0
             ? KindOfCharacter{}
             : KindOfCharacter{character_kind(code_point(text.substr(at, length), length)), length};
}

TANDEM_ONCE std::size_t end_of_run(std::string_view text, std::size_t at, CharacterKind kind) {
  while (at < text.size()) {
    KindOfCharacter const next = character_at(text, at);
    if (next.kind != kind) {
      break;
    }
    at += next.length;
  }
  return at;
}

TANDEM_ONCE std::size_t contraction(std::string_view text, std::size_t at) {
  std::string_view const next = text.substr(at, 3);
  if (next.size() > 1 && next[0] == '\'') {
    if (next[1] == 's' || next[1] == 't' || next[1] == 'm' || next[1] == 'd') {
      return 2;
    }
    if (next == "'re" || next == "'ve" || next == "'ll") {
      return 3;
    }
  }
  return 0;
}

TANDEM_ONCE std::size_t end_of_blanks(std::string_view text, std::size_t at) {
  std::size_t const begin = at;
  std::size_t last = at;
  while (at < text.size()) {
    KindOfCharacter const next = character_at(text, at);
    if (next.kind != CharacterKind::space) {
      return last > begin ? last : at;
    }
    last = at;
    at += next.length;
  }
  return at;
}

}  // namespace tandem::detail

#endif
