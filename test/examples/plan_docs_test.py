#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/planner.md's figures of the model are what the program plan says.

    plan_docs_test.py PROGRAM

The program schedule lies beside it.
"""

import json
import os
import pathlib
import re
import subprocess

import plan_cases

PAGE = (pathlib.Path(__file__).parents[2] / "docs/planner.md").read_text(encoding="utf-8")


class Documented(plan_cases.PlanTest):
    def shell(self, commands):
        path = f"{pathlib.Path(self.program).resolve().parent}:{os.environ['PATH']}"
        return subprocess.run(["sh", "-e", "-c", commands], cwd=self.folder, env={**os.environ, "PATH": path},
                              text=True, stdout=subprocess.PIPE, timeout=120, check=True).stdout

    def test_commands_print_what_stands_below_them(self):
        examples = re.findall(r"```sh\n([^`]*)```\n\n```\n([^`]*)```", PAGE)
        self.assertGreaterEqual(len(examples), 5)
        for commands, printed in examples:
            with self.subTest(commands):
                lines = self.shell(commands).splitlines()
                self.assertEqual([line for line in printed.splitlines() if line not in [*lines, "..."]], [])

    def test_what_differs_in_half_precision(self):
        command = next(line for line in PAGE.splitlines() if line.startswith("plan --net inception_v3 --machine dgx-1-v100"))
        self.shell(f"{command} --format json > A.json; {command} --precision fp16 --format json > B.json")
        said = re.search(r"^64 devices, DataParallel<64>: [^`]*", PAGE, re.M)[0]
        differs = self.output("--compare", self.folder / "A.json", self.folder / "B.json").splitlines()
        self.assertEqual([" ".join(said.split())], [line for line in differs if line.startswith(said[:35])])

    def test_bounds_of_placements(self):
        row = {name: re.findall(r"[\d.]+", cells) for name, cells in re.findall(r"^\| ([^|]*) \| (.*) \|$", PAGE, re.M)}
        bounds = dict(zip(row["GB/s of the link"], row["no placement has more than"]))
        self.assertEqual(len(bounds), 5)
        net = ("--place", "--machine", "dgx-1-v100", "--devices", 2, "--seconds", 0.1, "--format", "json", "--net")
        for link, most in bounds.items():
            found = self.json(*net, "inception_v3", "--batch-per-worker", 64, "--link-gbps", link, "--latency-us", 0)
            self.assertEqual(f"{found['most_speedup']:.2f}", most)
        most = re.search(r"`plan --place --net gnmt` says ([\d.]+)\s+at most", PAGE)[1]
        self.assertEqual(f"{self.json(*net, 'gnmt')['most_speedup']:.2f}", most)

    def test_pipelines_of_two(self):
        for name, net in (("GNMT", "gnmt"), ("BigLSTM", "big_lstm")):
            words = re.search(rf"^plan (--net {net} .*) --devices [\d.]+ (.*)$", PAGE, re.M)
            plans = self.output(*words[1].split(), "--devices", 2, *words[2].replace('"', "").split()).splitlines()
            best = next(line for line in plans if re.search(r"  Pipeline<(?!Chimera|DualPipe,)", line))
            self.assertIn(f"\n| {name} | {re.split(' {2,}', best.strip())[1]} | 1.", PAGE)

    def test_runs_that_are_computed_again(self):
        net = ("--net", "gpt2", "--machine", "dgx-a100", "--devices", 8, "--batch-per-worker", 64, "--samples", 1000)
        whole, again, step, before = re.search(r"takes ([\d.]+) GB; with `--memory 40GB` [^;]* in ([\d.]+) GB "
                                               r"and ([\d.]+) s a step for ([\d.]+)", " ".join(PAGE.split())).groups()
        for strategy, gigabytes, seconds, more in (
                ("DataParallel<8>", whole, before, ()),
                ("Hybrid<DataParallel<8>, ModelParallel<Auto<1>, Checkpoint<Every<2>>>>", again, step, ("--memory", "40GB"))):
            line = next(line for line in self.output(*net, *more).splitlines() if f"  {strategy}  (" in line)
            milliseconds, *_, memory = line.split()[3:7]
            self.assertEqual((float(memory), round(float(milliseconds) / 1e3, 2)), (float(gigabytes), float(seconds)))


if __name__ == "__main__":
    plan_cases.main()
