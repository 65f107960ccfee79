#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an example and compares what it prints.

    check_output.py EXPECTED PROGRAM [ARGUMENT ...]

Each line of the file EXPECTED is a regular expression that must match a whole line of the output, in
this order; other lines may stand between. The arguments are in the file of the same name that ends in
.args, if there is one; @FASHION_MNIST@ in it stands for the folder that the environment variable
FASHION_MNIST names, @ROOT@ for that above the file's. Exits 77, which ctest shows as skipped, if the
folder of Fashion-MNIST is not there.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys

SKIP = 77


def first_unmatched(patterns, lines):
    """The first of the patterns that no line matches after those of the patterns before; or None."""
    lines = iter(lines)
    for pattern in patterns:
        if not any(re.fullmatch(pattern, line) for line in lines):
            return pattern
    return None


def arguments(expected):
    path = expected.with_suffix(".args")
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    if "@FASHION_MNIST@" in text:
        folder = os.environ.get("FASHION_MNIST", "")
        if not os.path.isdir(folder):
            print(f"skipped: there is no folder '{folder}'; install dataset-fashion-mnist")
            sys.exit(SKIP)
        text = text.replace("@FASHION_MNIST@", shlex.quote(folder))
    text = text.replace("@ROOT@", shlex.quote(str(expected.resolve().parent.parent)))
    return shlex.split(text, comments=True)


def main():
    expected, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    if not expected.is_file():
        sys.exit(f"write what the example prints, as regular expressions, to {expected.name}")
    patterns = [p for p in expected.read_text(encoding="utf-8").splitlines() if p.strip()]
    run = subprocess.run(command + arguments(expected), text=True, stdout=subprocess.PIPE)
    print(run.stdout, flush=True)
    if run.returncode != 0:
        sys.exit(f"exit status {run.returncode}")
    unmatched = first_unmatched(patterns, run.stdout.splitlines())
    if unmatched is not None:
        sys.exit(f"no line (after those matched before) matches: {unmatched}")


if __name__ == "__main__":
    main()
