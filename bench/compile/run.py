#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what it costs to compile programs that use the library.

    bench/compile/run.py [--repetitions 5] [--compiler g++ ...] [--json FILE]

Each line has the median and the spread of the wall time, the median of the CPU time (user and system,
which other jobs on the machine disturb less), and the peak memory. Compilers that are not installed
are left out. Exits with 1 if a target, of g++ or for GPUs of nvcc, is missed: by CPU time, or by memory.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parents[2]
here = root / "bench" / "compile"

MOST_MIB = 2048  # for every program that has a target

# Program, flags, and the seconds that g++ may take; for files of a GPU, that nvcc may.
FULL = ["-O2", "-c"]
PROGRAMS = [
    ("include, syntax only", None, ["-fsyntax-only"], 1.0),
    ("include, -O0", None, ["-O0", "-c"], 1.0),
    ("quickstart, -O2", "quickstart", FULL, 10.0),
    ("GoogLeNet, DataParallel<2>, -O2", "googlenet_dp2", FULL, 10.0),
    ("GoogLeNet, Hybrid of 2 x 2, -O2", "googlenet_hybrid", FULL, 15.0),
    ("GPT-2, 12 layers, Hybrid, -O2", "gpt2_hybrid", FULL, 20.0),
    ("GPT-2, 12 layers, Hybrid of 2 x 2 x 2, -O2", "gpt2_hybrid", [*FULL, "-DBENCH_TENSOR=2"], 25.0),
    ("GPT-2, 48 layers, Hybrid, -O2", "gpt2_hybrid", [*FULL, "-DBENCH_GPT2=Gpt2Xl", "-DBENCH_SPLIT=26"], 20.0),
]
CUDA_PROGRAMS = [
    ("include cuda.cuh", "cuda_include", ["-c"], None),
    ("a stranger's file on Cuda", "stranger", ["-c"], 60.0),
    ("GoogLeNet on Cuda, -O2", "googlenet_cuda", FULL, 60.0),
    ("GoogLeNet on Cuda by NCCL, Hybrid", "googlenet_hybrid_cuda", [*FULL, "-DTANDEM_NCCL"], 60.0),
    ("GPT-2 on Cuda by NCCL, Hybrid of 2 x 2 x 2", "gpt2_hybrid_cuda", [*FULL, "-DTANDEM_NCCL", "-DBENCH_TENSOR=2"], 75.0),
]


def source_of(name, folder):
    if name is None:
        path = pathlib.Path(folder) / "include.cpp"
        path.write_text("#include <tandem/tandem.hpp>\n", encoding="utf-8")
        return path
    if name == "cuda_include":
        path = pathlib.Path(folder) / "include.cu"
        path.write_text("#include <tandem/cuda.cuh>\n", encoding="utf-8")
        return path
    if name == "stranger":
        return root / "test" / "consumers" / "cuda" / "main.cu"
    if name.endswith("_cuda"):
        return here / f"{name}.cu"
    if name == "quickstart":
        example = root / "examples" / "quickstart.cpp"
        return example if example.exists() else here / "small_cnn.cpp"
    return here / f"{name}.cpp"


def command_of(compiler, source, flags, folder):
    nvcc = pathlib.Path(compiler).name == "nvcc"
    own = ["-x", "cu", "-w"] if nvcc else []
    if nvcc:
        flags = ["-c" if flag == "-fsyntax-only" else flag for flag in flags]
    output = [] if "-fsyntax-only" in flags else ["-o", f"{folder}/object.o"]
    return [compiler, "-std=c++20", *own, *flags, f"-I{root}/include", str(source), *output]


def measure(command):
    """Wall seconds, CPU seconds, and the peak memory in MiB of the largest process."""
    start = time.monotonic()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    wall = time.monotonic() - start
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def version_of(compiler):
    lines = subprocess.run([compiler, "--version"], text=True, capture_output=True).stdout.splitlines()
    return next((line for line in lines if "release" in line), lines[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--compiler", action="append", help="default: g++, clang++ and nvcc")
    parser.add_argument("--json", type=pathlib.Path, help="write the results there too")
    options = parser.parse_args()

    results = []
    missed = False
    print(f"{'compiler':9} {'program':33} {'wall s':>7} {'spread':>13} {'cpu s':>7} {'MiB':>6} {'target':>7}")
    for compiler in options.compiler or ["g++", "clang++", "nvcc"]:
        if not shutil.which(compiler):
            print(f"{compiler:9} is not installed")
            continue
        stem = pathlib.Path(compiler).name
        judged_programs = PROGRAMS if stem.startswith("g++") else CUDA_PROGRAMS if stem == "nvcc" else []
        for row in PROGRAMS + (CUDA_PROGRAMS if stem == "nvcc" else []):
            name, program, flags, target = row
            with tempfile.TemporaryDirectory() as folder:
                source = source_of(program, folder)
                command = command_of(compiler, source, flags, folder)
                runs = [measure(command) for _ in range(options.repetitions)]
            wall, cpu, memory = (sorted(run[i] for run in runs) for i in range(3))
            judged = row in judged_programs and target is not None
            result = {
                "compiler": version_of(compiler),
                "program": name,
                "wall_s": statistics.median(wall),
                "wall_least_s": wall[0],
                "wall_most_s": wall[-1],
                "cpu_s": statistics.median(cpu),
                "peak_mib": memory[-1],
                "target_s": target if judged else None,
                "flags": flags,
            }
            results.append(result)
            verdict = ""
            if judged:
                over = result["cpu_s"] > target or result["peak_mib"] > MOST_MIB
                verdict = f"{target:7.1f}" + (" missed" if over else "")
                missed = missed or over
            print(
                f"{compiler:9} {name:33} {result['wall_s']:7.2f} {wall[0]:6.2f}-{wall[-1]:6.2f} "
                f"{result['cpu_s']:7.2f} {memory[-1]:6.0f} {verdict}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
