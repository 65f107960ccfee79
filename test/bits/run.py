#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether networks under strategies train to the bits to which they did when bits.expected was written.

  run.py [--write] PROGRAM ...     compares, or writes what programs print, and hashes of their checkpoints, to bits.expected

Programs whose names begin with bits_values_ have the same strategies as values.

Programs are compiled for x86-64-v3, and products and sums stay two roundings: any compiler and any optimisation give the same
bits then. Exits 77 where the processor cannot run them.
"""
import argparse
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

EXPECTED = pathlib.Path(__file__).with_name("bits.expected")
# oneDNN has kernels for each kind of processor; these are those of any that can run the program.
INSTRUCTIONS = {"onednn_bf16": ("AVX512_CORE", "avx512bw")}


def can_run(flag):
    """Whether this processor has the instructions; what it has is read where Linux says it."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return False
    return any(flag in line.split() for line in lines if line.startswith("flags"))


def hash_of(path):
    """The hash of all tensors (names, types, shapes, numbers): parameters, statistics, the optimizer's states, averages."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    digest = hashlib.sha256()
    for name in sorted(header.keys() - {"__metadata__"}):
        tensor = header[name]
        begin, end = (8 + size + at for at in tensor["data_offsets"])
        digest.update(f"{name} {tensor['dtype']} {tensor['shape']}\n".encode() + data[begin:end])
    return digest.hexdigest()


def kind_of(program):
    """The same of a program with types and of that with values."""
    return program.name.removeprefix("bits_").removeprefix("values_")


def lines_of(program):
    """What it prints, and the hash of each pair's checkpoint behind it."""
    kind = kind_of(program)
    limit, flag = INSTRUCTIONS.get(kind, ("AVX2", "avx2"))
    if not can_run(flag):
        print(f"{kind}: skipped: this processor has no {flag}")
        return None
    with tempfile.TemporaryDirectory(prefix="tandem-bits-") as folder:
        environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": limit, "OMP_WAIT_POLICY": "passive"}
        run = subprocess.run([program, folder], env=environment, stdout=subprocess.PIPE, text=True)
        if run.returncode != 0:
            sys.exit(f"{kind}: exit status {run.returncode}")
        hashes = [f"{path.stem} sha256 {hash_of(path)}" for path in sorted(pathlib.Path(folder).iterdir())]
        return [f"{kind}/{line}" for line in run.stdout.splitlines() + hashes]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("programs", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    found = {kind_of(program): lines_of(program) for program in options.programs}
    found = {kind: lines for kind, lines in found.items() if lines is not None}
    if options.write:
        kept = [line for line in EXPECTED.read_text().splitlines() if line.split("/")[0] not in found]
        EXPECTED.write_text("".join(line + "\n" for line in kept + [line for lines in found.values() for line in lines]))
        return
    expected = EXPECTED.read_text().splitlines()
    wrong = []
    for kind, lines in found.items():
        wanted = [line for line in expected if line.startswith(f"{kind}/")]
        if lines != wanted:
            wrong += [f"- {line}" for line in wanted if line not in lines] + [f"+ {line}" for line in lines if line not in wanted]
            wrong.append(f"{kind}: other bits than in {EXPECTED.name}")
    if wrong:
        sys.exit("\n".join(wrong))
    if not found:
        sys.exit(77)
    print(f"{', '.join(found)}: the bits of {EXPECTED.name}")


main()
