#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that units of a program with TANDEM_SEPARATE_COMPILATION link only if they were compiled with the same choices.

    bodies.py INCLUDE_FOLDER COMPILER

The linker's message names the choice. A unit of bodies that is compiled in a wrong way gets one sentence.
"""

import pathlib
import platform
import subprocess
import sys
import tempfile

CHOICES = [("-DNDEBUG", "without_assertions"), ("-DTANDEM_ONEDNN=1", "with_onednn"), ("-DTANDEM_ZLIB=1", "with_zlib"),
           ("-DTANDEM_IMAGES=1", "with_images")]
if platform.machine() == "x86_64":
    CHOICES.append(("-mavx512f", "for_avx512"))
HEADER = "#include <tandem/core/crc32c.hpp>\n"
CALL = HEADER + "int main() { return static_cast<int>(tandem::crc32c({}) & 1); }\n"
SENTENCES = [
    ([], "#include <tandem/impl/src.hpp>\n", "TANDEM_SEPARATE_COMPILATION must be defined for every file of the program"),
    (["-DTANDEM_SEPARATE_COMPILATION"], HEADER + "#include <tandem/impl/src.hpp>\n", "before every other header of tandem"),
    (["-DTANDEM_SEPARATE_COMPILATION", "-DTANDEM_IMPL_PART=5"], "#include <tandem/impl/src.hpp>\n", "TANDEM_IMPL_PART is 1, 2, 3 or 4"),
]


def faults(include, compiler, folder):
    def run(*arguments, text=""):
        command = [compiler, "-std=c++20", "-I", include, *arguments]
        return subprocess.run(command, input=text, text=True, capture_output=True, check=False)

    def compiled(name, text, *flags):
        done = run("-DTANDEM_SEPARATE_COMPILATION", *flags, "-x", "c++", "-c", "-", "-o", folder / name, text=text)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return folder / name

    bodies = compiled("bodies.o", HEADER, "-DTANDEM_IMPL_SRC")
    calls = compiled("calls.o", CALL)
    if "crc32c" in subprocess.run(["nm", "--defined-only", calls], text=True, capture_output=True, check=True).stdout:
        yield "the caller's object has the body of crc32c()"
    done = run(calls, bodies, "-o", folder / "program")
    if done.returncode != 0 or subprocess.run([folder / "program"], check=False).returncode != 0:
        yield f"units of the same choices do not make a program: {done.stderr}"
    for flag, name in CHOICES:
        done = run(compiled("other.o", CALL, flag), bodies, "-o", folder / "program")
        if done.returncode == 0 or name not in done.stderr:
            yield f"bodies without {flag}, a caller with it: the linker does not say {name}: {done.stderr}"
    for flags, text, sentence in SENTENCES:
        done = run(*flags, "-fsyntax-only", "-x", "c++", "-", text=text)
        if done.returncode == 0 or sentence not in done.stderr or done.stderr.count("error: ") != 2:
            yield f"not only '{sentence}': {done.stderr[:2000]}"


def main():
    include, compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        found = list(faults(include, compiler, pathlib.Path(folder)))
    if found:
        sys.exit("\n".join(found))
    print(f"units of {len(CHOICES)} other choices do not link")


if __name__ == "__main__":
    main()
