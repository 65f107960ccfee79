#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the errors that misuses of the library give.

    compile_fail.py [--misuse-only] [--share I/N] [--jobs N] COMPILER [FLAG ...] -- SOURCE ...

Each SOURCE must compile as it is. With TANDEM_COMPILE_FAIL defined it must not, and the first error must
hold the text of its `// expect-error: ` line, so that no other error can pass for the expected one; where
the line is `// expect-only-error: `, it must be the only one. Of a misuse that the compiler finds by itself, a number
where a type stands, `// expect-beside-error: ` has what the first error or its notes must quote of the library; and
`// expect-code-error: ` is of an error that comes where code is generated.

No misuse may take more lines than LINES says: a sentence that has to be looked for is none. `// expect-lines: N` allows
N lines, with any compiler, to a source that is compiled by itself, as a user's is.
With --misuse-only the first is left out: one compiler that shows it is enough. With --share the second is that of every
N-th source, from the I-th on: several compilers take turns.

Many sources share the work: as they are they compile as one, each in a namespace of its own, and what many of them
include is precompiled. A source whose includes depend on TANDEM_COMPILE_FAIL is compiled by itself.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

UMBRELLA = "#include <tandem/tandem.hpp>"
LINES = {"g++": 30, "clang++": 60}  # g++ has twelve for the two macros around each rule of strategy's lists
MANY = 5  # sources that make a header worth precompiling


class Misuse:
    """A source, its includes and its sentence."""

    def __init__(self, path):
        self.path = pathlib.Path(path).resolve()
        text = self.path.read_text(encoding="utf-8")
        found = re.search(r"^// expect-(only-|beside-|code-)?error: (.*\S)", text, re.M)
        if not found:
            sys.exit(f"{path}: no line `// expect-error: the sentence`")
        self.expected = found[2]
        self.alone = found[1] == "only-"
        self.beside = found[1] == "beside-"
        self.mode = ["-c", "-o", os.devnull] if found[1] == "code-" else ["-fsyntax-only"]
        lines = re.search(r"^// expect-lines: (\d+)$", text, re.M)
        self.lines = lines and int(lines[1])
        self.includes = re.findall(r"^#include <.*>", text, re.M)
        first_condition = text.find("\n#if")
        self.stands_alone = "#include" in text[first_condition:] if first_condition >= 0 else False


class Compiler:
    """One compiler; what it precompiles is in a folder that lives as long as the run."""

    def __init__(self, command, folder):
        self.command, self.folder = command, pathlib.Path(folder)
        self.headers = {}  # a kind of source -> flags

    def compile(self, *arguments):
        environment = dict(os.environ, LC_ALL="C")
        command = [*self.command[:1], "-std=c++20", *self.command[1:], *map(str, arguments)]
        return subprocess.run(command, env=environment, text=True, capture_output=True, check=False)

    def precompile(self, misuses):
        """Once what many of those include that do not include everything, and once everything."""
        count = collections.Counter(line for m in misuses if UMBRELLA not in m.includes for line in m.includes)
        for kind, lines in (("common", [line for line, n in count.items() if n >= MANY]),
                            ("umbrella", [UMBRELLA] * (sum(UMBRELLA in m.includes for m in misuses) >= MANY))):
            if lines:
                header = self.folder / f"{kind}.hpp"
                header.write_text("\n".join(lines) + "\n", encoding="utf-8")
                done = self.compile("-x", "c++-header", header, "-o", f"{header}.gch")
                if done.returncode != 0:
                    sys.exit(f"{self.command[0]} does not precompile {lines}:\n{done.stderr}")
                self.headers[kind] = ["-include", header]

    def compile_misuse(self, misuse):
        """"" or what is wrong."""
        kind = "umbrella" if UMBRELLA in misuse.includes else "common"
        flags = [] if misuse.stands_alone or misuse.lines else self.headers.get(kind, [])
        bad = self.compile(*misuse.mode, *flags, "-DTANDEM_COMPILE_FAIL", misuse.path)
        if bad.returncode == 0:
            return f"{misuse.path} compiles with TANDEM_COMPILE_FAIL"
        messages = bad.stderr.replace('\\"', '"')  # clang escapes the quotes in a sentence
        errors = re.findall(r"\berror: .*", messages)
        until = r"(?:(?!\berror: )[^\n]*\n)*" if misuse.beside else ""
        first = re.search(rf"\berror: .*\n{until}", messages)
        if not errors or misuse.expected not in first[0]:
            where = "no error" if misuse.expected not in messages else "not the first error, but a later line"
            return f"{misuse.path}: {where} says: {misuse.expected}\n{bad.stderr}"
        if misuse.alone and len(errors) > 1:
            return f"{misuse.path}: there are {len(errors)} errors, not only: {misuse.expected}\n{bad.stderr}"
        lines, name = messages.count("\n"), pathlib.Path(self.command[0]).name
        most = misuse.lines or next((most for known, most in LINES.items() if re.match(rf"{re.escape(known)}(-[\d.]+)?$", name)), None)
        print(f"{misuse.path.stem}: {errors[0]} ({len(errors)} errors, {lines} lines)", flush=True)
        if most and lines > most:
            return f"{misuse.path}: {lines} lines, more than {most}:\n{bad.stderr}"
        return ""

    def compile_uses(self, misuses):
        """"" or what is wrong with the sources as they are."""
        together = [m for m in misuses if not m.stands_alone]
        apart = [m for m in misuses if m.stands_alone]
        shared = ""
        if len(together) > 1:
            includes = sorted({line for m in together for line in m.includes})
            spaces = [f'namespace n_{m.path.stem} {{\n#include "{m.path}"\n}}' for m in together]
            source = self.folder / "uses.cpp"
            source.write_text("\n".join([*includes, *spaces]) + "\n", encoding="utf-8")
            good = self.compile("-fsyntax-only", source)
            if good.returncode != 0:
                shared = f"the sources do not compile as one without TANDEM_COMPILE_FAIL:\n{good.stderr}"
        for misuse in apart + (together if shared or len(together) == 1 else []):  # to say which
            good = self.compile("-fsyntax-only", misuse.path)
            if good.returncode != 0:
                return f"{misuse.path} must compile without TANDEM_COMPILE_FAIL:\n{good.stderr}"
        return shared


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--misuse-only", action="store_true")
    parser.add_argument("--share", metavar="I/N", default="0/1")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    split = options.command.index("--")
    sources = [Misuse(path) for path in options.command[split + 1:]]
    first, step = map(int, options.share.split("/"))
    misuses = sources[first::step]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        compiler = Compiler(options.command[:split], folder)
        uses = pool.submit(lambda: "" if options.misuse_only else compiler.compile_uses(sources))
        if len(misuses) > 1:
            compiler.precompile(misuses)
        faults = [fault for fault in [*pool.map(compiler.compile_misuse, misuses), uses.result()] if fault]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(misuses)} misuses give their sentences")


if __name__ == "__main__":
    main()
