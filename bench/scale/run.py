#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several processes on Host: what they cost, what they hide, and what a failure costs.

    python3 bench/scale/run.py BUILD_FOLDER RESULTS [--python VENV/bin/python] [--rounds 9] [--batch 32]
                       [--only devices network checkpoint restart start_up sums] [--mpirun mpirun]

Builds nothing: `cmake --preset release -G Ninja && cmake --build build --target bench_scale bench_checkpoint bench_all_reduce`
does, with libopenmpi-dev, libdnnl-dev and libbenchmark-dev; BUILD_FOLDER may also be a folder with the programs. What is not
there, is not permitted or does not answer is left out, and says so.

devices: GoogLeNet under DataParallel<2>, a thread a device: as threads, as two processes of mpirun, and PyTorch's
DistributedDataParallel over gloo, channels-last. All stay alive and take turns, a second or a step each, in one order and
then in the reverse. A ratio is the median over the rounds of those within a round; those of CPU time, which other jobs
disturb less, stand beside it.

network: the same two processes in two network namespaces (root only), joined by veth that tc's tbf holds to --mbit
(1000): in turn a step, a step of each process for itself on half of the batch, and the sum of all gradients alone.
Hidden is 1 - (step - step for itself) / sum: what of the transfer the step is not longer for.

checkpoint: bench_checkpoint, what one beside training keeps the ranks waiting. restart: two processes that write a
checkpoint after each step; one is killed behind --steps (4); seconds until mpirun has ended, and until the command
started again has done its first step, and the bytes that each has read then. start_up: bench_start_up, counts for 1,024
and 65,536 ranks, which wants the target emulated_bench_start_up. sums:
reduce_in_tree() of two ranks against a plain loop and memcpy, bench_all_reduce.

Figures go to RESULTS/results.json, logs beside it. Exits with 1 if a bar is missed, or something failed.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "train"))
from competitor import Competitor, compete  # noqa: E402

PEER = HERE.parent / "peers" / "pytorch_googlenet.py"
PARTS = ["devices", "network", "checkpoint", "restart", "start_up", "sums"]
THREADS, PROCESSES, DDP = "two threads", "two MPI processes", "PyTorch DDP over gloo"
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")
LIMIT = 300  # seconds for an answer


class Bench:
    def __init__(self, options):
        self.options, self.failed, self.figures = options, False, {"load": {}}

    def program(self, name):
        for folder in ["bench", "test/cuda", "."]:
            for path in [self.options.build / folder / name, self.options.build / folder / f"emulated_{name}"]:
                if path.exists():
                    return path
        print(f"skipped: {self.options.build} has no {name}")
        return None

    def bar(self, text, value, bound, at_most):
        met = value <= bound if at_most else value >= bound
        self.failed = self.failed or not met
        print(f"{text}: {value:.3f}, {'at most' if at_most else 'at least'} {bound}: {'met' if met else 'MISSED'}")

    def fail(self, text):
        self.failed = True
        print(f"failed: {text}")

    def mpirun(self, *more):
        return [self.options.mpirun, "-n", "2", *more]

    def compete(self, competitors):
        """Their medians are printed; whether all have answered."""
        before = os.getloadavg()[0]
        compete(competitors, self.options.rounds, LIMIT)
        print(f"load average {before:.1f} to {os.getloadavg()[0]:.1f}")
        for one in competitors:
            if not one.rounds:
                self.fail(f"{one.name}: {one.fault()}")
                continue
            times = [row["step_s"] for row in one.rounds]
            self.figures[one.name] = one.rounds
            print(f"{one.name:<28} {1e3 * one.median():8.1f} ms  {1e3 * min(times):8.1f} to {1e3 * max(times):8.1f}"
                  f"  CPU {1e3 * one.median('cpu_s'):8.1f} ms")
        return all(one.rounds for one in competitors)

    def devices(self):
        program = self.program("bench_scale_googlenet")
        if not program:
            return
        flags, batch = ["--batch", self.options.batch], [self.options.batch]
        competitors = [Competitor(THREADS, [[program, *flags]], batch, self.options.results, ENVIRONMENT),
                       Competitor(PROCESSES, [self.mpirun("--mca", "btl", "vader,self", program, *flags)], batch,
                                  self.options.results, ENVIRONMENT)]
        meet = tempfile.TemporaryDirectory()
        if has_torch(self.options.python):
            command = [self.options.python, PEER, *flags, "--precision", "fp32", "--mode", "channels_last", "--device", "cpu",
                       "--ranks", "2", "--meet", f"{meet.name}/meet", "--rank"]
            competitors.append(Competitor(DDP, [[*command, "0"], [*command, "1"]], [self.options.batch / 2] * 2,
                                          self.options.results, ENVIRONMENT))
        else:
            print(f"skipped: {DDP}, since {self.options.python} has no torch (--python)")
        self.compete(competitors)
        meet.cleanup()
        rounds = {one.name: one.rounds for one in competitors}
        if rounds[THREADS] and rounds[PROCESSES]:
            print(f"the same in CPU time: {ratio(rounds[PROCESSES], rounds[THREADS], 'cpu_s'):.3f}")
            self.bar("two MPI processes, of two threads", ratio(rounds[PROCESSES], rounds[THREADS]), 1.02, True)
        if rounds.get(DDP) and rounds[PROCESSES]:
            print(f"the same in CPU time: {ratio(rounds[DDP], rounds[PROCESSES], 'cpu_s'):.3f}")
            self.bar("PyTorch DDP, of two MPI processes", ratio(rounds[DDP], rounds[PROCESSES]), 1.35, False)

    def network(self):
        program = self.program("bench_scale_googlenet")
        if not program:
            return
        with tempfile.TemporaryDirectory() as folder:
            try:
                net = Namespaces(self.options.mbit, pathlib.Path(folder))
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"skipped: network namespaces: {str(getattr(error, 'stderr', '') or error).strip()}")
                return
            try:
                names = {"step": "step over the network", "alone": "step of each for itself", "transfer": "sum alone"}
                competitors = {what: Competitor(name, [net.command(self.options.mpirun, program, "--what", what, "--batch",
                                                                   self.options.batch)],
                                                [self.options.batch], self.options.results, ENVIRONMENT)
                               for what, name in names.items()}
                if self.compete(list(competitors.values())):
                    step, alone, transfer = (competitors[what].rounds for what in names)
                    hidden = statistics.median(1 - (s["step_s"] - a["step_s"]) / t["step_s"]
                                               for s, a, t in zip(step, alone, transfer))
                    cpu = statistics.median((s["cpu_s"] - a["cpu_s"]) / 2 for s, a in zip(step, alone))
                    print(f"CPU time of a step over that of one for itself, a process: {1e3 * cpu:.1f} ms")
                    if hidden > 1.05:  # half a step for itself was slower than half over the network
                        self.fail(f"hidden: {hidden:.3f} cannot be; other jobs are in the figures")
                    else:
                        self.bar(f"hidden at {self.options.mbit} Mbit/s", hidden, 0.9, False)
            finally:
                net.remove()

    def checkpoint(self):
        program = self.program("bench_checkpoint")
        if not program:
            return
        with tempfile.TemporaryDirectory(dir=self.options.results) as folder:
            said = json.loads(output(program, "--batch", self.options.batch, "--steps", 4 * self.options.rounds,
                                     "--folder", folder))
        self.figures["checkpoint"] = said
        print(f"checkpoint of {said['bytes'] / 1e6:.1f} MB: stall {1e3 * said['stall_s']:.1f} ms, save_in() between steps "
              f"{1e3 * said['save_in_s']:.0f} ms")
        self.bar("stall in percent of a step", said["stall_percent"], 2.0, True)

    def restart(self):
        program = self.program("bench_scale_restart")
        if not program:
            return
        with tempfile.TemporaryDirectory(dir=self.options.results) as folder:
            command = list(map(str, self.mpirun("--mca", "btl", "vader,self", program, folder, self.options.batch)))
            with (self.options.results / "restart.log").open("w", encoding="utf-8") as log:
                first, steps, _ = start_and_await(command, self.options.steps, log)
                begin = time.monotonic()
                os.kill(children_of(first.pid)[-1], signal.SIGKILL)
                first.communicate(timeout=LIMIT)
                ended = time.monotonic() - begin
                begin = time.monotonic()
                second, again, loaded = start_and_await(command, 1, log)
                seconds = time.monotonic() - begin
                second.terminate()
                second.communicate(timeout=LIMIT)
        if not steps or not again:
            self.fail("restart: see restart.log")
            return
        self.figures["restart"] = {"ended_s": ended, "first_step_s": seconds, "killed_after": steps[-1],
                                   "first": again[0], "loaded": loaded}
        print(f"killed behind step {steps[-1]}; all had ended after {ended:.1f} s; the first step of the next start is {again[0]}")
        for read, received in loaded:
            print(f"a process has read {read} bytes of tensors and received {received}")
        if again[0] == 1:
            self.fail("restart: it has begun from nothing")
        self.bar("seconds to the first step of a restart", seconds, 30.0, True)

    def start_up(self):
        program = self.program("bench_start_up")
        if not program:
            return
        for line in output(program, 1024).splitlines():
            said = json.loads(line)
            self.figures.setdefault("start_up", []).append(said)
            print(f"{said['ranks']} ranks in {said['processes']} processes: {said['groups']} groups in {said['rounds']} rounds"
                  f"{' (ncclCommSplit: ' + str(said['splits']) + ')' if said['splits'] else ''}; a process reads"
                  f" {said['id_bytes']} bytes of NCCL's ids, and {said['read_bytes'] / 1e6:.1f} MB of each batch; step sums"
                  f" {said['sums_bytes']} bytes, order of an epoch {said['order_bytes']}")
            self.bar("rounds", said["rounds"], 5, True)
            if said["splits"] not in (0, said["rounds"]):
                self.fail("start_up: NCCL's stub was asked for another number of splits")

    def sums(self):
        program = self.program("bench_all_reduce")
        if not program:
            return
        said = json.loads(output(program, "--benchmark_format=json", f"--benchmark_repetitions={self.options.rounds}",
                                 "--benchmark_enable_random_interleaving=true", "--benchmark_min_time=0.05",
                                 "--benchmark_filter=^(tree|plain_loop|copy)/2/"))
        medians = {row["run_name"]: row["cpu_time"] for row in said["benchmarks"] if row.get("aggregate_name") == "median"}
        self.figures["sums"] = medians
        for elements, text in ((4096, "16 KiB"), (6553600, "25 MiB")):
            tree, loop, copy = (medians[f"{name}/2/{elements}"] for name in ("tree", "plain_loop", "copy"))
            print(f"reduce_in_tree of two ranks, {text}: {tree / loop:.2f} of a plain loop, {tree / copy:.2f} of memcpy")


class Namespaces:
    """Two, each with one end of a cable of so many Mbit/s, and a way to start mpirun's processes in them."""

    def __init__(self, mbit, folder):
        self.names = [f"tandem{os.getpid()}{end}" for end in "ab"]
        self.agent = folder / "agent.sh"
        try:
            for name in self.names:
                shell(f"ip netns add {name}")
            shell(f"ip link add e{self.names[0]} netns {self.names[0]} type veth peer name e{self.names[1]} netns {self.names[1]}"
                  .replace("etandem", "td"))
            for number, name in enumerate(self.names):
                link = f"e{name}".replace("etandem", "td")
                for command in ("ip link set lo up", f"ip addr add 10.199.7.{number + 1}/24 dev {link}", f"ip link set {link} up",
                                f"tc qdisc add dev {link} root tbf rate {mbit}mbit burst 256kb latency 50ms"):
                    shell(f"ip netns exec {name} {command}")
        except BaseException:
            self.remove()
            raise
        # In place of ssh: its host, and the command that mpirun wants to run there.
        self.agent.write_text(f"#!/bin/sh\nshift\nexec ip netns exec {self.names[1]} unshare -u sh -c "
                              "\"hostname other && $*\"\n", encoding="ascii")
        self.agent.chmod(0o755)

    def command(self, mpirun, program, *arguments):
        inner = [mpirun, "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_flags", "0x1",
                 "--mca", "btl_tcp_if_include", "10.199.7.0/24", "--mca", "oob_tcp_if_include", "10.199.7.0/24",
                 "-H", "10.199.7.1:1,10.199.7.2:1", "-n", "2", program.resolve(), *arguments]
        return ["ip", "netns", "exec", self.names[0], *map(str, inner)]

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def shell(command):
    subprocess.run(command.split(), check=True, text=True, capture_output=True)


def ratio(ours, others, clock="step_s"):
    return statistics.median(a[clock] / b[clock] for a, b in zip(ours, others))


def output(program, *arguments):
    return subprocess.run([str(program), *map(str, arguments)], env=ENVIRONMENT, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def has_torch(python):
    found = subprocess.run([python, "-c", "import torch.distributed"], check=False, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    return found.returncode == 0


def children_of(pid):
    """Of mpirun: the program's processes, in the order of their numbers."""
    children = [path.read_text(encoding="ascii").split() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")]
    return sorted(int(child) for of_thread in children for child in of_thread)


def start_and_await(command, count, log):
    """The process, the numbers of the steps that it has said, as many as asked for unless it ended, and what it has loaded."""
    run = subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=log)
    steps, loaded = [], []
    while len(steps) < count:
        line = run.stdout.readline()
        if not line:
            break
        if line.startswith("step "):
            steps.append(int(line.split()[1]))
        elif line.startswith("loaded "):
            loaded.append([int(number) for number in line.split()[1:]])
    return run, steps, loaded


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--python", default="python3", help="one that has torch")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4, help="after which a process is killed")
    parser.add_argument("--mbit", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no namespace is left
    options.results.mkdir(parents=True, exist_ok=True)
    bench = Bench(options)
    needs_mpi = {"devices", "network", "restart"}
    for part in options.only:
        print(f"\n{part}", flush=True)
        if part in needs_mpi and not shutil.which(options.mpirun):
            print(f"skipped: {options.mpirun} is not installed")
            continue
        bench.figures["load"][part] = os.getloadavg()[0]
        try:
            getattr(bench, part)()
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            bench.fail(f"{part}: {error}")
        (options.results / "results.json").write_text(json.dumps(bench.figures, indent=1),
                                                      encoding="utf-8")
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
