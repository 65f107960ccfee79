#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts programs as several processes by mpirun, and checks what they print and how they end.

    run.py communicator|sizes|layouts|resume|corrupt|differ|failures MPIRUN COMMUNICATOR TRAIN
    run.py elastic MPIRUN ELASTIC
    run.py translate MPIRUN TRANSLATE
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import launcher

# A process that does not end, in seconds; the programs' own time-out is 2 s where they are to fail.
LIMIT = 120
STRATEGIES = ["data", "reproducible", "hybrid", "pipeline", "models", "world", "tensor", "shared", "parts", "channels", "tiles"]
TIME_OUT = 2.0
GRACE = 20.0  # of a busy machine: docs/cluster.md says what it is on another


def start(mpirun, processes, *command):
    return subprocess.Popen(launcher.command(mpirun, processes, command), env=launcher.environment(), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def finish(run, limit=LIMIT):
    """(status, output, errors), with no process left over."""
    try:
        out, errors = run.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end(run)
        out, errors = run.communicate()
        fail(f"{' '.join(run.args)} did not end within {limit} s; it had said:\n{out}{errors}")
    return run.returncode, out, errors


def children_of(pid):
    """Of mpirun: the program's processes, in the order of their numbers."""
    children = [path.read_text(encoding="ascii").split() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")]
    return sorted(int(child) for of_thread in children for child in of_thread)


def lives(pid):
    """Ended ones may wait to be asked for their status."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def fail(text):
    sys.exit(f"run.py: {text}")


def end(run):
    """Of a program that may still run."""
    for pid in [*children_of(run.pid), run.pid]:
        os.kill(pid, signal.SIGKILL)


def check(condition, text):
    if not condition:
        fail(text)


def results(mpirun, processes, *command):
    """What each process says that it has, of which there is one."""
    status, out, errors = finish(start(mpirun, processes, *command))
    name = f"{' '.join(map(str, command))} as {processes} processes"
    check(status == 0, f"{name}: status {status}\n{out}{errors}")
    found = re.findall(r"^process \d+ of \d+: (.*)$", out, re.MULTILINE)
    check(len(found) == max(processes, 1), f"{name}: {len(found)} processes have said what they have\n{out}{errors}")
    check(len(set(found)) == 1, f"{name}: the processes differ\n{out}")
    if "save" in command:
        ranks = processes if "world" in command else 4
        said = f"{ranks} ranks in {processes} processes on 1 machine\n"
        check(errors.count(said) == (processes > 0), f"{name} does not say once where it trains\n{errors}")
    if "load" in command:
        check_read(name, command[1], out, command[-1], processes)
    print(f"{name}: {found[0]}", flush=True)
    return found[0]


def tensor_bytes(folder):
    """Of all tensors in a folder's files."""
    total = 0
    for path in pathlib.Path(folder).glob("*.safetensors"):
        with path.open("rb") as file:
            total += path.stat().st_size - 8 - int.from_bytes(file.read(8), "little")
    return total


def check_read(name, strategy, out, path, processes):
    """Each tensor is read once; the four numbers of the position process 0 tells to the others."""
    loaded = [(int(r), int(g)) for r, g in re.findall(r"^loaded: read (\d+), received (\d+)$", out, re.MULTILINE)]
    total, position = tensor_bytes(f"{path}.folder/step-000003"), 32
    check(sum(read for read, _ in loaded) == total, f"{name}: of {total} bytes of tensors the processes have read {loaded}")
    whole = [read + got for read, got in loaded]
    if strategy in ("data", "world"):
        check(sorted(whole) == [total - position] * (len(whole) - 1) + [total], f"{name}: of {total} bytes they have {loaded}")
    if strategy == "pipeline" and processes > 1:
        check(all(got == 0 for _, got in loaded), f"{name}: each reads its own stages, but {loaded}")
    print(f"{name}: of {total} bytes the processes have read and received {loaded}", flush=True)


def communicator(mpirun, program, _):
    for processes in (0, 2, 3, 4, 6):
        status, out, errors = finish(start(mpirun, processes, program))
        check(status == 0, f"{processes} processes: status {status}\n{out}{errors}")
        check(out.count("as threads do") == max(processes, 1), out)


def sizes(mpirun, program, _):
    """What comes is another size than is expected: a sentence, and nothing is written behind the memory for it."""
    for operation in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "message"):
        status, out, errors = finish(start(mpirun, 2, program, "sizes", operation))
        check(out.count(": whole: ") == 2, f"{operation}: status {status}\n{out}{errors}")
        # Either process may see it first, and tell the other before that one looks.
        check(re.search(r"process [01] has sent \d+ bytes where process [01] expects \d+", out),
              f"{operation}: status {status}\n{out}{errors}")
        print(f"sizes: {operation}: {out.splitlines()[-1]}", flush=True)


def layouts(mpirun, _, program):
    for strategy in STRATEGIES:
        found = {results(mpirun, processes, program, strategy) for processes in (0, 2, 4)}
        check(len(found) == 1, f"{strategy}: the numbers depend on the processes: {found}")


def resume(mpirun, _, program):
    """Saved by one layout, resumed by another: the state of the run that was not interrupted."""
    with tempfile.TemporaryDirectory() as folder:
        for strategy, saves, loads in (("data", 4, 2), ("hybrid", 4, 0), ("hybrid", 2, 4), ("pipeline", 2, 4), ("pipeline", 0, 2),
                                       ("world", 4, 2), ("world", 2, 0), ("world", 0, 4), ("world", 4, 0),
                                       ("tensor", 4, 2), ("tensor", 0, 4), ("shared", 4, 0), ("shared", 0, 2),
                                       ("parts", 4, 2), ("parts", 0, 4)):
            path = pathlib.Path(folder, f"{strategy}-{saves}.safetensors")
            whole = results(mpirun, 0, program, strategy)
            results(mpirun, saves, program, strategy, "save", path)
            resumed = results(mpirun, loads, program, strategy, "load", path)
            check(resumed.split("state")[1] == whole.split("state")[1],
                  f"{strategy}: saved by {saves} and resumed by {loads} processes it has another state")


def corrupt(mpirun, _, program):
    """One flipped bit, in a file and then in a folder: all processes end with the same sentence."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "hybrid.safetensors")
        results(mpirun, 4, program, "hybrid", "save", path)
        shares = sorted(pathlib.Path(f"{path}.folder").glob("step-*/*.safetensors"))
        for file in (shares[0], shares[-1], path):  # in a weight, then in the position, which process 0 reads
            data = bytearray(file.read_bytes())
            data[-1] ^= 1
            file.write_bytes(data)
            status, out, errors = finish(start(mpirun, 4, program, "hybrid", "load", path))
            said = re.findall(r"^train: (.*)$", errors, re.MULTILINE)
            check(status != 0 and len(said) == 4, f"{file.name}: status {status}\n{out}{errors}")
            check(len(set(said)) == 1 and file.name in said[0] and "checksum" in said[0], f"{file.name}: {said}")
            print(f"corrupt: {said[0]}", flush=True)


def differ(mpirun, _, program):
    """Other options, or a call that one process makes alone: one sentence, in all processes."""
    with tempfile.TemporaryDirectory() as folder:
        for what, sentence in ((("data", "seeds"), "TrainerOptions::seed is 0 in process 0, but 1 in process 1;"),
                               (("tensor", "alone", pathlib.Path(folder, "saved")),
                                "the call of the trainer is save() in process 0, but evaluate() in process")):
            for processes in (2, 4):
                status, out, errors = finish(start(mpirun, processes, program, *what))
                said = re.findall(r"^train: (.*)$", errors, re.MULTILINE)
                check(status != 0 and len(said) == processes, f"{what}: status {status}\n{out}{errors}")
                check(len(set(said)) == 1 and said[0].startswith(sentence), f"{what}: {said}")
                print(f"differ: {said[0]}", flush=True)


def failures(mpirun, _, program):
    for strategy in ("data", "pipeline"):
        status, out, errors = finish(start(mpirun, 4, program, strategy, "throw", 2))
        check(status != 0, f"throw: status 0\n{out}")
        said = re.findall(r"^train: (.*)$", errors, re.MULTILINE)
        check(len(said) == 4, f"throw: {len(said)} of 4 processes have said why they end\n{errors}")
        check(all("the fuse has blown" in text and "rank 2" in text for text in said), f"throw: {said}")
    status, out, errors = finish(start(mpirun, 4, program, "data", "exception", 1))
    check(status != 0 and "the program itself has had enough" in errors, f"exception: {status}\n{errors}")
    check(re.search("rank 1 failed: process 1 on .* ends because of an error outside of its ranks", errors), f"exception: {errors}")
    status, out, errors = finish(start(mpirun, 2, program, "none"))
    check(status == 70 and "the end of MPI has not returned within 5000 ms" in errors, f"none: {status}\n{errors}")
    for name, number in (("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)):
        run = start(mpirun, 4, program, "data", "slow")
        if run.stdout.readline() != "training\n":
            fail(f"{name}: it does not train\n{run.stderr.read()}")
        children = children_of(run.pid)
        if len(children) != 4:
            end(run)
            fail(f"{name}: mpirun has {len(children)} children")
        begin = time.monotonic()
        os.kill(children[3], number)
        status, out, errors = finish(run)
        seconds = time.monotonic() - begin
        check(status != 0, f"{name}: status 0\n{out}")
        check(seconds <= TIME_OUT + GRACE, f"{name}: all ended after {seconds:.1f} s")
        check(not any(lives(child) for child in children), f"{name}: a process is left")
        said = set(re.findall(r"^train: rank \d.*?: (.*)$", errors, re.MULTILINE))
        check(len(said) == 1 and "process 3 " in said.pop(), f"{name}: not all have named process 3:\n{errors}")
        print(f"{name}: all ended after {seconds:.1f} s", flush=True)


def elastic(mpirun, program):
    """Ended by a SIGTERM that one of four processes gets, and gone on from by fewer: the state of the run without it."""
    with tempfile.TemporaryDirectory() as folder:
        whole = results(mpirun, 4, program, pathlib.Path(folder, "whole"))
        status, out, errors = finish(start(mpirun, 4, program, pathlib.Path(folder, "ended"), 2))
        check(status == 75, f"a run that a SIGTERM ends: status {status}\n{out}{errors}")
        check("SIGTERM came, so training ends behind step" in errors, errors)
        for processes, chosen in ((2, "2 there: DataParallel<2,"), (3, "3 there: DataParallel<2,"), (1, "there: DataParallel<")):
            own = pathlib.Path(folder, f"on-{processes}")
            shutil.copytree(pathlib.Path(folder, "ended"), own)
            status, out, errors = finish(start(mpirun, processes, program, own))
            check(status == 0 and chosen in errors and "goes on from" in errors, f"{processes}: {status}\n{out}{errors}")
            states = re.findall(r"^process .*(state .*)$", out, re.MULTILINE)
            check(len(states) == min(processes, 2) and set(states) == {whole}, f"{processes} processes: {out}, not {whole}")
        for dead in (0, 3):  # whoever lives says so, once
            status, out, errors = finish(start(mpirun, 4, program, pathlib.Path(folder, f"without-{dead}"), dead, 9))
            said = re.findall(rf"^rank \d failed: process {dead} on .* has ended without a word.*$", errors, re.MULTILINE)
            check(status != 0 and len(said) == 1, f"process {dead} was killed, which is said {len(said)} times\n{out}{errors}")


def translate(mpirun, program):
    """The same is found, whatever the processes; an asynchronous pipeline says that it runs in one."""
    for strategy in ("data", "hybrid", "pipeline"):
        found = {results(mpirun, processes, program, strategy) for processes in (0, 2, 4)}
        check(len(found) == 1, f"{strategy}: what is found depends on the processes: {found}")
    with tempfile.TemporaryDirectory() as folder:
        found = {results(mpirun, processes, program, "stateful", pathlib.Path(folder, str(processes))) for processes in (0, 2, 4)}
        check(len(found) == 1, f"stateful: what goes on depends on the processes: {found}")
    results(mpirun, 0, program, "asynchronous")
    status, out, errors = finish(start(mpirun, 2, program, "asynchronous"))
    check(status == 1 and errors.count("an asynchronous pipeline runs in one process") == 2, f"{status}\n{out}{errors}")


if __name__ == "__main__":
    {f.__name__: f for f in (communicator, sizes, layouts, resume, corrupt, differ, failures, elastic, translate)}[sys.argv[1]](*sys.argv[2:])
