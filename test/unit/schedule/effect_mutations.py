#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks what StepEffects says of an action, one line at a time, and shows which readers' tests find it.

  effect_mutations.py [NAME ...]      with g++ on the PATH, in any folder

Prints a row a mutation: the tests that fail. Ends with 1 if a mutation is found by none, or a reader's test finds none.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADER = "tandem/schedule/table/effects.hpp"
# reader: its test
TESTS = {"verify": "schedule/verify_step_mutation", "hardware queues": "schedule/hardware_queues",
         "simulate": "schedule/simulate", "pictures": "schedule/strategy_svg", "rank": "engine/rank_effects"}
# name: (what stands there once, what is to stand there)
MUTATIONS = {
    "losses_not_awaited": ("          *next_++ = Effect{EffectKind::await, i, losses};\n", ""),
    "norm_not_begun": ("          begin(norms, i, false);\n", ""),
    "norm_not_awaited": ("          *next_++ = Effect{EffectKind::await, i, norms};\n", ""),
    "sums_not_begun_early": ("if (early && ends.last(action.stage) == i) {", "if (false) {"),
    "sums_begun_by_first_pass": ("if (early && ends.last(action.stage) == i) {", "if (early && action.index == 0) {"),
    "sums_not_begun_late": ("reduce_gradient && !early && reductions == 0) {", "end) {"),
    "average_not_begun": ("            begin(average(action.stage), i, true);\n", ""),
    "average_not_awaited": ("            *next_++ = Effect{EffectKind::await, i, average(action.stage)};\n", ""),
    "overlapped_average_not_begun": ("if (overlapped_ && is_averaged(s)) {", "if (false) {"),
    "sends_are_received": ("is_send(action.kind) ? EffectKind::send", "!is_send(action.kind) ? EffectKind::send"),
}


def fails(include, test, scratch):
    """Whether the test no longer compiles, or fails, or does not end."""
    program = scratch / "test"
    main = scratch / "main.cpp"
    main.write_text("#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN\n#include <doctest/doctest.h>\n")
    build = ["g++", "-std=c++20", "-O0", "-pthread", "-I", include, "-I", ROOT / "test", "-I", ROOT / "test/support",
             ROOT / "test/unit" / f"{test}_test.cpp", main, "-o", program]
    if subprocess.run(build, capture_output=True, check=False).returncode != 0:
        return True
    try:
        return subprocess.run([program], capture_output=True, timeout=300, check=False).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names or MUTATIONS
    text = (ROOT / "include" / HEADER).read_text()
    found = {name: [] for name in names}
    for name in names:
        old, new = MUTATIONS[name]
        if text.count(old) != 1:
            sys.exit(f"mutation {name}: '{old}' stands {text.count(old)} times in {HEADER}; write the mutation anew")
        with tempfile.TemporaryDirectory(prefix=f"tandem-{name}-") as folder:
            scratch = pathlib.Path(folder)
            shutil.copytree(ROOT / "include", scratch / "include")
            (scratch / "include" / HEADER).write_text(text.replace(old, new))
            found[name] = [reader for reader, test in TESTS.items() if fails(scratch / "include", test, scratch)]
        print(f"| `{name}` | {', '.join(found[name]) or 'none'} |", flush=True)
    blind = [reader for reader in TESTS if all(reader not in readers for readers in found.values())]
    if blind or not all(found.values()):
        sys.exit(f"found by none: {[name for name in names if not found[name]]}; find none: {blind}")


if __name__ == "__main__":
    main()
