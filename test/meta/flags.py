#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what compilers say of the doors when a program's flags are not what they must be.

    flags.py INCLUDE_FOLDER COMPILER ...

Macros of one capital letter do no harm, and are there again behind the includes. Where there is no C++20, or there are
no exceptions, or a header that is no door meets such a macro, the one error is a sentence.
"""

import pathlib
import re
import string
import subprocess
import sys

DOORS = ["tandem.hpp", "schedules.hpp", "plan.hpp", "measure.hpp", "text.hpp", "images.hpp", "tables.hpp", "describe.hpp", "onnx.hpp"]
LETTERS = [f"-D{letter}=7" for letter in string.ascii_uppercase]
SENTENCES = [
    ("tandem.hpp", ["-std=c++17"], "tandem is C++20: compile with -std=c++20"),
    ("plan.hpp", ["-std=c++14"], "tandem is C++20: compile with -std=c++20"),
    ("tandem.hpp", ["-std=c++20", "-fno-exceptions"], "tandem throws exceptions: compile without -fno-exceptions"),
    ("ops/check_layer.hpp", ["-std=c++20", "-DN=1024"], "a macro has the name of one capital letter"),
]


def compile_text(compiler, include, flags, text):
    command = [compiler, *flags, "-fsyntax-only", "-I", include, "-x", "c++", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False)


def faults(compiler, include):
    sums = "+".join(string.ascii_uppercase)
    text = "".join(f"#include <tandem/{door}>\n" for door in DOORS) + f"static_assert({sums} == 26 * 7);\n"
    done = compile_text(compiler, include, ["-std=c++20", *LETTERS], text)
    if done.returncode != 0:
        yield f"{compiler} with macros of one letter: {done.stderr[:2000]}"
    for header, flags, sentence in SENTENCES:
        done = compile_text(compiler, include, flags, f"#include <tandem/{header}>\nint main() {{ return nothing; }}\n")
        errors = re.findall(r"\berror: .*", done.stderr)
        if len(errors) != 2 or sentence not in errors[0] or "see the error above" not in errors[1]:
            yield f"{compiler} {' '.join(flags)}, {header}: not only '{sentence}':\n{done.stderr[:2000]}"


def main():
    include, *compilers = sys.argv[1:]
    found = [fault for compiler in compilers for fault in faults(compiler, pathlib.Path(include))]
    if found:
        sys.exit("\n".join(found))
    print(f"{len(compilers)} compilers say what is wrong with flags")


if __name__ == "__main__":
    main()
