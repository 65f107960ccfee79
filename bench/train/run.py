#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps on Host against PyTorch: GoogLeNet for CIFAR, also against the convolutions alone, a GPT, an LSTM, GNMT.

    bench/train/run.py BUILD_FOLDER RESULTS [--network googlenet|gpt|gpt_small|lstm|lstm_projected|gnmt]
                       [--python VENV/bin/python]
                       [--batch 32 128] [--precision fp32 bf16] [--threads 1 2] [--rounds 7]
                       [--only steps|devices] [--without-peers] [--only-peers] [--small-pages]

Builds nothing: `cmake --preset release && cmake --build build --target bench_googlenet bench_convolutions_alone` does,
with libdnnl-dev installed, or `bench_gpt`, `bench_lstm`; BUILD_FOLDER may also be a folder with the programs. PyTorch is
python3's, or that of --python: `python3 -m venv VENV && VENV/bin/pip install torch numpy` for the current release.

Networks: gpt is nanoGPT's, 6 layers, 6 heads, 384 channels, 256 tokens of 65 kinds, batch 4; gpt_small that of
its recipe for a CPU, 4 layers, 4 heads, 128 channels, 64 tokens, batch 12. PyTorch's modes: eager and (of images)
channels_last without, compiled with torch.compile; in bf16 these are autocast, while master and compiled_master
have weights in bf16 with a copy in fp32 for the optimizer. --only-peers runs PyTorch alone, for its steps;
--small-pages runs tandem once more, where Linux gives it no huge pages.

lstm is one layer of 1024 numbers on 1024, 25 rows of 32 samples, and lstm_projected one of 512 on 512 by way of 2048,
20 rows: forward and the gradients of weights and input, no optimizer; in bf16 PyTorch's weights are bf16.

gnmt is GNMT with 4 layers of 512 numbers on either side, whose batches bench_gnmt --write has put into --data; a step
is a pass over all of them, a word a token of either language, without padding. PyTorch's modes: packed runs the
encoder's first layer over real lengths, as NVIDIA's does, padded over the padding, which is faster where oneDNN
computes it; master and packed_master have weights in bf16 with a copy in fp32. The fastest counts.

Steps: for each batch, precision and number of threads all competitors are started and warmed up; then they take
turns, one at work at a time, a second or a step each, in one order and then in the reverse. A line has the median
and the spread over the rounds. Devices: DataParallel<2> with a thread a device, against two processes that each
train alone on half of the batch at the same time; likewise PyTorch's DistributedDataParallel over gloo.

Prints tables and whether each bar is met; logs go to the folder RESULTS, figures to RESULTS.json after each
table. Ratios are of medians of wall time; with --clock cpu of CPU time, which other jobs on the machine disturb
less and which says something for one thread only; devices are always compared by wall time. Exits with 1 if a
bar is missed.
"""

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

from competitor import Competitor, compete

PEERS = pathlib.Path(__file__).resolve().parent.parent / "peers"
ALONE = "the convolutions alone"
# prctl(PR_SET_THP_DISABLE): of what is executed
SMALL_PAGES = [sys.executable, "-c", "import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); "
                                     "os.execv(sys.argv[1], sys.argv[1:])"]
DEVICES_BAR = 0.98


@dataclasses.dataclass
class Network:
    program: str  # of tandem's
    peer: str  # of PyTorch's
    flags: list  # of both
    modes: dict  # of PyTorch: names
    default_modes: list
    batches: list
    bars: dict  # a precision: a peer: at least
    unit: str = "images"
    units: int = 1  # of a sample


def gpt(size, batch, tokens):
    return Network("bench_gpt", "pytorch_gpt.py", ["--size", size],
                   {"eager": "eager", "compiled": "compiled", "master": "bf16 weights",
                    "compiled_master": "compiled, bf16 weights"},
                   ["eager", "compiled", "master", "compiled_master"], [batch],
                   {"fp32": {"PyTorch": 1.25}, "bf16": {"PyTorch": 1.3}}, "tokens", tokens)


def lstm(size, rows, bars):
    return Network("bench_lstm", "pytorch_lstm.py", ["--size", size], {"eager": "nn.LSTM"}, ["eager"], [32], bars,
                   "rows", rows)


GNMT = Network("bench_gnmt", "pytorch_gnmt.py", [],
               {"padded": "padded", "packed": "packed", "master": "padded, bf16 weights",
                "packed_master": "packed, bf16 weights"},
               ["padded", "packed", "master", "packed_master"], [32], {"fp32": {"PyTorch": 1.3}, "bf16": {"PyTorch": 1.8}},
               "words")

NETWORKS = {
    "googlenet": Network("bench_googlenet", "pytorch_googlenet.py", [],
                         {"eager": "NCHW", "channels_last": "channels-last", "compiled": "compiled, channels-last"},
                         ["eager", "channels_last"], [32, 128],
                         {"fp32": {"PyTorch": 1.3, ALONE: 0.85}, "bf16": {"PyTorch": 1.5}}),
    "gpt": gpt("gpt", 4, 256),
    "gpt_small": gpt("gpt_small", 12, 64),
    "lstm": lstm("lstm", 25, {"fp32": {"PyTorch": 1.15}, "bf16": {"PyTorch": 1.8}}),
    "lstm_projected": lstm("lstm_projected", 20, {"fp32": {"PyTorch": 1.9}, "bf16": {}}),
    "gnmt": GNMT,
}


def program(options, name):
    for folder in [options.build / "bench", options.build]:
        if (folder / name).exists():
            return folder / name
    sys.exit(f"{options.build} has no {name}: cmake --build {options.build} --target {name}")


def torch_command(options, batch, precision, mode, threads, *more):
    network = NETWORKS[options.network]
    device = ["--device", "cpu"] if options.network == "googlenet" else []
    return [options.python, PEERS / network.peer, *network.flags, *device, "--batch", batch, "--precision", precision,
            "--mode", mode, "--threads", threads, *more]


def environment(options):
    """Of PyTorch's processes. With --tuned-malloc glibc keeps freed memory: no page faults in a step."""
    if not options.tuned_malloc:
        return None
    return os.environ | {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34),
                         "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def step_competitors(options, batch, precision, threads):
    network = NETWORKS[options.network]
    flags = ["--batch", batch, "--precision", precision, "--threads", threads]
    case = f"{precision} {batch} {threads}"
    if not options.only_peers:
        own = [program(options, network.program), *network.flags, "--kernels", options.kernels, *flags]
        yield Competitor(f"tandem {case}", [own], [batch], options.results)
        if options.small_pages:
            yield Competitor(f"tandem, small pages {case}", [[*SMALL_PAGES, *own]], [batch], options.results)
        if ALONE in network.bars["fp32"]:
            yield Competitor(f"convolutions alone {case}", [[program(options, "bench_convolutions_alone"), *flags]],
                             [batch], options.results)
    for mode in [] if options.without_peers else options.modes:
        if mode.endswith("master") and precision != "bf16":
            continue
        yield Competitor(f"PyTorch {network.modes[mode]} {case}",
                         [torch_command(options, batch, precision, mode, threads)], [batch], options.results,
                         environment(options))


def device_competitors(options, batch, precision, folder):
    ours = [program(options, "bench_googlenet"), "--kernels", options.kernels, "--precision", precision]
    half, case = batch // 2, f"{precision} {batch} 1+1"
    yield Competitor(f"tandem DataParallel<2> {case}", [[*ours, "--batch", batch, "--devices", 2]], [batch],
                     options.results)
    yield Competitor(f"tandem twice alone {case}", [[*ours, "--batch", half]] * 2, [half] * 2, options.results)
    if options.without_peers:
        return
    mode = options.modes[-1]
    together = [torch_command(options, batch, precision, mode, 1, "--ranks", 2, "--rank", rank, "--meet",
                              f"{folder}/{case.replace(' ', '_')}") for rank in range(2)]
    alone = torch_command(options, half, precision, mode, 1)
    yield Competitor(f"PyTorch DDP {case}", together, [half] * 2, options.results, environment(options))
    yield Competitor(f"PyTorch twice alone {case}", [alone] * 2, [half] * 2, options.results, environment(options))


def row_of(competitor, clock, network):
    row = {"name": competitor.name, "about": competitor.about}
    if not competitor.rounds:
        return row | {"seconds": None, "fault": competitor.fault()}
    seconds = [measured[clock] for measured in competitor.rounds]
    units = competitor.about[0].get("units", sum(competitor.shares) * network.units)
    return row | {"seconds": competitor.median(clock), "least_s": min(seconds), "most_s": max(seconds),
                  "wall_s": competitor.median("step_s"), "cpu_s": competitor.median("cpu_s"),
                  f"{network.unit}_per_s": units / competitor.median(clock),
                  "rounds": competitor.rounds}


def print_rows(rows, title, network):
    """The first line is what the last column compares with: how many times as long others take. Operations are
    those of the network, as its graph counts them."""
    against = "of tandem" if rows[0]["name"].startswith("tandem") else "of first"
    rate = f"{network.unit}_per_s"
    print(f"\n{title:46} {'ms/step':>9} {'spread':>19} {'CPU ms':>9} {network.unit + '/s':>9} {'GFLOP/s':>8} "
          f"{against:>9}")
    first = rows[0]["seconds"]
    flops = next((row["about"][0]["flops"] for row in rows if row["seconds"] and "flops" in row["about"][0]), 0.0)
    for row in rows:
        if not row["seconds"]:
            print(f"{row['name']:46} failed: {row['fault']}")
            continue
        times = f"{row['seconds'] / first:8.2f}x" if first else ""
        print(f"{row['name']:46} {1e3 * row['seconds']:9.1f} {1e3 * row['least_s']:9.1f}-{1e3 * row['most_s']:9.1f} "
              f"{1e3 * row['cpu_s']:9.1f} {row[rate]:9.1f} {flops / row['seconds'] / 1e9:8.1f} {times:>9}")


def bar(what, ratio, at_least):
    return {"what": what, "ratio": ratio, "at_least": at_least, "met": ratio is not None and ratio >= at_least}


def step_bars(rows, precision, network):
    """tandem's share of each peer's time; PyTorch's is its fastest mode."""
    if not rows[0]["name"].startswith("tandem"):
        return
    case = rows[0]["name"].removeprefix("tandem ")
    peers = {peer: [row["seconds"] for row in rows if row["name"].startswith(start) and row["seconds"]]
             for peer, start in [("PyTorch", "PyTorch"), (ALONE, "convolutions alone")]}
    for peer, at_least in network.bars[precision].items():
        if peers[peer]:
            ours = rows[0]["seconds"]
            yield bar(f"{case}: against {peer}", min(peers[peer]) / ours if ours else None, at_least)


def device_bars(rows):
    ours, alone = rows[0]["seconds"], rows[1]["seconds"]
    yield bar(f"{rows[0]['name']} against two workers alone", alone / ours if ours and alone else None, DEVICES_BAR)


def print_bars(bars):
    print(f"\n{'bar':66} {'is':>6} {'wanted':>7}")
    for one in bars:
        ratio = f"{one['ratio']:6.3f}" if one["ratio"] is not None else "failed"
        print(f"{one['what']:66} {ratio} {one['at_least']:7.2f}  {'met' if one['met'] else 'MISSED'}")


def torch_version(python):
    run = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], text=True, capture_output=True)
    return run.stdout.strip() if run.returncode == 0 else None


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "")
    return {"processor": model or platform.processor(), "cpus": len(os.sched_getaffinity(0)),
            "load": os.getloadavg(), "time": time.strftime("%Y-%m-%d %H:%M:%S")}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--python", default="python3", help="the interpreter that has PyTorch")
    parser.add_argument("--network", choices=list(NETWORKS), default="googlenet")
    parser.add_argument("--batch", type=int, nargs="+", help="default: the network's")
    parser.add_argument("--precision", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kernels", choices=["onednn", "portable"], default="onednn")
    parser.add_argument("--modes", nargs="+", help="of PyTorch; the last is the one of its two processes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--only", choices=["steps", "devices"])
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that a warm-up or a round may take")
    parser.add_argument("--tuned-malloc", action="store_true", help="give PyTorch an allocator that keeps memory")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("build/translation/gnmt.batches"),
                        help="of gnmt: what bench_gnmt --write has written")
    parser.add_argument("--small-pages", action="store_true", help="tandem without huge pages, too")
    parser.add_argument("--without-peers", action="store_true", help="without PyTorch")
    parser.add_argument("--only-peers", action="store_true", help="PyTorch alone")
    options = parser.parse_args()
    network = NETWORKS[options.network]
    if options.network == "gnmt":
        network.flags = ["--data", options.data]
    options.batch = options.batch or network.batches
    options.modes = options.modes or network.default_modes
    unknown = [mode for mode in options.modes if mode not in network.modes]
    if unknown:
        parser.error(f"--modes {unknown[0]}: of {options.network} there are {', '.join(network.modes)}")
    if options.only_peers or options.network != "googlenet":
        if options.only == "devices":
            parser.error("--only devices is for googlenet, with tandem")
        options.only = "steps"
    return options


def main():
    options = parse()
    network = NETWORKS[options.network]
    options.results.mkdir(parents=True, exist_ok=True)
    document = options.results.parent / f"{options.results.name}.json"
    clock_of_steps = "step_s" if options.clock == "wall" else "cpu_s"
    version = None if options.without_peers else torch_version(options.python)
    if not options.without_peers and not version:
        print(f"{options.python} has no PyTorch: its lines are left out (--python names another interpreter)")
        options.without_peers = True
    here = machine()
    result = {"command": sys.argv, "machine": here, "torch": version, "clock": options.clock, "rows": [], "bars": []}
    print(f"{here['processor']}, {here['cpus']} CPUs, load {here['load'][0]:.1f}; PyTorch {version}; "
          f"medians of {options.rounds} rounds, {options.clock} time")

    def measure(competitors, title, clock, bars_of):
        competitors = list(competitors)
        compete(competitors, options.rounds, options.timeout)
        rows = [row_of(competitor, clock, network) for competitor in competitors]
        result["rows"] += rows
        result["bars"] += bars_of(rows)
        print_rows(rows, title, network)
        sys.stdout.flush()
        result["load_at_end"] = os.getloadavg()
        document.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    if options.only != "devices":
        for batch, precision, threads in itertools.product(options.batch, options.precision, options.threads):
            measure(step_competitors(options, batch, precision, threads), "precision, batch, threads",
                    clock_of_steps, lambda rows: list(step_bars(rows, precision, network)))
    if options.only != "steps":
        with tempfile.TemporaryDirectory() as folder:
            for batch, precision in itertools.product(options.batch, options.precision):
                measure(device_competitors(options, batch, precision, folder), "two devices: precision, batch, threads",
                        "step_s", lambda rows: list(device_bars(rows)))
    if result["bars"]:
        print_bars(result["bars"])
    failed = any(row["name"].startswith("tandem") and not row["seconds"] for row in result["rows"])
    return 1 if failed or not all(one["met"] for one in result["bars"]) else 0


if __name__ == "__main__":
    sys.exit(main())
