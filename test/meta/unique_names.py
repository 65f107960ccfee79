#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that two headers do not define one name.

    unique_names.py INCLUDE_FOLDER

Headers that no program includes together today may define a class, a concept, a constant or an alias of one name in one
namespace, tandem::detail mostly, and no compiler says a word; the first program that includes both does not compile, and
two units that include one each break C++20 [basic.def.odr]. Functions may be overloads: they are compared with what they
take. Specialisations and declarations do not count. Prints a line for each fault and exits 1 if there is any.
"""

import collections
import re
import sys

from layers import headers_of, without_comments

TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|\[\[|\]\]|\d[\w.']*|\S")
TYPES = {"struct", "class", "union", "enum"}
NO_NAMES = {"requires", "decltype", "noexcept", "alignas", "explicit", "operator", "if", "sizeof", "defined", "assert"}
SPECIFIERS = {"inline", "constexpr", "static", "noexcept", "[[", "nodiscard", "noreturn", "]]"}


def tokens_of(text):
    """(token, line) of a header, without comments, strings and directives."""
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), without_comments(text), flags=re.M)
    return [(m[0], text.count("\n", 0, m.start()) + 1) for m in TOKEN.finditer(text)]


def end_of_braces(tokens, at):
    """Behind the `}` that closes the `{` at `at`."""
    depth = 0
    while at < len(tokens):
        depth += {"{": 1, "}": -1}.get(tokens[at][0], 0)
        at += 1
        if depth == 0:
            break
    return at


def depths(words):
    """Of each token, how many template brackets and parentheses it stands in; a `<` between parentheses compares."""
    angles = rounds = 0
    for i, word in enumerate(words):
        rounds -= word in (")", "]", "]]")
        angles -= word == ">" and rounds == 0 and angles > 0
        yield angles + rounds
        rounds += word in ("(", "[", "[[")
        angles += word == "<" and rounds == 0 and i > 0 and words[i - 1] != "operator"


def unnamed(words):
    """The list of what a function takes, without names and values."""
    kept, depth = [], list(depths(words))
    for i, word in enumerate(words):
        ends = i + 1 < len(words) and (words[i + 1] in (",", "=") and depth[i + 1] == 1 or i + 2 == len(words))
        alone = words[i - 1] in ("(", ",", "const", "::", "typename")
        if depth[i] == 1 and "=" in words[max([k for k in range(i) if words[k] in ",(" and depth[k] <= 1], default=0):i + 1]:
            continue
        if not (ends and depth[i] == 1 and re.match(r"[A-Za-z_]", word) and not alone):
            kept.append(word)
    return kept


def defined(words, ended_by):
    """What a declaration defines, up to its `{` or `;`: (name, what a function takes) or None."""
    depth = list(depths(words))
    plain = [i for i in range(len(words)) if depth[i] == 0]
    outside = {words[i] for i in plain}
    after = next((i for i in plain if words[i] == "="), len(words))
    for i in plain:
        if words[i] == "concept" or (words[i] == "using" and after < len(words)):
            return words[i + 1], ""
        if words[i] in ("using", "friend", "extern", "operator", "static_assert", "namespace"):
            return None
        if words[i] in TYPES and i < after:
            rest = [k for k in plain if k > i and re.match(r"[A-Za-z_]", words[k]) and words[k] not in TYPES | {"alignas"}]
            special = rest and rest[0] + 1 < len(words) and words[rest[0] + 1] in ("<", "::")
            return None if ended_by != "{" or not rest or special else (words[rest[0]], "")
        if words[i] == "(" and i < after and i > 0 and re.match(r"[A-Za-z_]", words[i - 1]) and words[i - 1] not in NO_NAMES:
            close = next((k for k in range(i + 1, len(words)) if words[k] == ")" and depth[k] == 0), len(words))
            member = i > 1 and words[i - 2] == "::"
            head = [word for word in words[:i - 1] if word not in SPECIFIERS] if words[0] == "template" else []
            return None if ended_by != "{" or member else (words[i - 1], " ".join(head + unnamed(words[i:close + 1])))
    if {"constexpr", "inline", "const"} & outside and (after < len(words) or ended_by == "{"):
        at = after - 1
        while at > 0 and (depth[at] > 0 or words[at] in ("[", "]")):
            at -= 1
        return (words[at], "") if re.match(r"[A-Za-z_]", words[at]) else None  # else a specialisation
    return None


def definitions(text):
    """(qualified name, what it takes, line) of what a header defines at the level of namespaces."""
    tokens, spaces, at = tokens_of(text), [], 0
    while at < len(tokens):
        begin = at
        while at < len(tokens) and tokens[at][0] not in "{};":
            at += 1
        if at == len(tokens):
            break
        words, mark, line = [word for word, _ in tokens[begin:at]], tokens[at][0], tokens[begin if begin < at else at][1]
        if mark == "{" and "namespace" in words:
            spaces.append("".join(words[words.index("namespace") + 1:]))
            at += 1
        elif mark == "}" and not words:
            spaces = spaces[:-1]
            at += 1
        else:
            found = defined(words, mark) if words else None
            if found:
                yield "::".join([*spaces, found[0]]), found[1], line
            at = end_of_braces(tokens, at) if mark == "{" else at + 1


def check(include):
    """The faults of a tree of headers, one line each."""
    places, count = collections.defaultdict(dict), 0
    for header in headers_of(include):
        for name, takes, line in definitions(header.read_text(encoding="utf-8")):
            places[name].setdefault(takes, {}).setdefault(header, line)
            count += 1
    faults = []
    for name, kinds in sorted(places.items()):
        both = [files for takes, files in kinds.items() if len(files) > 1]
        if len(kinds) > 1 and "" in kinds:  # a type or a constant, and something else
            others = {header: line for files in kinds.values() for header, line in files.items()}
            both += [others] if len(others) > 1 else []
        for files in both[:1]:
            (first, at), (second, line) = list(files.items())[:2]
            faults.append(f"{second}:{line}: {name} is defined in {first}:{at}, too")
    return count, faults


if __name__ == "__main__":
    number, found = check(sys.argv[1])
    print("\n".join([*found, f"{number} definitions, {len(found)} faults"]))
    sys.exit(1 if found or number == 0 else 0)
