#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes vocab.json, merges.txt and golden.txt here: a small byte-level BPE, and what others make of texts.

    pip install tokenizers regex && test/data/gpt2/make_golden.py

The pairs are learnt by the PyPI package tokenizers from a few pages of this project; the words are those of GPT-2's
pattern in the package regex, as in openai/gpt-2's encoder.py, whose merging is repeated here: tokenizers' own words are
of an older Unicode. Where they agree on the words, its numbers are compared, too.

golden.txt has a text in hexadecimal, and its tokens behind a space, a line.
"""

import json
import pathlib
import random

import regex
import tokenizers

HERE = pathlib.Path(__file__).parent
PATTERN = regex.compile(r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")

TEXTS = [
    "", " ", "  ", "   ", "a", " a", "  a", "   a", "a ", "a  ", "\n", "\n\n", " \n", "\n ", "a\nb", "a\n\nb", "a \n b", "a  \n  b",
    "\t", "\t\ta", " \ta", "\t a", "a\tb", "\u00a0", "\u00a0a", " \u00a0a", "\u00a0 a", "a\u2003b", "\u2003\u2003b", "\u3000x", "\u200bx",
    "\u0085a", "\x1c\x1da", "\x0b\x0ca", "\ufeffx",
    "it's", "it's.", "don't", "we're", "we've", "I'm", "I'll", "I'd", "IT'S", "'s", " 's", "''s", "'sa", "'re", "'r", "'x", "'", "!'s", "'ll've",
    "'s't're've'm'll'd", "a's b't", "rock 'n' roll", "\u2019s it\u2019s",
    "123", " 123", "1a", "a1", "a1b2", "3.14", "1,000", "\u00bd", "\u0663\u0664", "\u2167", "\u4e00\u4e8c", "x\u00b2", "\u2460",
    "...", " ...", "a...b", "!?!", "(a)", "[1]", "a-b", "--", "\u2014", "a\u2014b", "http://x.y/z?q=1&r=2", "<|endoftext|>", "a_b", "$1.00",
    "na\u00efve", "nai\u0308ve", "\u00c6neas", "stra\u00dfe", "\u03b1\u03b2\u03b3", "\u05d0\u05b8", "\u0627\u0644\u0639", "\u65e5\u672c\u8a9e", "\ud55c\uad6d\uc5b4", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "\U0001f642", " \U0001f642", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001d400\U0001d7d8", "\U00020000", "\U000e0041", "\x00", "a\x00b", "\x7f", "\u00ad",
    "\uffff", "\U0010ffff", "\ue000", "\u0345a", "\u24b6", "\U0001f130",
    "The quick brown fox jumps over the lazy dog.", "the the the  the\nthe", "tokentokentokentoken", "a" * 50, " " * 50, "ab" * 30, "\u00e9" * 20,
    "int main() {\n  return 0;\n}\n", "for (int i = 0; i < n; ++i) {\n\tx[i] += 1.5F;\n}\n",
]


def byte_characters():
    itself = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in itself]
    return {**{byte: chr(byte) for byte in itself}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def merged(word, ranks):
    """As bpe() of encoder.py."""
    parts = list(word)
    while len(parts) > 1:
        pair = min(zip(parts, parts[1:]), key=lambda p: ranks.get(p, float("inf")))
        if pair not in ranks:
            break
        out, i = [], 0
        while i < len(parts):
            if i + 1 < len(parts) and (parts[i], parts[i + 1]) == pair:
                out.append(parts[i] + parts[i + 1])
                i += 2
            else:
                out.append(parts[i])
                i += 1
        parts = out
    return parts


def main():
    root = HERE.parents[2]
    pages = [str(root / name) for name in ("CONTRIBUTING.md", "docs/design.md", "include/tandem/core/philox.hpp")]
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train(pages, vocab_size=700, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer.save_model(str(HERE))
    vocabulary = json.loads((HERE / "vocab.json").read_text(encoding="utf-8"))
    pairs = [tuple(line.split(" ")) for line in (HERE / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]]
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    characters = byte_characters()

    chance = random.Random(1)
    alphabet = list("  \n\t'''srtvemld12.,-!ab\u00e9\u4e2d\u0660\u00a0\u2003\u0301\U0001f642")
    texts = TEXTS + ["".join(chance.choices(alphabet, k=chance.randrange(1, 40))) for _ in range(150)]
    texts.append(pathlib.Path(pages[0]).read_text(encoding="utf-8")[:3000])
    differ = []
    with open(HERE / "golden.txt", "w", encoding="ascii") as file:
        for text in texts:
            words = PATTERN.findall(text)
            assert "".join(words) == text
            ids = [vocabulary[part] for word in words
                   for part in merged("".join(characters[byte] for byte in word.encode()), ranks)]
            differ += [text] if tokenizer.encode(text).ids != ids and text != "<|endoftext|>" else []
            print(text.encode().hex(), *ids, file=file)
    print(f"{len(texts)} texts; tokenizers {tokenizers.__version__} has other tokens for {differ}")


if __name__ == "__main__":
    main()
