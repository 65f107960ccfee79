#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions that the engine itself spends on an action and on a pass of a node.

    bench/engine/run.py [--compiler g++ ...] [--json FILE]

Compiles null_step.cpp, whose kernels are empty, and runs it under callgrind with two networks and two
numbers of microbatches, so that what a step costs once does not count: a microbatch more costs so many
instructions an action and so many a pass of a node, in both networks. Exits with 1 if either is more
than it may be, and with 77 without valgrind. The suite runs it: the count depends on the compiler alone,
not on the machine.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
most = {"g++": (103.5, 13.0), "clang++": (118.0, 14.0)}  # an action, a pass of a node: what it was, and no more
steps = 10


def run(command):
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stderr}")
    return done


def more(program, network, folder):
    """What more microbatches cost in instructions inside counted_steps and what it calls, and their actions and passes."""
    counts = []
    for microbatches in (8, 264):
        done = run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out",
                    "--toggle-collect=*counted_steps*", program, network, microbatches, steps])
        instructions = int(re.search(r"Collected : (\d+)", done.stderr)[1])
        counts.append([instructions, *map(int, re.match(r"(\d+) actions, (\d+) passes", done.stdout).groups())])
    return [many - few for few, many in zip(*counts)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", action="append", help="default: g++ and clang++")
    parser.add_argument("--json", type=pathlib.Path, help="write the results there too")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed; install the package valgrind")
        return 77

    results = []
    for compiler in options.compiler or ["g++", "clang++"]:
        if not shutil.which(compiler):
            print(f"{compiler} is not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            program = f"{folder}/null_step"
            # No -march=native: callgrind does not know every instruction of a new processor.
            run([compiler, "-std=c++20", "-O2", "-DNDEBUG", f"-I{root}/include",
                 root / "bench" / "engine" / "null_step.cpp", "-o", program, "-pthread"])
            small, small_actions, small_passes = more(program, "linear", folder)
            large, large_actions, large_passes = more(program, "googlenet", folder)
        # small = a * small_actions + p * small_passes, and so large, which has as many actions
        of_pass = (large - small) / (large_passes - small_passes)
        of_action = (small - of_pass * small_passes) / small_actions
        assert small_actions == large_actions
        most_of_action, most_of_pass = most["clang++" if "clang" in compiler else "g++"]
        version = run([compiler, "--version"]).stdout.splitlines()[0]
        results.append({
            "compiler": version,
            "instructions_per_action": of_action,
            "instructions_per_pass": of_pass,
            "at_most": [most_of_action, most_of_pass],
        })
        print(f"{compiler}: {of_action:.2f} instructions an action (at most {most_of_action:g}), "
              f"{of_pass:.2f} a pass of a node (at most {most_of_pass:g})")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 1 if any(result["instructions_per_action"] > result["at_most"][0] or
                    result["instructions_per_pass"] > result["at_most"][1] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
