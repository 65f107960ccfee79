#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network in four processes, lets one of them fail, and looks at what is left.

    rig.py MPIRUN PROGRAM [--cases N] [--seconds S] [--seed SEED] [--jobs N] [--only FAULT] [--each]

A case is a strategy, a process, a fault and a place, drawn from its seed. Asserted are: every process ends within the
time-out and 3 s, by the exit code of what has happened, and none is left; all that are told say one sentence, which names
the right process and, where it was told, the action; and what was saved loads on another number of processes and ends with
the bits of the run that nothing disturbed. Where mpirun itself does not end although its processes have, or has ended one
before it could say why, that is counted apart.

Instead of failing, the process may have another option or make another call than the others. Then all say at once what
differs, with both values and whose they are, end with status 1, and have saved nothing of it.

On top of the 3 s a process has what it takes to end, WORK seconds of a CPU, as long as they take meanwhile: a heartbeat, some
work ten times a second in a process of its own, says how much longer work takes by the clock than by the CPU's time.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

PROCESSES = 4
LIMIT = 45.0  # of a whole run, in seconds, on a busy machine
TIME_OUT = 2.0  # the program's
START_TIME_OUT = 6.0
GRACE = 3.0  # promised: all have ended by then
WORK = 0.5
PASSES = {"forward": "F", "backward": "B"}
SIGNALLED = ("kill", "stop", "throw", "exit")
ORDERLY = ("quit", "leave")  # std::exit, and a return from main, while the others go on
CUTS = ("cut-to", "cut-from", "cut-both")  # of the lifeline
NETS = ("net-to", "net-from", "net-both")  # of MPI's data, and the lifeline where it takes that way
# fault → what differs → (what three processes have, what one has), or a regular expression of what is said; None: it may differ
DIFFERS = {
    "option": {
        "batch": (8, 16), "optimizer": ("Sgd", "Adam"), "optimizer.learning_rate": (0.05, 0.1), "optimizer.momentum": (0.9, 0),
        "schedule": ("Constant", "Cosine"), "clip_norm": (0, 2), "clip_value": (0, 2), "loss_scaling.initial": (0, 1024),
        "groups": (0, 1), "average.decay": (0, 0.5), "seed": (0, 9), "shuffle": ("true", "false"), "drop_last": ("false", "true"),
        "checkpoints": ("given", "not given"), "checkpoints.every_steps": (2, 3), "checkpoints.on_signals": ("false", "true"),
        "checkpoints.keep": None, "threads_per_device": None, "loader_threads": None, "timeout": None,
        "strategy": "have Trainers of other strategies, ranks or processes; start one program"},
    "call": {
        **{call: ("train()", call) for call in ("save()", "save_in()", "load()", "resume()", "evaluate()", "predict()")},
        "the learning rate": (0.05000000074505806, 0.25), "the number of samples": (40, 39), "the epoch of the call": ("{}", 7),
        "step": "since they have made different calls; let all|did not send a message for rank .* within 2 s"}}  # train() stops
FAULTS = (*SIGNALLED, *ORDERLY, "term", "slow", "clock", "full-disk", *CUTS, *NETS, *DIFFERS)
UNHARMED = ("slow", "clock", "full-disk")
DONE, ERROR, PEER_FAILED, START_AGAIN = 0, 1, 70, 75  # of ExitCode
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
        self.place = draw.choice(places) if self.fault != "leave" else "step"
        self.call = 1 if self.place in ("start", "world") else draw.randrange(3, 11)
        if self.fault in DIFFERS:
            self.place = draw.choice(list(DIFFERS[self.fault]))
            self.call = 1 if self.fault == "option" else draw.choice((3, 4, 6, 7, 8, 9) if self.place == "step" else (1, 2, 3))
        self.differs = DIFFERS.get(self.fault, {}).get(self.place)
        if (self.strategy, self.place) == ("data", "save()"):  # each process has all that it saves
            self.differs = None
        self.unharmed = self.fault in UNHARMED or (self.fault in DIFFERS and self.differs is None)
        self.resumes_on = draw.choice((0, 2, 4))
        self.with_lifeline = draw.choice((False, True))  # of NETS

    def __str__(self):
        return (f"seed {self.seed}: {self.strategy}, {self.fault} of process {self.process} at {self.place} {self.call}, "
                f"resumed by {self.resumes_on}")

    def sentence(self):
        """A regular expression of what all processes say where one differs."""
        if isinstance(self.differs, str):
            return self.differs
        others = "{}, {} and {}".format(*(p for p in range(PROCESSES) if p != self.process))
        ends = [f"{self.differs[0]} in processes {others}", f"{self.differs[1]} in process {self.process}"]
        first, second = ends if self.process > 0 else reversed(ends)
        name = ("the number of " if self.place == "groups" else "") + f"TrainerOptions::{self.place}"
        if self.fault == "call":
            name = "the call of the trainer" if "()" in self.place else f"train(): {self.place}"
        return "^" + re.escape(f"{name} is {first}, but {second}; ".format(self.call - 1))


class Heartbeat:
    """How much slower than alone this machine is for a process that has work to do."""

    EACH = 0.01  # seconds of a CPU
    CODE = f"""
import time
while True:
    begin, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < {EACH}:
        pass
    print(begin, time.monotonic(), flush=True)
    time.sleep(0.1 - {EACH})
"""

    def __init__(self):
        self.beats = []
        self.process = subprocess.Popen([sys.executable, "-c", self.CODE], stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            self.beats.append(tuple(map(float, line.split())))

    def stretch(self, begin, end):
        """How many times as long as by the CPU's clock work has taken between the two."""
        taken = [beat[1] - beat[0] for beat in list(self.beats) if beat[1] > begin and beat[0] < end]
        return max(1.0, sum(taken) / len(taken) / self.EACH) if taken else 1.0


class Run:
    """A program as several processes, in an environment by which they are found again."""

    def __init__(self, options, name, processes, *words, env=None, prefix=None, launch=(), hosts=()):
        """
        @param prefix  process → words before its command
        @param launch  words before the launcher's
        @param hosts   of each process; none: this one
        """
        self.mark = f"TANDEM_RIG={os.getpid()}-{name}"
        self.file = tempfile.NamedTemporaryFile(mode="r", prefix="tandem-rig-notes-")
        self.sessions = tempfile.TemporaryDirectory(prefix="tandem-mpi-", ignore_cleanup_errors=True)  # mpirun's own
        key, value = self.mark.split("=")
        own = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
                   OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_btl="vader,self", TANDEM_RIG_NOTES=self.file.name,
                   OMPI_MCA_orte_tmpdir_base=self.sessions.name)
        own.update({key: value}, **(env or {}))
        command = [options.program, *map(str, words)]
        if processes > 0:
            parts = []
            for p in range(processes):
                host = ["-host", hosts[p]] if hosts else []
                parts += ([":"] if p > 0 else []) + ["-n", "1", *host, *(prefix or {}).get(p, []), *command]
            command = [*launch, options.mpirun, *parts]
        self.program = options.program
        self.begin = time.monotonic()
        self.said, self.errors = (tempfile.TemporaryFile(mode="w+", errors="replace") for _ in range(2))
        self.notes = collections.defaultdict(dict)  # what → process → number
        self.rest = ""  # of a note that is not all there
        self.of_process = {}  # descriptor → process
        self.ended = {}  # process → when
        self.process = subprocess.Popen(command, env=own, stdout=self.said, stderr=self.errors, start_new_session=True)

    def look(self, seconds):
        """Reads what the processes have noted, and for so long waits for one to end."""
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        for what, process, number in map(str.split, lines):
            self.notes[what][int(process)] = int(number)
            if what == "begin":
                with contextlib.suppress(OSError):  # it has ended already
                    self.of_process[os.pidfd_open(int(number))] = int(process)
                    continue
                self.ended[int(process)] = time.monotonic()
        for descriptor in select.select(list(self.of_process), [], [], seconds)[0]:
            self.ended[self.of_process.pop(descriptor)] = time.monotonic()
            os.close(descriptor)

    def await_training(self):
        while "training" not in self.notes and self.process.poll() is None:
            check(time.monotonic() - self.begin < LIMIT, "it does not train")
            self.look(0.02)

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
        while self.process.poll() is None:
            self.look(0.05)
            if time.monotonic() - self.begin > LIMIT:
                moving = [pid for pid, state in self.living() if state != "T"]
                hung = "launcher" if not moving else "program"
                self.end()
                self.process.wait()
        for _ in range(30):
            self.look(0)
            left = self.living()
            if not left:
                break
            time.sleep(0.1)
        self.end()
        for descriptor in self.of_process:
            os.close(descriptor)
        out, said = map(read_back, (self.said, self.errors))
        self.file.close()
        self.sessions.cleanup()
        check(hung != "program", f"its processes had not ended after {LIMIT:.0f} s\n{out}{said}")
        check(not left, f"processes are left over: {left}\n{out}{said}")
        return self.process.returncode, out, said, hung

    def end(self):
        for pid, _ in self.living():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()


def read_back(file):
    with file:
        file.seek(0)
        return file.read()


def command(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True)


@contextlib.contextmanager
def networks(case, links):
    """Two networks, of the failing process and of all others, with so many links; yields their names, and what cuts the
    first link, one way or both."""
    names = [f"tandem-rig-{os.getpid()}-{case.seed}-{side}" for side in "ab"]
    try:
        for name in names:
            command("ip", "netns", "add", name)
            command("ip", "-n", name, "link", "set", "lo", "up")
        for link in links:
            ends = [f"rig{case.seed % 100000}{side}{link}" for side in "ab"]
            command("ip", "-n", names[0], "link", "add", ends[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
            for name, end, address in zip(names, ends, addresses(link)):
                command("ip", "-n", name, "addr", "add", f"{address}/24", "dev", end)
                command("ip", "-n", name, "link", "set", end, "up")

        def cut():
            one, other = addresses(DATA)
            if case.fault.endswith(("-to", "-both")):  # nothing reaches the failing process
                command("ip", "-n", names[0], "route", "add", "blackhole", other + "/32")
            if case.fault.endswith(("-from", "-both")):
                command("ip", "-n", names[1], "route", "add", "blackhole", one + "/32")

        yield names, cut
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


DATA, LAUNCHER = 99, 98  # links


def addresses(link):
    return [f"10.{link}.0.1", f"10.{link}.0.2"]


def cut_lifeline(case, stack):
    """What each process connects behind MPI's start goes through a network of its own: (words for Run, what cuts it)."""
    names, cut = stack.enter_context(networks(case, [DATA]))
    paths = {f"TANDEM_RIG_NETWORK_{p}": f"/run/netns/{names[p == case.process]}" for p in range(PROCESSES)}
    return {"env": {**paths, "TANDEM_RIG_STEP_MS": "700"}}, cut


def cut_data(case, stack):
    """The failing process is on a machine of its own, which a link for data and one for the launcher connect. The lifeline
    takes the link that was made first."""
    links = [DATA, LAUNCHER] if case.with_lifeline else [LAUNCHER, DATA]
    names, cut = stack.enter_context(networks(case, links))
    agent = stack.enter_context(tempfile.NamedTemporaryFile(mode="w", prefix="tandem-rig-agent-", suffix=".sh"))
    agent.write(f'#!/bin/sh\nshift\nexec ip netns exec {names[1]} unshare -u sh -c "hostname tandem-rig; $*"\n')
    agent.flush()
    env = {"OMPI_MCA_plm_rsh_agent": f"sh {agent.name}", "OMPI_MCA_btl": "tcp,self", "TANDEM_RIG_STEP_MS": "300",
           "OMPI_MCA_btl_tcp_if_include": f"10.{DATA}.0.0/24", "OMPI_MCA_oob_tcp_if_include": f"10.{LAUNCHER}.0.0/24"}
    hosts = [addresses(LAUNCHER)[p == case.process] for p in range(PROCESSES)]
    return {"env": env, "launch": ["ip", "netns", "exec", names[0]], "hosts": hosts}, cut


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
        faults = [fault for fault in faults if fault not in (*CUTS, *NETS)]
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
    status, out, errors, hung = run.finish()
    states = set(re.findall(r"^state (\w+)$", out, re.MULTILINE))
    check(status == 0 and not hung and len(states) == 1, f"{name}: status {status}\n{out}{errors}")
    check(set(run.notes["end"].values()) == {0}, f"{name}: exit codes {run.notes['end']}")
    return states.pop()


def sentences(errors):
    """What each process has said, by its number; one that was ended hard says it otherwise."""
    return {int(p): text for p, text in re.findall(r"^process (\d): (?:lifeline: )?(.*)$", errors, re.MULTILINE)}


def judge_ends(case, run, heart, since):
    """Every process that can has ended in time, by the exit code of what has happened: (how long after the fault the last one
    did, how much of what it has beyond the time-out and 3 s it took)."""
    dead = case.fault in ("kill", "stop", "exit")
    own = {"throw": ERROR, "term": START_AGAIN, "exit": None, "kill": None, "quit": DONE, "leave": DONE}.get(case.fault, PEER_FAILED)
    others = START_AGAIN if case.fault == "term" else PEER_FAILED
    if case.fault in DIFFERS:
        own = others = ERROR
    by_size = isinstance(case.differs, str)  # of what they exchange: some see it, or the time-out says it
    for p in range(PROCESSES):
        status = run.notes["end"].get(p)  # None: a signal has ended it
        wanted = own if p == case.process else others
        by_launcher = status is None and case.fault != "term"
        of_another = by_size and status == PEER_FAILED
        check(status == wanted or by_launcher or of_another, f"process {p} has ended with {status}, not {wanted}")
    ends = {p: at for p, at in run.ended.items() if not (dead and p == case.process)}
    last = max(ends.values(), default=since)
    at_once = case.fault in ORDERLY or (case.fault in DIFFERS and not by_size)
    limit = (START_TIME_OUT if case.place == "start" else 0 if at_once else TIME_OUT) + GRACE
    slack = WORK * heart.stretch(since, max(last, since + 1))
    late = {p: round(at - since, 2) for p, at in ends.items() if at - since > limit + slack}
    check(not late, f"ended only after {late} s, where {limit:.0f} s and {slack:.2f} s of work are allowed")
    return last - since, (last - since - limit) / slack


def judge_words(case, run, errors):
    """"" where what was said is right, "launcher" where that has ended some before they could say it."""
    said = sentences(errors)
    victim = f"process {case.process}"
    others = {p: text for p, text in said.items() if p != case.process}
    crashed = re.search(r"on signal (6|8|11)\b.*", errors)
    check(not crashed, f"a process has ended {crashed and crashed[0]}")
    if case.fault in DIFFERS:
        missing = [p for p in range(PROCESSES) if p not in said]  # the launcher ends them behind the first that ends
        check(said and not any(run.notes["end"].get(p) for p in missing), f"{missing} have not said why they end")
        check(all(re.search(case.sentence(), text) for text in said.values()), f"not {case.sentence()}")
        return "launcher" if missing else ""
    if case.fault == "term":
        check(errors.count("SIGTERM came, so training ends behind step") >= PROCESSES, errors)
        return ""
    if case.place == "start" or (case.place == "world" and case.fault != "stop"):
        return ""  # MPI is being started: the launcher ends the others, who may not have a lifeline yet
    ends_launcher = case.fault in ("kill", "exit", "throw", *ORDERLY)  # which ends the others, who have half a second
    early = ends_launcher and 0 < len(others) and not any(run.notes["end"].get(p) for p in range(PROCESSES)
                                                          if p not in said and p != case.process)
    early = early and len(others) < PROCESSES - 1
    check(early or len(others) == PROCESSES - 1, f"{len(others)} of {PROCESSES - 1} processes have said why they end")
    silent = [p for p in said if p not in run.notes["end"]]
    check(early or case.fault == "stop" or not silent, f"{silent} have said why they end, and not with which exit code")
    check(len(set(others.values())) == 1, "they do not say the same")
    text = next(iter(others.values()))
    if case.fault in (*CUTS, *NETS) and case.process == 0 and (case.fault in CUTS or case.with_lifeline):
        check(SILENT in text or case.fault in NETS, text)  # of any that process 0 cannot hear, or itself
        return ""
    if case.fault in NETS:  # of two ranks that wait for each other either may be named
        check(re.search(rf"\b(rank|process) {case.process}\b", text), f"{victim} is not named: {text}")
        return ""
    # Of two that cannot talk both ways, each may miss the other first; process 0 decides, or is given up itself.
    named = (victim, "process 0") if case.fault == "cut-to" else (victim,)
    check(any(name in text for name in named), f"{' or '.join(named)} is not named: {text}")
    what = {"kill": "has ended without a word", "exit": "has ended without a word", "throw": "the fuse has blown",
            **{fault: "has called exit()" if case.place in PASSES else "has ended in order" for fault in ORDERLY}}
    outside = case.fault == "throw" and case.place == "step" and "ends because of an error outside of its ranks" in text
    check(what.get(case.fault, SILENT) in text or outside or case.fault == "stop", f"not {what.get(case.fault)}: {text}")
    if case.fault in ("kill", "exit", "throw", "quit") and case.place in PASSES:
        check(re.search(rf"\b\d{PASSES[case.place]}\d", text), f"the action is not named: {text}")
    return "launcher" if early else ""


def play(options, case, whole, heart):
    """(what became of the launcher: "" or "launcher", judge_ends() of what has ended)."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-rig-")))
        words, more = [], {}
        room = cut = since = None
        ends = (0.0, -1.0)
        if case.fault in (*SIGNALLED, *ORDERLY, "term", "slow", *DIFFERS):
            words = [case.fault, case.process, case.place, case.call]
        if case.fault in CUTS:
            more, cut = cut_lifeline(case, stack)
        if case.fault in NETS:
            more, cut = cut_data(case, stack)
        if case.fault == "clock":
            more = {"prefix": {case.process: ["unshare", "-T", "--monotonic", "3600", "--boottime", "3600"]}}
        if case.fault == "full-disk":
            room = stack.enter_context(small_disk(folder))
        run = Run(options, f"{case.seed}", PROCESSES, case.strategy, folder, *words, **more)
        if cut is not None:
            run.await_training()
            since = time.monotonic()
            cut()
        status, out, errors, hung = run.finish()
        if case.unharmed:
            states = set(re.findall(r"^state (\w+)$", out, re.MULTILINE))
            check(status == 0 and states == {whole[case.strategy]}, f"status {status}\n{out}{errors}")
            check(case.fault not in DIFFERS or "fault" in run.notes, "the process does not differ")
            said = case.fault != "full-disk" or "No space left on device" in errors
            check(said, f"no process says that the disk is full\n{errors}")
        else:
            try:
                since = since or run.notes["fault"][case.process] / 1e9
                ends = judge_ends(case, run, heart, since)
                if not hung:
                    check(status != 0, "status 0")
                    hung = judge_words(case, run, errors)
                saved = [path.name for path in folder.iterdir() if case.fault == "option" or path.name == "alone"]
                check(case.fault not in DIFFERS or not saved, f"{saved} was saved")
            except KeyError:
                raise Failed(f"the fault has not come\n{out}{errors}") from None
            except Failed as error:
                raise Failed(f"{error}\n{out}{errors}") from None
        if room is not None:
            room()
        again = Run(options, f"{case.seed}-again", case.resumes_on, case.strategy, folder)
        state = state_of(again, "resumed")
        check(state == whole[case.strategy], f"resumed it ends with {state}, not {whole[case.strategy]}")
        return hung, ends


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mpirun")
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins later")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1)))
    parser.add_argument("--only", choices=FAULTS)
    parser.add_argument("--each", action="store_true", help="each fault once, and no other cases")
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    faults = permitted()
    if options.only:
        faults = [fault for fault in faults if fault == options.only]
    if options.each:
        options.cases = len(faults)
    whole = {}
    for strategy in ("data", "pipeline"):
        with tempfile.TemporaryDirectory() as folder:
            whole[strategy] = state_of(Run(options, strategy, PROCESSES, strategy, folder), strategy)
    end = time.monotonic() + options.seconds
    counts = collections.Counter()
    heart = Heartbeat()
    last = collections.defaultdict(lambda: (0.0, -9.0))

    def one(seed):
        if time.monotonic() > end:
            return None
        case = Case(seed, [faults[seed - options.seed]] if options.each else faults)
        try:
            hung, ends = play(options, case, whole, heart)
            last[case.fault] = tuple(map(max, last[case.fault], ends))
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
    heart.process.kill()
    for fault in sorted({fault for fault, _ in counts}):
        seconds, share = last[fault]
        said = "" if fault in UNHARMED else f"; the last ended after {seconds:.1f} s, with {max(share, 0):.2f} of the slack"
        print(f"{fault:10}" + "".join(f"{counts[fault, became]:5} {became}" for became in ("right", "wrong", "launcher")) + said)
    total = sum(counts.values())
    print(f"{total} cases from seed {options.seed} on; resumed with the bits of the undisturbed run wherever right")
    sys.exit(1 if any(became == "wrong" for _, became in counts) or total == 0 else 0)


if __name__ == "__main__":
    main()
