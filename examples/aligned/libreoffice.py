#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what LibreOffice says in English and in another language to two files, a sentence or paragraph a line and its
translation on the line of the same number:

    libreoffice.py ROOT LANGUAGE TO_ENGLISH TO_OTHER

of the paragraphs of the help that have the same page and id in both (packages libreoffice-help-en-us and -de) and of the
catalogues (libreoffice-l10n-de); ROOT is '/', or where the packages were unpacked. Pairs that are there twice are written
once; left out are those without letters, and what was not translated. It is a part of examples/translation.sh.
"""

import gettext
import html.parser
import pathlib
import re
import sys


class Paragraphs(html.parser.HTMLParser):
    """The text of each <p> and <h1> to <h6> with an id."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.open = {}, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if re.fullmatch("p|h[1-6]", tag):
            self.open = dict(attrs).get("id")
            self.texts.setdefault(self.open, "")

    def handle_endtag(self, tag):
        if re.fullmatch("p|h[1-6]", tag):
            self.open = None

    def handle_data(self, data):
        if self.open is not None:
            self.texts[self.open] += data


def help_pairs(root, language):
    english, other = (root / "usr/share/libreoffice/help" / code / "text" for code in ("en-US", language))
    for page in sorted(english.rglob("*.html")):
        twin = other / page.relative_to(english)
        if twin.is_file():
            ours, theirs = (Paragraphs(p.read_text(encoding="utf-8")).texts for p in (page, twin))
            yield from ((ours[i], theirs[i]) for i in ours if i in theirs)


def catalogue_pairs(root, language):
    folder = root / "usr/lib/libreoffice/program/resource" / language / "LC_MESSAGES"
    for path in sorted(folder.glob("*.mo")):
        with path.open("rb") as file:
            entries = gettext.GNUTranslations(file)._catalog
        for key, value in entries.items():
            if isinstance(key, str) and key:  # else a plural, or the head of the file
                yield [re.sub("[~_](?=\\w)", "", text) for text in (key.rpartition("\x04")[2], value)]  # no short cuts


def main():
    root, language, *to = sys.argv[1:]
    pairs = {}  # in their order
    for found in (help_pairs, catalogue_pairs):
        for pair in found(pathlib.Path(root), language):
            ours, theirs = (" ".join(text.split()) for text in pair)
            if re.search("[^\\W\\d_]", ours) and re.search("[^\\W\\d_]", theirs) and ours != theirs:
                pairs[ours, theirs] = None
    if not pairs:
        sys.exit(f"libreoffice.py: there is nothing of LibreOffice in English and '{language}' below '{root}'")
    for side, path in enumerate(to):
        pathlib.Path(path).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    print(f"{len(pairs)} pairs in {to[0]} and {to[1]}")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: libreoffice.py ROOT LANGUAGE TO_ENGLISH TO_OTHER")
    main()
