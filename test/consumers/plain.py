#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configures the tree as on a machine without the packages that only tests and benchmarks need.

    plain.py CMAKE GENERATOR SOURCE BUILD [OPTION ...]

It must configure, say in one line what is left out and which packages bring it, and know every example that needs no
package; the smallest is built and run.
"""

import pathlib
import re
import shutil
import subprocess
import sys

# What CMake is kept from finding, and what the line must then say.
MISSING = {"doctest": "doctest-dev", "benchmark": "libbenchmark-dev", "CLI11": "libcli11-dev"}


def run(*command):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def main():
    cmake, generator, source, build, *options = sys.argv[1:]
    shutil.rmtree(build, ignore_errors=True)
    hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in MISSING]
    said = run(cmake, "--no-warn-unused-cli", "-G", generator, "-S", source, "-B", build, *hidden,
               *(f"-DTANDEM_{programs}=ON" for programs in ("TESTS", "EXAMPLES", "BENCH")), "-DTANDEM_CUDA=OFF",
               "-DCMAKE_CXX_FLAGS_RELEASE=-O0", "-DTANDEM_EXAMPLES_HEADER_ONLY=ON", *options)
    lines = [line for line in said.splitlines() if "Left out" in line]
    if len(lines) != 1 or not all(package in lines[0] for package in MISSING.values()):
        sys.exit(f"one line that names {', '.join(MISSING.values())} is wanted, not {lines}:\n{said}")
    if "CMake Warning" in said:
        sys.exit(f"there is a warning:\n{said}")

    targets = run(cmake, "--build", build, "--target", "help")
    examples = sorted(path.stem for path in (pathlib.Path(source) / "examples").glob("*.cpp"))
    unknown = [name for name in examples if not re.search(rf"\b{name}\b", targets)]
    if not examples or unknown:
        sys.exit(f"no target for {unknown or 'any example'}:\n{targets}")
    run(cmake, "--build", build, "--target", "describe")
    print(lines[0])
    print(run(pathlib.Path(build) / "examples" / "describe", "small_cnn", "--top"))


if __name__ == "__main__":
    main()
