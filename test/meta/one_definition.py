#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a test program defines each type once.

    one_definition.py TEST_FOLDER

Two types of one name in two files of one program are no error to a compiler or linker, which keep one's functions for both
(C++20 [basic.def.odr]): a test then fails anywhere, or hangs. A program is taken to be the sources of one folder with the
headers of that folder, of TEST_FOLDER/support and of TEST_FOLDER. Prints one line for each fault and exits 1 if there is any.
"""

import collections
import pathlib
import re
import sys

HEADERS, SOURCES = (".hpp", ".cuh"), (".cpp", ".cu")
ALONE = {"compile_fail", "consumers", "examples", "fuzz", "nvcc", "units", "two_units"}  # a file is a program there


def types_of(path):
    """(qualified name, line) of each type that a file defines at the level of a namespace, specialisations aside."""
    namespaces = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := re.match(r"(?:inline )?namespace ([\w:]*) ?\{", line):
            namespaces.append(match[1] or f"({path})")
        elif namespaces and re.match(r"\}  // .*namespace", line):
            namespaces.pop()
        elif match := re.match(r"(?:struct|class|union|enum class) (\w+)(?!\w|<|::)", line):
            if "{" in line or not line.rstrip().endswith(";"):
                yield "::".join([*namespaces, match[1]]), number


def check(root):
    """The faults of a tree of tests, one line each."""
    shared = [*root.glob("*"), *(root / "support").glob("*")]
    shared = [path for path in shared if path.suffix in HEADERS]
    folders = {path.parent for path in root.rglob("*") if path.suffix in HEADERS + SOURCES}
    folders = [folder for folder in sorted(folders) if not ALONE & set(folder.relative_to(root).parts)]
    faults = {}
    for folder in folders or [root]:
        places = collections.defaultdict(dict)
        own = [path for path in folder.iterdir() if path.suffix in HEADERS + SOURCES]
        for path in sorted({*shared, *own}):
            for name, line in types_of(path):
                places[name].setdefault(path, line)
        for name, files in places.items():
            if len(files) > 1:
                (first, at), (second, line) = list(files.items())[:2]
                faults[f"{second}:{line}: {name} is defined in {first}:{at} too: one program would have both"] = None
    return list(faults)


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else "one definition of each type")
    sys.exit(bool(found))
