#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network in four processes, lets one of them fail, and looks at what is left.

    rig.py MPIRUN PROGRAM [--cases N] [--seconds S] [--seed SEED] [--jobs N] [--only FAULT]

A case is a strategy, a process, a fault and a place, drawn from its seed. Asserted are: all processes end in time and none
is left; all that are told say one sentence, which names the right process and, where it was told, the action; and what was
saved loads on another number of processes and ends with the bits of the run that nothing disturbed. Where mpirun itself
does not end although its processes have, or has ended one before it could say why, that is counted apart.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

PROCESSES = 4
LIMIT = 45.0  # of a whole run, in seconds, on a busy machine; the program's time-out is 2 s
PASSES = {"forward": "F", "backward": "B"}
SIGNALLED = ("kill", "stop", "throw", "exit")
CUTS = ("cut-to", "cut-from", "cut-both")
FAULTS = (*SIGNALLED, "slow", "clock", "full-disk", *CUTS)
SILENT = "is silent: stopped, frozen or cut off"


class Failed(Exception):
    """What a case has shown."""


def check(condition, text):
    if not condition:
        raise Failed(text)


class Case:
    """Drawn from its seed alone."""

    def __init__(self, seed, faults):
        draw = random.Random(seed)
        self.seed = seed
        self.fault = draw.choice(faults)
        self.strategy = draw.choice(("data", "pipeline"))
        self.process = draw.randrange(PROCESSES)
        places = ["forward", "backward", "step"] + (["start", "world"] if self.fault in SIGNALLED else [])
        self.place = draw.choice(places)
        self.call = 1 if self.place in ("start", "world") else draw.randrange(3, 11)
        self.resumes_on = draw.choice((0, 2, 4))

    def __str__(self):
        return (f"seed {self.seed}: {self.strategy}, {self.fault} of process {self.process} at {self.place} {self.call}, "
                f"resumed by {self.resumes_on}")


class Run:
    """A program as several processes, in an environment by which they are found again."""

    def __init__(self, options, name, processes, *words, env=None, prefix=None):
        self.mark = f"TANDEM_RIG={os.getpid()}-{name}"
        key, value = self.mark.split("=")
        own = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
                   OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_btl="vader,self", **{key: value}, **(env or {}))
        command = [options.program, *map(str, words)]
        if processes > 0:
            parts = []
            for p in range(processes):
                parts += ([":"] if p > 0 else []) + ["-n", "1", *(prefix or {}).get(p, []), *command]
            command = [options.mpirun, *parts]
        self.program = options.program
        self.begin = time.monotonic()
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, env=own, text=True, stdout=subprocess.PIPE, stderr=self.errors,
                                        start_new_session=True)

    def living(self):
        """The program's processes that have not ended; mpirun's own have its mark, too, but another command."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
                state = (path / "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
                if words[0].decode() == self.program and state not in "ZX" and self.mark.encode() in (path / "environ").read_bytes():
                    found.append((int(path.name), state))
            except (OSError, IndexError):
                continue
        return found

    def finish(self):
        """(status, output, errors, what became of it): that is "launcher" where mpirun alone did not end."""
        hung = ""
        try:
            out, _ = self.process.communicate(timeout=max(1.0, LIMIT - (time.monotonic() - self.begin)))
        except subprocess.TimeoutExpired:
            moving = [pid for pid, state in self.living() if state != "T"]
            hung = "launcher" if not moving else "program"
            self.end()
            out, _ = self.process.communicate()
        seconds = time.monotonic() - self.begin
        for _ in range(30):
            left = self.living()
            if not left:
                break
            time.sleep(0.1)
        self.end()
        self.errors.seek(0)
        said = self.errors.read()
        self.errors.close()
        check(hung != "program", f"its processes had not ended after {seconds:.0f} s\n{out}{said}")
        check(not left, f"processes are left over: {left}\n{out}{said}")
        return self.process.returncode, out, said, hung, seconds

    def end(self):
        for pid, _ in self.living():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()


def command(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True)


@contextlib.contextmanager
def networks(case, env):
    """Two networks, of the failing process and of all others; yields what cuts them, one way or both."""
    names = [f"tandem-rig-{os.getpid()}-{case.seed}-{side}" for side in "ab"]
    ends = [f"rig{case.seed % 100000}{side}" for side in "ab"]
    addresses = ["10.99.0.1", "10.99.0.2"]
    try:
        for name in names:
            command("ip", "netns", "add", name)
        command("ip", "-n", names[0], "link", "add", ends[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for name, end, address in zip(names, ends, addresses):
            command("ip", "-n", name, "link", "set", "lo", "up")
            command("ip", "-n", name, "addr", "add", f"{address}/24", "dev", end)
            command("ip", "-n", name, "link", "set", end, "up")
        for p in range(PROCESSES):
            env[f"TANDEM_RIG_NETWORK_{p}"] = f"/run/netns/{names[1] if p == case.process else names[0]}"

        def cut():
            if case.fault in ("cut-to", "cut-both"):  # nothing reaches the failing process
                command("ip", "-n", names[0], "route", "add", "blackhole", addresses[1] + "/32")
            if case.fault in ("cut-from", "cut-both"):
                command("ip", "-n", names[1], "route", "add", "blackhole", addresses[0] + "/32")

        yield cut
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@contextlib.contextmanager
def small_disk(folder):
    """A disk that is full after a checkpoint or two; yields what makes room."""
    command("mount", "-t", "tmpfs", "-o", "size=40k", "tandem-rig", str(folder))
    try:
        yield lambda: command("mount", "-o", "remount,size=16m", str(folder))
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def works(*words):
    try:
        return subprocess.run(words, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def permitted():
    """The faults that can be made here; of the others it is said that they are skipped."""
    faults = list(FAULTS)
    probe = f"tandem-rig-probe-{os.getpid()}"
    if works("ip", "netns", "add", probe):
        works("ip", "netns", "del", probe)
    else:
        print("skipped: cuts, for want of network namespaces")
        faults = [fault for fault in faults if fault not in CUTS]
    with tempfile.TemporaryDirectory() as folder:
        if works("mount", "-t", "tmpfs", "-o", "size=40k", "tandem-rig", folder):
            works("umount", folder)
        else:
            print("skipped: full disks, for want of the right to mount one")
            faults.remove("full-disk")
    if not works("unshare", "-T", "--monotonic", "3600", "true"):
        print("skipped: clocks, for want of time namespaces")
        faults.remove("clock")
    return faults


def state_of(run, name):
    status, out, errors, hung, _ = run.finish()
    states = set(re.findall(r"^state (\w+)$", out, re.MULTILINE))
    check(status == 0 and not hung and len(states) == 1, f"{name}: status {status}\n{out}{errors}")
    return states.pop()


def sentences(errors):
    """What each process has said, by its number; one that was ended hard says it otherwise."""
    return {int(p): text for p, text in re.findall(r"^process (\d): (?:lifeline: )?(.*)$", errors, re.MULTILINE)}


def judge(case, status, errors):
    """"" where what was said is right, "launcher" where that has ended some before they could say it."""
    said = sentences(errors)
    victim = f"process {case.process}"
    others = {p: text for p, text in said.items() if p != case.process}
    check(status != 0, f"status 0\n{errors}")
    if case.place == "start" or (case.place == "world" and case.fault != "stop"):
        return ""  # MPI is being started: the launcher ends the others, who may not have a lifeline yet
    early = case.fault in ("kill", "exit") and 0 < len(others) < PROCESSES - 1
    check(early or len(others) == PROCESSES - 1, f"{len(others)} of {PROCESSES - 1} processes have said why they end\n{errors}")
    check(len(set(others.values())) == 1, f"they do not say the same\n{errors}")
    text = next(iter(others.values()))
    if case.fault in CUTS and case.process == 0:
        check(SILENT in text, text)  # of any that process 0 cannot hear, or itself
        return ""
    # Of two that cannot talk both ways, each may miss the other first; process 0 decides, or is given up itself.
    named = (victim, "process 0") if case.fault == "cut-to" else (victim,)
    check(any(name in text for name in named), f"{' or '.join(named)} is not named: {text}")
    what = {"kill": "has ended without a word", "exit": "has ended without a word", "throw": "the fuse has blown"}
    outside = case.fault == "throw" and case.place == "step" and "ends because of an error outside of its ranks" in text
    check(what.get(case.fault, SILENT) in text or outside or case.fault == "stop", f"not {what.get(case.fault)}: {text}")
    if case.fault in ("kill", "exit", "throw") and case.place in PASSES:
        check(re.search(rf"\b\d{PASSES[case.place]}\d", text), f"the action is not named: {text}")
    return "launcher" if early else ""


def play(options, case, whole):
    """What became of the launcher: "" or "launcher"."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-rig-")))
        env, prefix, words = {}, {}, []
        room = cut = None
        if case.fault in (*SIGNALLED, "slow"):
            words = [case.fault, case.process, case.place, case.call]
        if case.fault in CUTS:
            cut = stack.enter_context(networks(case, env))
            env["TANDEM_RIG_STEP_MS"] = "700"
        if case.fault == "clock":
            prefix[case.process] = ["unshare", "-T", "--monotonic", "3600", "--boottime", "3600"]
        if case.fault == "full-disk":
            room = stack.enter_context(small_disk(folder))
        run = Run(options, f"{case.seed}", PROCESSES, case.strategy, folder, *words, env=env, prefix=prefix)
        if cut is not None:
            run.process.stdout.readline()
            cut()
        status, out, errors, hung, _ = run.finish()
        if case.fault in ("slow", "clock", "full-disk"):
            states = set(re.findall(r"^state (\w+)$", out, re.MULTILINE))
            check(status == 0 and states == {whole[case.strategy]}, f"status {status}\n{out}{errors}")
            said = case.fault != "full-disk" or "No space left on device" in errors
            check(said, f"no process says that the disk is full\n{errors}")
        elif not hung:
            hung = judge(case, status, errors)
        if room is not None:
            room()
        again = Run(options, f"{case.seed}-again", case.resumes_on, case.strategy, folder)
        state = state_of(again, "resumed")
        check(state == whole[case.strategy], f"resumed it ends with {state}, not {whole[case.strategy]}")
        return hung


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mpirun")
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins later")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1)))
    parser.add_argument("--only", choices=FAULTS)
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    faults = permitted()
    if options.only:
        faults = [fault for fault in faults if fault == options.only]
    whole = {}
    for strategy in ("data", "pipeline"):
        with tempfile.TemporaryDirectory() as folder:
            whole[strategy] = state_of(Run(options, strategy, PROCESSES, strategy, folder), strategy)
    end = time.monotonic() + options.seconds
    counts = collections.Counter()

    def one(seed):
        if time.monotonic() > end:
            return None
        case = Case(seed, faults)
        try:
            hung = play(options, case, whole)
            return case, hung or "right", ""
        except Failed as error:
            return case, "wrong", str(error)
        except (OSError, subprocess.SubprocessError) as error:
            return case, "wrong", f"the rig itself: {error}"

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(one, range(options.seed, options.seed + options.cases)):
            if result is None:
                continue
            case, became, text = result
            counts[case.fault, became] += 1
            if text:
                print(f"{case}: {text}", flush=True)
    for fault in sorted({fault for fault, _ in counts}):
        print(f"{fault:10}" + "".join(f"{counts[fault, became]:5} {became}" for became in ("right", "wrong", "launcher")))
    total = sum(counts.values())
    print(f"{total} cases from seed {options.seed} on; resumed with the bits of the undisturbed run wherever right")
    sys.exit(1 if any(became == "wrong" for _, became in counts) or total == 0 else 0)


if __name__ == "__main__":
    main()
