#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks of a GPU and prints tables; PyTorch runs beside them if python3 has it.

    bench/cuda/run.py BUILD_FOLDER RESULTS [--seconds 540] [--batch 128 ...] [--precision bf16 ...]
                      [--rounds 9] [--ready 150] [--without-peers]

First the kernels, whose bandwidth is compared with a device copy in the same run, and what a launch costs.
Then training steps of GoogLeNet: the competitors of a precision and batch size, as many as the GPU's memory
holds, are started, warmed up, and measured in turn, round by round; a line has the median and the spread over
the rounds. Who is not ready in time is left out. Beside the times stand the kernels of a step and the bytes that they
move: ours from the account (measure/account), which counts each operand of a kernel once; PyTorch's by torch.profiler
and, where the driver allows it, CUPTI's counters of the GPU's memory, in a process of its own after the rounds. Logs go to the folder RESULTS, figures to RESULTS.json after
each table, so that what has been measured survives a time limit.
"""

import argparse
import json
import pathlib
import selectors
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PEER = HERE.parent / "peers" / "pytorch_googlenet.py"
PRECISIONS = ["bf16", "tf32", "fp32"]  # and fp16, whose peak is bf16's, where it is asked for
ROUND_S = 0.25  # each competitor takes as many steps a round as fit in here
CONTEXT = 0.8e9  # bytes of a process that uses the GPU
SAMPLE_BYTES = 4 * 10.0e6  # what a competitor needs for a sample in fp32, generously


class Competitor:
    """A process that says what it is on its first line and then answers each "round N" with a line."""

    def __init__(self, name, command, log):
        self.name, self.about, self.rounds, self.steps = name, None, [], 4
        self.log = log / f"{name.replace(' ', '_')}.log"
        with self.log.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=errors, text=True)

    def read(self, seconds):
        """Its next line as JSON; None if it has died or takes longer."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(max(seconds, 0.0)):
                return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def round(self, seconds):
        try:
            self.process.stdin.write(f"round {self.steps}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.read(seconds)

    def fault(self):
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "no answer in time"

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(5 if self.about else 0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def compete(competitors, rounds, patience, deadline):
    """Warms all up, then measures in turn; leaves each competitor's rounds in it."""
    ready = []
    started = min(time.monotonic() + patience, deadline)
    for competitor in competitors:  # they start side by side, and none is measured before all are ready
        competitor.about = competitor.read(started - time.monotonic())
        if not competitor.about:
            competitor.process.kill()
    for competitor in filter(lambda one: one.about, competitors):
        for _ in range(2):
            warm = competitor.round(deadline - time.monotonic())
            if warm:
                competitor.steps = max(2, min(1000, int(ROUND_S / warm["step_s"])))
        if warm:
            ready.append(competitor)
    for number in range(rounds):
        for competitor in ready if number % 2 == 0 else reversed(ready):
            measured = competitor.round(deadline - time.monotonic())
            if measured:
                competitor.rounds.append(measured)
    for competitor in competitors:
        competitor.end()


def median(competitor, key):
    values = [measured[key] for measured in competitor.rounds if key in measured]
    return statistics.median(values) if values else None


def memory_of_gpu():
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        return float(subprocess.run(command, text=True, capture_output=True).stdout.split()[0]) * 2**20
    except (OSError, IndexError, ValueError):
        return 0.0


def specifications(options, batch, precision, machine):
    """(name, command) of each competitor, the first the one that others are compared with."""
    for program in sorted((options.build / "bench").glob(f"bench_googlenet*_{precision}")):
        name = program.name.replace("bench_googlenet", "tandem").replace(f"_{precision}", "")
        yield (f"{name} {precision} {batch}",
               [program, batch, machine["flops"]["bf16" if precision == "fp16" else precision],
                machine["copy_bytes_per_s"]])
    for mode in [] if options.without_peers else ["eager", "channels_last", "compiled"]:
        yield (f"torch {mode} {precision} {batch}",
               [sys.executable, PEER, "--batch", batch, "--precision", precision, "--mode", mode])


def waves(options, machine, capacity):
    """A precision's competitors, in groups that the GPU's memory holds at once; each has the first of ours."""
    for batch in options.batch:
        for precision in options.precision:
            wave, used = [], 0.0
            need = CONTEXT + batch * SAMPLE_BYTES / (2 if precision in ("bf16", "fp16") else 1)
            names = list(specifications(options, batch, precision, machine))
            for place, name in enumerate(names):
                if wave and used + need > capacity:
                    yield batch, wave
                    wave, used = ([names[0]], need) if place > 0 else ([], 0.0)
                wave.append(name)
                used += need
            yield batch, wave


def count_peers(rows, options, deadline):
    """Adds what a step of each of PyTorch's rows consists of, counted in a process of its own after all is measured."""
    for row in rows:
        words = row["name"].split()
        if words[0] != "torch" or not row["step_s"]:
            continue
        command = [sys.executable, PEER, "--batch", words[3], "--precision", words[2], "--mode", words[1], "--count"]
        try:
            run = subprocess.run(command, text=True, capture_output=True,
                                 timeout=max(min(options.ready, deadline - time.monotonic()), 1))
            row |= json.loads(run.stdout.strip().splitlines()[-1])
        except (subprocess.TimeoutExpired, IndexError, ValueError):
            pass  # the table has no number then


def row_of(competitor, batch):
    row = {"name": competitor.name, "batch": batch, "step_s": median(competitor, "step_s")}
    if not row["step_s"]:
        return row | {"fault": competitor.fault()}
    steps = [measured["step_s"] for measured in competitor.rounds]
    row |= {"images_per_s": batch / row["step_s"], "least_s": min(steps), "most_s": max(steps),
            "host_s": median(competitor, "host_s"), "rounds": len(steps), **competitor.about}
    if "roofline_s" in row:
        row["roofline_share"] = row["roofline_s"] / row["step_s"]
    return row


def googlenet(options, machine, log, deadline):
    """Yields the rows of each wave."""
    for batch, wave in waves(options, machine, 0.9 * (options.memory or memory_of_gpu())):
        competitors = [Competitor(name, command, log) for name, command in wave]
        compete(competitors, options.rounds, options.ready, deadline)
        rows = [row_of(competitor, batch) for competitor in competitors]
        ours = {row["name"].split()[-2]: row["step_s"] for row in reversed(rows)
                if row["name"].startswith("tandem ") and row["step_s"]}
        for row in rows:
            precision = row["name"].split()[-2]
            if row["step_s"] and precision in ours:
                row["times_tandem"] = row["step_s"] / ours[precision]
        if not options.without_peers:
            count_peers(rows, options, deadline)
        yield rows


def print_googlenet(rows):
    print(f"\n{'GoogLeNet/CIFAR: model, precision, batch':40} {'ms/step':>8} {'spread':>17} {'images/s':>9}"
          f" {'roofline':>8} {'host us':>8} {'MiB':>7} {'of tandem':>9} {'kernels':>8} {'GB moved':>9}")
    for row in rows:
        if not row["step_s"]:
            print(f"{row['name']:40} failed: {row['fault']}")
            continue
        share = f"{100 * row['roofline_share']:7.1f}%" if "roofline_share" in row else ""
        host = f"{1e6 * row['host_s']:8.1f}" if row["host_s"] else ""
        memory = row.get("used_bytes", row.get("peak_bytes", 0)) / 2**20
        times = f"{row['times_tandem']:8.2f}x" if "times_tandem" in row else ""
        kernels = row["kernels"] if row.get("kernels") else ""
        moved = f"{row['moved_bytes'] / 1e9:9.2f}" if row.get("moved_bytes") else ""
        print(f"{row['name']:40} {1e3 * row['step_s']:8.3f} {1e3 * row['least_s']:8.3f}-{1e3 * row['most_s']:8.3f} "
              f"{row['images_per_s']:9.0f} {share:>8} {host:>8} {memory:7.0f} {times:>9} {kernels:>8} {moved:>9}".rstrip(), flush=True)


def one_shot(program, log, seconds):
    """The JSON that a benchmark of kernels prints, or a fault."""
    try:
        run = subprocess.run([program], text=True, capture_output=True, timeout=max(seconds, 1))
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"fault": str(error)}
    (log / f"{program.name}.log").write_text(run.stdout + run.stderr, encoding="utf-8")
    if run.returncode != 0:
        return {"fault": (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]}
    return json.loads(run.stdout)


def print_kernels(kernels):
    if "fault" in kernels:
        print(f"bench_kernels failed: {kernels['fault']}")
        return
    print(f"device copy {kernels['copy_bytes_per_s'] / 1e9:.0f} GB/s; products "
          + ", ".join(f"{name} {value / 1e12:.0f} TFLOP/s" for name, value in kernels["flops"].items()))
    print(f"{'kernel':40} {'MiB':>6} {'us':>9} {'GB/s':>7} {'of copy':>8}")
    for row in kernels["rows"]:
        print(f"{row['name']:40} {row['bytes'] / 2**20:6.0f} {1e6 * row['seconds']:9.1f} "
              f"{row['bytes'] / row['seconds'] / 1e9:7.0f} {row['share_of_copy']:8.2f}")


def print_launch(launch):
    if "fault" in launch:
        print(f"bench_launch failed: {launch['fault']}")
        return
    print("\nhost time, us: " + ", ".join(f"{name} {1e6 * value:.2f}" for name, value in launch.items()))


def has_torch():
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 1024])
    parser.add_argument("--precision", nargs="+", choices=[*PRECISIONS, "fp16"], default=PRECISIONS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ready", type=float, default=150.0, help="seconds that a competitor has to start")
    parser.add_argument("--memory", type=float, default=0.0, help="the GPU's bytes, if nvidia-smi is wrong")
    parser.add_argument("--without-peers", action="store_true")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    options.results.mkdir(parents=True, exist_ok=True)
    document = options.results.parent / f"{options.results.name}.json"
    programs = options.build / "bench"

    if not options.without_peers and not has_torch():
        print("python3 has no PyTorch that sees the GPU: its columns are left out")
        options.without_peers = True

    result = {"kernels": one_shot(programs / "bench_kernels", options.results, 120)}
    print_kernels(result["kernels"])
    result["launch"] = one_shot(programs / "bench_launch", options.results, 60)
    print_launch(result["launch"])
    fault = any("fault" in result[name] for name in result)
    machine = result["kernels"]
    if "fault" in machine:  # then there is no roofline, but all else
        machine = {"copy_bytes_per_s": 1.0, "flops": dict.fromkeys(PRECISIONS, 1.0)}
    result["googlenet"] = []
    for rows in googlenet(options, machine, options.results, deadline):
        result["googlenet"] += rows
        print_googlenet(rows)
        document.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    document.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    ours = [row for row in result["googlenet"] if row["name"].startswith("tandem")]
    return 1 if fault or not ours or any("fault" in row for row in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
