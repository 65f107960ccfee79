#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/golden/bleu.txt with sacrebleu, or checks that it is up to date.

    python3 bleu.py [check]

The committed file was written by sacrebleu 2.6.0 of PyPI. Its lines are

    tokens "TEXT" "TOKENS OF 13a"
    corpus SENTENCES REFERENCES score bp counts[4] totals[4] precisions[4] hypothesis_length reference_length

behind a corpus line first the hypotheses, one a line, then each set of references. Texts stand in double quotes,
their bytes but printable ASCII as \\xHH, as are quotes and backslashes.
"""

import pathlib
import random
import sys

import sacrebleu
from sacrebleu.metrics import BLEU

PATH = pathlib.Path(__file__).parents[1] / "data" / "golden" / "bleu.txt"

HYPOTHESES = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
REFERENCES = [["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
              ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."]]

# hypotheses, sets of references: sacrebleu's own tests, then what they leave out
CORPORA = [
    (HYPOTHESES, REFERENCES),
    (HYPOTHESES, REFERENCES[:1]),
    (["", "", ""], REFERENCES),
    (["am I am a character sequence"], [["I am a symbol string sequence a a"]]),
    (["test"], [["a test"]]),
    (["a test"], [["a test"]]),
    (["a little test"], [["a test"]]),
    (["this is a test"], [["this is a test"]]),
    (["this is a fest"], [["this is a test"]]),
    (["this is a test", "another test"], [["ref1", "ref2"]]),
    (["Niemand hat die Absicht, eine Mauer zu errichten"], [["Niemand hat die Absicht, eine Mauer zu errichten!"]]),
    (["Producția de zahăr primă va fi exprimată în ceea ce privește zahărul alb;"],
     [["Producția de zahăr brut se exprimă în zahăr alb;"]]),
    (["Il est parti."], [[""]]),
    (["", "x y z w v"], [["a b c d", "x y z w"]]),
    (["the the the the the the the"], [["the cat is on the mat"], ["there is a cat on the mat"]]),
    (["a b c d e f g h"], [["a b c d e f g h i j k l m"]]),
    (["a b c d e f g h"], [["a b c d"], ["a b c d e f g h i j k l"]]),  # as near: the shorter
]

STRINGS = [
    "", " ", "simple words", "Hello, world!", "He said: \"No.\" (twice)", "U.S. and e.g. this...", "1,000.50 or 3.14, 2.",
    "a.b,c 1.a a.1 .5 5. ,5 5, .. ,, ., 1..2 1,,2", "pre-war 1914-18 -5 5- 5--6 a-5", "don't 'quote' `tick`", "50% @home #1 $5 £5 €5",
    "&quot;x&quot; &amp; &lt;b&gt; &amp;lt; &apos; &", "a<skipped>b <skip ped>", "line-\nbreak", "line\nbreak-", "end-\n", "tail  \t\n",
    "\u00a0no\u00a0break\u2003wide\u3000end\u2028.\u00a0", "\u200bzero\u200bwidth", "caf\u00e9. na\u00efve, \u00bfqu\u00e9? \u00a1s\u00ed!",
    "\u4f60\u597d\u3002\u4e16\u754c.\u0663.5 \u0663", "\U0001f642.\U0001f642,\U0001f642", "\u201cquotes\u201d \u2013 dash \u2026", "a\x1cb\x85c\x0bd\x7fe",
    "http://x.y/z?a=1&b=2.0", "[x]{y}^_|~\\", "x.\u00e9 \u00e9.1 1.\u00e9 \u00e9,\u00e9", "\u1680a\u202fb\u205fc\u180ed\ufeffe",
]


def quoted(text):
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02X}" for b in text.encode()) + '"'


def random_corpora():
    rng = random.Random(5)
    words = ["the", "of", "a", "x", "1", "2.5", "3,", "U.S.", "-", "4-", "(b)", "d'Or", "&amp;", "\u00e9.", "\u00a0", "\u3000", "...", "\"", "%5"]
    for sentences, sets, length in [(1, 1, 4), (3, 1, 9), (8, 2, 12), (20, 1, 25), (12, 3, 6), (30, 1, 3)]:
        def text():
            return "".join(rng.choice(words) + rng.choice([" ", " ", "", "\t"]) for _ in range(rng.randrange(length + 1)))
        references = [[text() for _ in range(sentences)] for _ in range(sets)]
        # Half of the words of the first references, in their order, so that there are n-grams in common.
        hypotheses = [" ".join(w if rng.random() < 0.85 else rng.choice(words) for w in r.split(" ")) for r in references[0]]
        yield hypotheses, references


def random_strings():
    rng = random.Random(7)
    characters = "a1.,-'\"&;<> \n\u00e9\u00a0\u0663~{(/@`"
    return ["".join(rng.choice(characters) for _ in range(rng.randrange(1, 40))) for _ in range(80)]


def lines():
    assert sacrebleu.__version__ == "2.6.0", sacrebleu.__version__
    tokenizer = BLEU().tokenizer
    for text in STRINGS + random_strings():
        yield f"tokens {quoted(text)} {quoted(tokenizer(text.rstrip()))}"
    for hypotheses, references in [*CORPORA, *random_corpora()]:
        b = sacrebleu.corpus_bleu(hypotheses, references)
        numbers = [repr(b.score), repr(float(b.bp)), *b.counts, *b.totals, *map(repr, b.precisions), b.sys_len, b.ref_len]
        yield " ".join(map(str, ["corpus", len(hypotheses), len(references), *numbers]))
        for each in [hypotheses, *references]:
            yield from map(quoted, each)


def main():
    text = "\n".join(lines()) + "\n"
    if sys.argv[1:] == ["check"]:
        sys.exit(0 if PATH.read_text() == text else f"{PATH} is not up to date")
    PATH.write_text(text)


if __name__ == "__main__":
    main()
