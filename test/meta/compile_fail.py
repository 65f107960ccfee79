#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the error that a misuse of the library gives.

    compile_fail.py [--misuse-only] SOURCE COMPILER [FLAG ...]

SOURCE must compile as it is. With TANDEM_COMPILE_FAIL defined it must not, and the first error must
hold the text of its `// expect-error: ` line, so that no other error can pass for the expected one.
With --misuse-only the first is left out: one compiler that shows it is enough.
"""

import os
import re
import subprocess
import sys


def compile_with(compiler, flags, source):
    command = [compiler, "-std=c++20", "-fsyntax-only", *flags, source]
    environment = dict(os.environ, LC_ALL="C")
    return subprocess.run(command, env=environment, text=True, capture_output=True)


def main():
    misuse_only = sys.argv[1] == "--misuse-only"
    source, compiler, *flags = sys.argv[1 + misuse_only :]
    expected = re.search(r"^// expect-error: (.*\S)", open(source, encoding="utf-8").read(), re.M)
    if not expected:
        sys.exit(f"{source}: no line `// expect-error: the sentence`")

    if not misuse_only:
        good = compile_with(compiler, flags, source)
        if good.returncode != 0:
            sys.exit(f"{source} must compile without TANDEM_COMPILE_FAIL:\n{good.stderr}")

    bad = compile_with(compiler, flags + ["-DTANDEM_COMPILE_FAIL"], source)
    if bad.returncode == 0:
        sys.exit(f"{source} compiles with TANDEM_COMPILE_FAIL")
    messages = bad.stderr.replace('\\"', '"')  # clang escapes the quotes in a sentence
    errors = re.findall(r"\berror: .*", messages)
    if not errors or expected[1] not in errors[0]:
        where = "no error" if expected[1] not in messages else "not the first error, but a later line"
        sys.exit(f"{where} says: {expected[1]}\n{bad.stderr}")
    print(f"{errors[0]}\n({len(errors)} errors)")


if __name__ == "__main__":
    main()
