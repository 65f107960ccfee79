#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes as few sources as show that every header compiles alone, and twice.

    header_chains.py [--changed] FOLDER INCLUDE HEADER ...

INCLUDE is the folder of the tree; headers are named as they are included. With --changed only those sources are printed that
have a header which has changed since the last tag, or since the day before the last commit if there is no tag. If B includes A, perhaps by others, then
"#include A", "#include B" shows of A that it compiles alone and of B as much as "#include B" would, since what A brings is
B's by right. So a source holds a chain of headers, each of which includes the one before. Prints the paths of the
sources, a third as many as headers, and rewrites only those that change.
"""

import pathlib
import re
import subprocess
import sys


def included(headers, include):
    """For each header those of the others that it includes, itself or by others, bodies aside."""
    direct = {}
    for header in headers:
        text = (include / header).read_text(encoding="utf-8").split("\n#if TANDEM_BODIES\n")[0]
        direct[header] = {name for name in re.findall(r"^\s*#\s*include <([^>]+)>", text, re.M)} & set(headers)
    closed = {}

    def close(header):
        if header not in closed:
            closed[header] = set()  # ends a circle, too
            closed[header] = set().union(direct[header], *map(close, direct[header]))
        return closed[header]

    for header in headers:
        close(header)
    return closed


def chains(closed):
    """Lists of headers from below, the fewest that hold all: a matching of each with one that includes it.

    Those that bring most are matched first, since what remains unmatched is what a compiler reads.
    """
    above = {header: sorted(h for h in closed if header in closed[h]) for header in closed}
    before, after = {}, {}

    def match(header, tried):
        for upper in above[header]:
            if upper not in tried:
                tried.add(upper)
                if upper not in before or match(before[upper], tried):
                    before[upper], after[header] = header, upper
                    return True
        return False

    for header in sorted(closed, key=lambda h: (-len(closed[h]), h)):
        match(header, set())
    for header in sorted(closed):
        if header not in after:  # the top of a chain
            chain = [header]
            while chain[0] in before:
                chain.insert(0, before[chain[0]])
            yield chain


def changed(include):
    """The headers that have changed lately, or None if git cannot tell."""
    def git(*words):
        run = subprocess.run(["git", "-C", include, *words], capture_output=True, text=True)
        return run.stdout.strip() if run.returncode == 0 else ""

    day_before = int(git("log", "-1", "--format=%ct") or 0) - 24 * 60 * 60
    base = git("describe", "--tags", "--abbrev=0") or git("rev-list", "-1", f"--before={day_before}", "HEAD")
    return set(git("diff", "--name-only", "--relative", base).split()) if base else None


def main():
    only_changed = sys.argv[1] == "--changed"
    folder, include, *headers = sys.argv[1 + only_changed:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    new = changed(include) if only_changed else None
    found = list(chains(included(headers, pathlib.Path(include))))
    if new is not None:
        found = [chain for chain in found if not new.isdisjoint(chain)] or found[:1]  # a library needs a source
    for chain in found:
        path = folder / (chain[-1].replace("/", "_") + ".cpp")
        text = "".join(f"#include <{header}>\n" for header in chain * 2)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
