#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every ```cpp block (or of another language) of the given Markdown files that has a main, and asks that one
which reads its arguments ends with a sentence without them: it counts them, and catches what is thrown.

documented_code.py LANGUAGE INCLUDE_FOLDER FILE... -- COMPILER [FLAG...]

All of them as one, each in a namespace of its own, since they include the same; and each alone if that fails, to say which.
Those that add to the library's own namespace cannot stand in another, and are compiled alone.
"""

import pathlib
import re
import subprocess
import sys
import tempfile


def programs_in(text, language):
    return [block for block in re.findall(rf"```{language}\n(.*?)```", text, re.S) if "int main(" in block]


def aborts_without_arguments(program):
    return "argv" in program and not ("argc >" in program and "catch (" in program)


def as_one(programs):
    """Their includes, then each in a namespace."""
    includes = sorted({line for program in programs for line in re.findall(r"^#include .*", program, re.M)})
    bodies = [re.sub(r"^#include .*", "", program, flags=re.M) for program in programs]
    spaces = [f"namespace program_{i} {{\n{body}\n}}" for i, body in enumerate(bodies)]
    return "\n".join([*includes, *spaces, ""])


def adds_to_the_library(program):
    return re.search(r"^namespace tandem\b[^=;]*\{", program, re.M)


def compiles(text, command, quiet):
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(text)
        source.flush()
        return subprocess.run([*command, source.name], capture_output=quiet, check=False).returncode == 0


def main(arguments):
    split = arguments.index("--")
    language, include, files, compiler = *arguments[:2], arguments[2:split], arguments[split + 1:]
    command = compiler + ["-fsyntax-only", "-I", include]
    found = {name: programs_in(pathlib.Path(name).read_text(encoding="utf-8"), language) for name in files}
    programs = [program for of_file in found.values() for program in of_file]
    for program in filter(aborts_without_arguments, programs):
        print(f"this program aborts without an argument; write `argc > 1 ?` and a catch:\n{program}")
        return 1
    together = [program for program in programs if not adds_to_the_library(program)]
    fine = not together or compiles(as_one(together), command, quiet=True)
    for name, of_file in found.items():
        for program in of_file:
            if not (fine and program in together) and not compiles(program, command, quiet=False):
                print(f"{name}: this program does not compile:\n{program}")
                return 1
    print(f"{len(programs)} documented programs compile")
    return 0 if programs else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
