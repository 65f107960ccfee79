#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tandem/tandem.hpp and all that it includes as one file.

    amalgamate.py                 write tandem/tandem.hpp beside this script
    amalgamate.py --check         exit 1 if that file is not what would be written
    amalgamate.py --forward TREE --tests TEST
                                  make TREE/tandem/**, where each header only includes the one file, and
                                  print the tests of the folder TEST that need more than it

The result depends on the headers alone: it holds no date and no path of this machine. At its end it
undefines our macros but for the version and what programs write before functions of their own. Each
header stands where it is first included; standard and foreign headers are gathered at the top,
unless they stand inside #if. The file always has its bodies, so #if TANDEM_BODIES is no such #if.
"""

import argparse
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PREAMBLE = """\
// SPDX-License-Identifier: Apache-2.0
#pragma once

// tandem in one file, written by single_include/amalgamate.py from include/tandem/. Do not edit.

"""


class AmalgamationError(Exception):
    pass


class Amalgamation:
    def __init__(self, include):
        self.include = pathlib.Path(include)
        self.body = []
        self.foreign = set()       # included outside #if: they go to the top
        self.expanded = {}         # our header -> whether it stands inside an #if
        self.macros = []

    def expand(self, name, in_condition=False):
        """Appends the header <name>, unless it is there already."""
        if name in self.expanded:
            if self.expanded[name] and not in_condition:
                raise AmalgamationError(f"<{name}> stands first inside #if and is needed outside; "
                                        "include it above that #if")
            return
        path = self.include / name
        if not path.is_file():
            raise AmalgamationError(f"<{name}> is included but does not exist")
        self.expanded[name] = in_condition
        self.body.append(f"// ---- {name}\n")
        ifs = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
            word, rest = directive.groups() if directive else ("", "")
            if word == "pragma" and rest == "once" or number == 0 and "SPDX" in line:
                continue
            if word in ("if", "ifdef", "ifndef"):
                ifs.append(rest != "TANDEM_BODIES")
            elif word == "endif":
                ifs.pop()
            elif word == "define":
                macro = re.match(r"\w+", rest)[0]
                if macro.startswith("TANDEM_") and not macro.startswith(("TANDEM_VERSION", "TANDEM_HOST_DEVICE")):
                    self.macros.append(macro)
            elif word == "include":
                spelled = re.match(r'<[^>]+>|"[^"]+"', rest)[0]
                ours = spelled[1:-1] if spelled.startswith("<tandem/") else None
                conditional = in_condition or any(ifs)
                if ours and not ours.endswith(".cuh"):
                    self.expand(ours, conditional)
                    continue
                if not ours and not conditional:
                    self.foreign.add(spelled)
                    continue
            self.body.append(line + "\n")
        self.body.append("\n")

    def text(self):
        standard = sorted(f for f in self.foreign if "." not in f and "/" not in f)
        others = sorted(self.foreign - set(standard))
        includes = "".join(f"#include {f}\n" for f in standard + others)
        undefines = "".join(f"#undef {macro}\n" for macro in sorted(set(self.macros)))
        body = re.sub(r"\n{3,}", "\n\n", "".join(self.body))
        return PREAMBLE + includes + "\n" + body + undefines


def amalgamate(include):
    result = Amalgamation(include)
    result.expand("tandem/tandem.hpp")
    return result


def write_if_changed(path, text):
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def forward(include, single, tree):
    """Writes a tree of headers that include the one file, if they are part of it; returns what the one
    file is made of."""
    amalgamation = amalgamate(include)
    inside = amalgamation.expanded
    for header in sorted((include / "tandem").rglob("*.[hc]*")):
        name = header.relative_to(include).as_posix()
        line = (f'#include "{single.as_posix()}"' if name in inside else
                f'#error "<{name}> is not part of the single header"')
        write_if_changed(tree / name, f"#pragma once\n{line}\n")
    return amalgamation


def headers_of(source, folders, seen):
    """The names of our headers that a test includes, itself or by the headers of the tests."""
    names = set()
    for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', source.read_text("utf-8"), re.M):
        if name.startswith("tandem/"):
            names.add(name)
            continue
        for path in (folder / name for folder in [source.parent, *folders]):
            if path.is_file() and path not in seen:
                seen.add(path)
                names |= headers_of(path, folders, seen)
    return names


def left_out(tests, amalgamation):
    """The tests that need a header outside of the one file, or a macro that it undefines (but those that
    ask whether it is defined)."""
    folders = [tests, tests / "support"]
    sources = []
    for source in sorted((tests / "unit").rglob("*_test.cpp")):
        text = source.read_text("utf-8")
        if (headers_of(source, folders, set()) - set(amalgamation.expanded) or
                any(macro in text and f"defined({macro})" not in text
                    for macro in amalgamation.macros)):
            sources.append(source)
    return sources


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=pathlib.Path, default=HERE.parent / "include")
    parser.add_argument("--single", type=pathlib.Path, default=HERE / "tandem" / "tandem.hpp")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--forward", type=pathlib.Path)
    parser.add_argument("--tests", type=pathlib.Path)
    options = parser.parse_args()
    try:
        if options.forward:
            amalgamation = forward(options.include, options.single, options.forward)
            sources = left_out(options.tests, amalgamation)
            print(";".join(path.as_posix() for path in sources), end="")
        elif options.check:
            old = options.single.read_text(encoding="utf-8") if options.single.is_file() else ""
            if old != amalgamate(options.include).text():
                sys.exit("single_include/tandem/tandem.hpp is stale; run single_include/amalgamate.py")
            print("single_include/tandem/tandem.hpp is up to date")
        else:
            write_if_changed(options.single, amalgamate(options.include).text())
    except AmalgamationError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
