#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each rule of a list of strategy/ has a program in test/compile_fail that says its sentence.

    rules.py HEADER COMPILE_FAIL_FOLDER

HEADER is strategy/rules.hpp or strategy/argument_rules.hpp. A program says a rule's sentence if the text of its
`expect-error:` line is in that one and in no other.
"""

import pathlib
import re
import sys


def main():
    text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    listed = re.search(r"#define TANDEM_\w+_RULES\(RULE\)((?:.*\\\n)+.*)", text)[1].replace("\\\n", "\n")
    sentences = {}
    for rule in re.split(r"\bRULE\(", listed)[1:]:
        name = re.match(r"\w+", rule)[0]
        sentences[name] = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', rule)).replace('\\"', '"')
    said = set()
    for program in sorted(pathlib.Path(sys.argv[2]).glob("*.cpp")):
        expected = re.search(r"^// expect-(?:only-)?error: (.*\S)", program.read_text(encoding="utf-8"), re.M)
        holders = [name for name, sentence in sentences.items() if expected and expected[1] in sentence]
        said.update(holders if len(holders) == 1 else [])
    silent = [name for name in sentences if name not in said]
    if silent or not sentences:
        sys.exit(f"no program in {sys.argv[2]} says the sentence of: {', '.join(silent) or 'any rule'}")
    print(f"{len(sentences)} rules have a program each")


if __name__ == "__main__":
    main()
