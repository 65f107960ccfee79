#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what compilers say of the doors when a program's flags are not what they must be.

    flags.py INCLUDE_FOLDER COMPILER ...

Macros of one capital letter, and others that are names in the library, do no harm, and are there again behind the
includes; and no header that the library includes defines one. Where there is no C++20, no exceptions or no RTTI, or a
header that is no door meets a macro of one letter, the one error is a sentence, in at most 12 lines.
"""

import pathlib
import re
import string
import subprocess
import sys

DOORS = ["tandem.hpp", "any_strategy.hpp", "schedules.hpp", "plan.hpp", "measure.hpp", "text.hpp", "images.hpp", "tables.hpp", "describe.hpp", "onnx.hpp"]
NAMES = [*string.ascii_uppercase, *"""
    small near far min max check verify major minor Always Status BOOL slots emit length error index abs bit round debug info
    log trace""".split()]
SENTENCES = [
    ("tandem.hpp", ["-std=c++17"], "tandem is C++20: compile with -std=c++20"),
    ("plan.hpp", ["-std=c++14"], "tandem is C++20: compile with -std=c++20"),
    ("tandem.hpp", ["-std=c++20", "-fno-exceptions"], "tandem throws exceptions: compile without -fno-exceptions"),
    ("tandem.hpp", ["-std=c++20", "-fno-rtti"], "tandem tells exceptions apart by their types: compile without -fno-rtti"),
    ("ops/check_layer.hpp", ["-std=c++20", "-DN=1024"], "a macro has the name of one capital letter"),
]


def compile_text(compiler, include, flags, text):
    command = [compiler, *flags, "-fsyntax-only", "-I", include, "-x", "c++", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False)


def faults(compiler, include):
    doors = "".join(f"#include <tandem/{door}>\n" for door in DOORS)
    text = doors + f"static_assert({'+'.join(NAMES)} == {len(NAMES)} * 7);\n"
    done = compile_text(compiler, include, ["-std=c++20", *(f"-D{name}=7" for name in NAMES)], text)
    if done.returncode != 0:
        yield f"{compiler} with macros of the library's names: {done.stderr[:2000]}"
    done = compile_text(compiler, include, ["-std=c++20", "-E", "-dD"], doors)
    defined = set(re.findall(r"^#define (\w+)", done.stdout, re.M)) & set(NAMES)
    if defined:
        yield f"{compiler}: headers define {sorted(defined)}, which core/letters_back.hpp takes away"
    for header, flags, sentence in SENTENCES:
        done = compile_text(compiler, include, flags, f"#include <tandem/{header}>\nint main() {{ return nothing; }}\n")
        errors = re.findall(r"\berror: .*", done.stderr)
        said = len(errors) == 2 and sentence in errors[0] and "see the error above" in errors[1]
        if not said or done.stderr.count("\n") > 12:
            yield f"{compiler} {' '.join(flags)}, {header}: not only '{sentence}':\n{done.stderr[:2000]}"


def main():
    include, *compilers = sys.argv[1:]
    found = [fault for compiler in compilers for fault in faults(compiler, pathlib.Path(include))]
    if found:
        sys.exit("\n".join(found))
    print(f"{len(compilers)} compilers say what is wrong with flags")


if __name__ == "__main__":
    main()
