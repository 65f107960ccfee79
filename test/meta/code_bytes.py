#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the bytes of code that a program compiles for itself, by what they depend on, where headers declare.

    code_bytes.py INCLUDE_FOLDER SOURCE COMPILER

SOURCE is examples/quickstart.cpp. What crept back into users' programs is seen on a busy machine, too, where seconds are not
to be trusted. Counts are those of g++ 12 for x86-64; for others the test is skipped.
"""

import collections
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

# In bytes; what is counted may be a fiftieth more, and where it is a tenth less the number here is due.
BUDGETS = {
    "nothing": 11872,
    "an element's type, a backend or a data set": 7627,
    "the network or the strategy": 0,
    "network and strategy": 2292,
}
FLAGS = ["-std=c++20", "-O2", "-DNDEBUG", "-DTANDEM_SEPARATE_COMPILATION"]
STRATEGY = r"(SingleDevice|DataParallel<|ModelParallel<|Hybrid<|Pipeline<|CrossModel)"


def depends_on(name):
    """The key of BUDGETS for a function of this demangled name."""
    strategy, network = re.search(STRATEGY, name), re.search(r"\bNet\b|LowerNetwork", name)
    if "Program<" in name or (strategy and network):
        return "network and strategy"
    if strategy or network:
        return "the network or the strategy"
    if re.search(r"tandem::[\w:~]*<", name):
        return "an element's type, a backend or a data set"
    return "nothing"


def counted(symbols):
    """Bytes by key, of lines of `nm -S --defined-only -C`."""
    found = collections.Counter(dict.fromkeys(BUDGETS, 0))
    for line in symbols.splitlines():
        words = line.split(" ", 3)
        if len(words) == 4 and words[2] in "TtWw":
            found[depends_on(words[3])] += int(words[1], 16)
    return found


def main():
    include, source, compiler = sys.argv[1:]
    version = subprocess.run([compiler, "--version"], text=True, capture_output=True, check=True).stdout
    number = subprocess.run([compiler, "-dumpversion"], text=True, capture_output=True, check=True).stdout
    if "Free Software Foundation" not in version or not number.startswith("12") or platform.machine() != "x86_64":
        print("skipped: the bytes that are known are g++ 12's for x86-64")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        code = pathlib.Path(folder) / "code.o"
        subprocess.run([compiler, *FLAGS, "-I", include, "-c", source, "-o", code], check=True)
        symbols = subprocess.run(["nm", "-S", "--defined-only", "-C", code], text=True, capture_output=True, check=True).stdout
    faults = []
    for key, bytes_ in counted(symbols).items():
        budget = BUDGETS[key]
        print(f"{bytes_:8} of {budget:8} bytes depend on {key}")
        if not 0.9 * budget <= bytes_ <= 1.02 * budget:
            faults.append(f"{bytes_} bytes depend on {key}, but {budget} are known: see what came, or write the new number")
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
