#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains random networks under random strategies and on one device, and compares the numbers.

  run.py [--seconds 180] [--seed TEXT] [--jobs 2] [--programs N] [--include FOLDER] [--scratch FOLDER]
         [--no-cases] [--keep] [--backends double,float,onednn,bf16] [--sanitize-every 8] [--tokens 0.4] [--processes]
  run.py --self-test          of the generator, without a compiler
  run.py --only N --seed TEXT the N-th program of a seed
  run.py --having in_rows     of a seed's programs those strategies alone that have this option, or all of several

A pair is a network and a strategy: its type, the table of actions, batches and options; pairs with equal text count
once. The seed is today's date unless given. What fails is shrunk, printed as a program of its own, and with --keep
written to cases/.
"""
import argparse
import collections
import concurrent.futures
import datetime
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import build
import networks
import program as programs
import self_test
import sequences
import shrink
import strategies

CASES = pathlib.Path(__file__).resolve().parent / "cases"


class Coverage:
    """What was met: kinds of layers, forms of strategies, schedules, options, backends."""

    def __init__(self):
        self.count = collections.Counter()

    def add(self, program, agreed):
        self.count.update({("layer", kind): 1 for kind in networks.kinds_in(program["network"]["body"])})
        self.count[("backend", program["backend"])] += agreed
        self.count[("strategies as", "values" if program["values"] else "types")] += agreed
        for pair in program["pairs"]:
            s = program["strategies"][pair["strategy"]]
            met = [("strategy", s["form"]), ("strategy", s.get("schedule") or s["form"])]
            met += [("option", key) for key in ("weights", "checkpoint", "buckets", "sharded", "sharded_gradients", "sharded_parameters",
                                              "by_world", "slices", "in_rows", "pieces", "tiles", "ahead") if s.get(key)]
            met += [("option", "leaves")] if s["leaves"] is not None else []
            met += [("option", "hybrid")] if s["replicas"] and s["form"] != "data" else []
            met += [("option", "rows")] if pair["rows"] else []
            met += [("option", key) for key in ("groups", "average") if pair["settings"][key]]
            met += [("option", "saved")] if pair["saved"] else []
            met += [("processes", str(count)) for count in build.PROCESSES
                    if program["processes"] and strategies.ranks_of(s) % count == 0]
            met += [("processes", "alone")] if pair.get("alone") else []
            met += [("strategies as", "both")] if pair.get("twin") else []
            self.count.update(set(met))

    def missing(self):
        wanted = {("layer", kind) for kind in networks.LAYERS + sequences.LAYERS + networks.COMPOSITES + networks.NAMES}
        wanted |= {("strategy", form) for form in programs.FORMS + strategies.SYNCHRONOUS}
        wanted |= {("option", key) for key in ("weights", "checkpoint", "buckets", "sharded", "sharded_gradients", "sharded_parameters",
                                               "by_world", "leaves", "hybrid", "rows", "saved", "ahead")}
        return sorted(wanted - set(self.count))

    def text(self):
        kinds = collections.defaultdict(list)
        for (kind, name), count in sorted(self.count.items()):
            kinds[kind].append(f"{name} {count}")
        return "\n".join(f"  {kind}: {', '.join(names)}" for kind, names in sorted(kinds.items()))


class Fuzzer:
    """Runs programs one after another in some threads, until time is up."""

    def __init__(self, options):
        self.options = options
        self.scratch = options.scratch or tempfile.mkdtemp(prefix="tandem-fuzz-")
        self.builder = build.Builder(self.scratch, options.include, options.compiler, options.kernels,
                                     options.emulator, options.cuda, options.mpi and options.mpi.split(","))
        self.backends = [name for name in options.backends.split(",") if self.builder.has(name)]
        self.backends += ["emulated"] if options.emulator else []
        self.lock = threading.Lock()
        self.pairs = self.refused = self.programs = 0
        self.failures = []
        self.coverage = Coverage()
        self.ends = time.monotonic() + options.seconds

    def backend_of(self, i):
        """Double mostly, since there rounding hides least."""
        return self.backends[0] if i % 5 < 3 else self.backends[i % len(self.backends)]

    def sanitizers_of(self, i):
        """Of every so many programs, in turns."""
        kinds, every = self.options.sanitizers.split("+"), self.options.sanitize_every
        every = 0 if self.options.processes else every  # MPI itself is not clean
        return kinds[i // every % len(kinds)] if every > 0 and i % every == every - 1 else ""

    def is_of_types(self, i):
        """One of every so many programs, in another place each time."""
        every = self.options.types_every
        return every > 0 and i % every == random.Random(f"{self.options.seed} types {i // every}").randrange(every)

    def is_over(self):
        return bool(self.failures) or time.monotonic() > self.ends

    def draw(self, i):
        """The i-th program, its backend and sanitizers; None where it has nothing of what is asked for."""
        sanitize = self.sanitizers_of(i)
        backend = "double" if sanitize else self.backend_of(i)
        program = programs.random_program(f"{self.options.seed}-{i}", backend, self.options.pairs,
                                          tokens=self.options.tokens, processes=self.options.processes,
                                          values=not self.is_of_types(i))
        program = programs.having(program, self.options.having.split(",")) if self.options.having else program
        return (program, backend, sanitize) if program["pairs"] else None

    def one(self, i):
        drawn = self.draw(i)
        if drawn is None:
            return
        program, backend, sanitize = drawn
        result = build.attempt(self.builder, program, f"program-{i}", sanitize)
        with self.lock:
            self.programs += 1
            self.pairs += result.agreed + len(result.failures)
            self.refused += result.refused
            self.coverage.add(program, result.agreed)
            form = "values" if program["values"] else "types"
            print(f"program {i}: {', '.join(filter(None, (backend, form, sanitize)))}, {result.agreed} pairs agree",
                  flush=True)
            self.failures += [(i, program, sanitize, number, why) for number, why in result.failures[:1]]

    def run(self):
        only = self.options.only
        numbers = iter([only] if only is not None else range(self.options.programs))
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for worker in [pool.submit(self.some, numbers) for _ in range(self.options.jobs)]:
                worker.result()

    def some(self, numbers):
        while not self.is_over():
            with self.lock:
                i = next(numbers, None)
            if i is None:
                return
            self.one(i)

    def report_failure(self):
        i, program, sanitize, number, why = self.failures[0]
        print(f"seed {self.options.seed}, program {i}, pair {number}: {why}", flush=True)
        if "does not compile" in why:
            print(programs.to_cpp(program))
            return
        def attempt(candidate, name):
            return build.attempt(self.builder, candidate, name, sanitize)
        smallest, reason = shrink.shrink(program, number, why, attempt, self.options.shrink_seconds, self.options.jobs)
        if smallest is None:
            print(f"{reason}: run.py --seed {self.options.seed} --only {i}")
            return
        name = "case_" + "".join(c if c.isalnum() else "_" for c in f"{self.options.seed}_{i}")
        reasons = textwrap.wrap(reason.splitlines()[0], 90)
        command = self.builder.command(program["backend"], name, self.options.processes)
        text = programs.to_cpp(smallest, name, reasons + [""] + command)
        print(text, flush=True)
        if self.options.keep:
            CASES.mkdir(exist_ok=True)
            (CASES / f"{name}.cpp").write_text(text)
            if shutil.which("clang-format"):
                subprocess.run(["clang-format", "-i", CASES / f"{name}.cpp"], check=True)

    def run_cases(self):
        """All kept cases as one program; whether they agree."""
        cases = [case for case in sorted(CASES.glob("*.cpp"))
                 if ("OverMpi<" in case.read_text()) == self.options.processes]
        if self.options.processes:
            return all([self.run_case_over_processes(case) for case in cases])
        if not cases:
            return True
        text = "#define TANDEM_FUZZ_CASES\n" + "".join(f'#include "{case}"\n' for case in cases)
        text += "int main() {\n  int failed = 0;\n  char* none[] = {nullptr};\n"
        text += "".join(f"  failed += tandem::fuzz::{case.stem}::run(1, none);\n" for case in cases)
        text += "  return failed == 0 ? 0 : 1;\n}\n"
        binary, errors = self.builder.compile(text, "double", "", "cases")
        status, output = self.builder.run(binary) if binary else (1, errors)
        print(f"{len(cases)} kept cases: " + ("agree" if status == 0 else output), flush=True)
        return status == 0


    def run_case_over_processes(self, case):
        binary, errors = self.builder.compile(case.read_text(), "double", "", "case", processes=True)
        result = build.over_processes(self.builder, binary, build.PROCESSES) if binary else None
        failures = result.failures if result else [errors]
        print(f"kept case {case.stem}: " + (f"{failures}" if failures else "agrees"), flush=True)
        return not failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", default=datetime.date.today().isoformat())
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--programs", type=int, default=1_000_000, help="stop behind so many")
    parser.add_argument("--pairs", type=int, default=40, help="of a strategy, at most")
    parser.add_argument("--tokens", type=float, default=0.4, help="share of networks that read tokens")
    parser.add_argument("--types-every", type=int, default=4, help="one of so many programs has strategies as types; 0: none, 1: all")
    parser.add_argument("--only", type=int)
    parser.add_argument("--having", metavar="OPTION,…", help="such as slices, in_rows, pieces, tiles, sharded, masks, smoothing")
    parser.add_argument("--include")
    parser.add_argument("--scratch")
    parser.add_argument("--compiler")
    parser.add_argument("--backends", default="double,float,onednn,bf16")
    parser.add_argument("--kernels", metavar="FOLDER", help="of optimised kernels that runs with equal ones share")
    parser.add_argument("--emulator", metavar="LIBRARY", help="libcuda_emulator.a, for emulated GPUs, too")
    parser.add_argument("--cuda", default="/usr/local/cuda", help="the toolkit, for its headers")
    parser.add_argument("--processes", action="store_true", help="run each program as several processes over MPI, too")
    parser.add_argument("--mpi", metavar="MPICXX,MPIRUN", help="those that the PATH finds unless given")
    parser.add_argument("--sanitize-every", type=int, default=8, help="every so many programs; 0: none")
    parser.add_argument("--sanitizers", default="address,undefined+thread", help="what such programs have in turns")
    parser.add_argument("--shrink-seconds", type=float, default=180)
    parser.add_argument("--no-cases", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test.run()
    begin = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    fuzzer = Fuzzer(options)
    if options.processes and not fuzzer.builder.has_mpi():
        print("skipped: no MPI; install libopenmpi-dev and openmpi-bin")
        return 77
    cases_agree = options.no_cases or options.only is not None or fuzzer.run_cases()
    fuzzer.run()
    print(f"{fuzzer.pairs} pairs of a network and a strategy (its type, table, batches and options) in "
          f"{fuzzer.programs} programs, {fuzzer.refused} refused, {len(fuzzer.failures)} programs failed, "
          f"{time.monotonic() - begin:.0f} s\n{fuzzer.coverage.text()}", flush=True)
    if fuzzer.failures:
        fuzzer.report_failure()
    return 0 if cases_agree and not fuzzer.failures else 1


if __name__ == "__main__":
    sys.exit(main())
