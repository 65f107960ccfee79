#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions that the engine itself spends on an action.

    bench/engine/run.py [--compiler g++ ...] [--json FILE]

Compiles null_step.cpp, whose kernels are empty, runs it under callgrind with two numbers of
microbatches, and divides the difference of instructions by that of actions, so that what a step costs
once does not count. Exits with 1 if it is more than 20, and with 77 without valgrind. The suite runs
it: the count depends on the compiler alone, not on the machine.
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
most = 20.0
steps = 10


def run(command):
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stderr}")
    return done


def count(program, microbatches, folder):
    """Instructions inside counted_steps and what it calls, and the actions that it ran."""
    done = run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out",
                "--toggle-collect=*counted_steps*", program, microbatches, steps])
    instructions = int(re.search(r"Collected : (\d+)", done.stderr)[1])
    actions = int(re.match(r"(\d+) actions", done.stdout)[1])
    return instructions, actions


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
            few, few_actions = count(program, 8, folder)
            many, many_actions = count(program, 264, folder)
        each = (many - few) / (many_actions - few_actions)
        version = run([compiler, "--version"]).stdout.splitlines()[0]
        results.append({
            "compiler": version,
            "instructions_per_action": each,
            "instructions": [few, many],
            "actions": [few_actions, many_actions],
            "at_most": most,
        })
        print(f"{compiler}: {each:.2f} instructions an action (at most {most:.0f}): "
              f"({many} - {few}) / ({many_actions} - {few_actions})")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 1 if any(result["instructions_per_action"] > most for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
