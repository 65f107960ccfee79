#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes include/tandem/data/text/gpt2/unicode.hpp from the PyPI package unicodedata2, whose version is Unicode's.

    pip install unicodedata2 && make_unicode.py > include/tandem/data/text/gpt2/unicode.hpp
    clang-format -i include/tandem/data/text/gpt2/unicode.hpp
"""

import unicodedata2

OTHER, LETTER, NUMBER, SPACE = range(4)
WHITE_SPACE = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}

HEADER = """// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Letters, numbers and blanks of Unicode {version}: what \\p{{L}}, \\p{{N}} and \\s are in GPT-2's pattern.
///
/// Made by test/data/gpt2/make_unicode.py: do not edit.

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace tandem::detail {{

enum class CharacterKind : std::uint32_t {{ other, letter, number, space }};

/// Where the kind changes: 4 * code point + the kind from there on, ascending. One for all units.
inline constexpr std::uint32_t kind_changes[] = {{{changes}}};

/// The kind of the code point @p point. Cost: some ten comparisons, two for ASCII's letters.
constexpr CharacterKind character_kind(std::uint32_t point) {{
  if ((point | 0x20U) - 'a' < 26U) {{
    return CharacterKind::letter;
  }}
  auto const* const next =
      std::upper_bound(std::begin(kind_changes), std::end(kind_changes), 4 * point + 3);
  return next == std::begin(kind_changes) ? CharacterKind::other
                                          : static_cast<CharacterKind>(*(next - 1) % 4);
}}

}}  // namespace tandem::detail
"""


def kind(point):
    category = unicodedata2.category(chr(point))[0]
    return SPACE if point in WHITE_SPACE else {"L": LETTER, "N": NUMBER}.get(category, OTHER)


def main():
    changes = []
    last = OTHER
    for point in range(0x110000):
        if kind(point) != last:
            last = kind(point)
            changes.append(4 * point + last)
    print(HEADER.format(version=unicodedata2.unidata_version, changes=", ".join(map(str, changes))), end="")


if __name__ == "__main__":
    main()
