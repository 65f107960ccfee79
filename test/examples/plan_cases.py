# SPDX-License-Identifier: Apache-2.0
"""Files that the tests of the program plan give it."""

import json

import program
from program import main  # noqa: F401

LINE = "{} -- {} -- forward_compute_time={}, backward_compute_time={}, activation_size={}, parameter_size=0.000\n"


class PlanTest(program.ProgramTest):
    def graph(self, branches, bytes_of_each="0.000"):
        """A node, so many branches of 30 ms forward and 60 ms backward beside each other, a node."""
        text = LINE.format("node1", "Conv2d", "5.000", "10.000", bytes_of_each)
        last = branches + 2
        for n in range(2, last):
            text += LINE.format(f"node{n}", "Conv2d", "30.000", "60.000", bytes_of_each)
        text += LINE.format(f"node{last}", "Concat", "5.000", "10.000", bytes_of_each)
        for n in range(2, last):
            text += f"\tnode1 -- node{n}\n\tnode{n} -- node{last}\n"
        path = self.folder / "graph.txt"
        path.write_text(text, encoding="utf-8")
        return path

    def profile(self):
        """Two layers of 1 ms a sample each way, one of 1 ms, and no cost of devices beside each other."""
        time = {"fixed": 0, "per_sample": 0.001}
        passes = {"forward": time, "input_gradient": time, "weight_gradient": {"fixed": 0, "per_sample": 0},
                  "added_gradient": {"fixed": 0, "per_sample": 0}}
        times = {"rest": {"fixed": 0, "per_sample": 0}, "update": 0, "nodes": {"0": passes, "1": passes}}
        node = {"name": "0 Linear", "part": 0, "output_bytes": 1000, "parameter_bytes": 4000, "inputs": ""}
        path = self.folder / "profile.json"
        path.write_text(json.dumps({
            "backend": "host", "precision": "fp32", "threads": 1, "samples": "8 16",
            "message": {"bandwidth": 1e9, "latency": 0}, "reduction": {"bandwidth": 1e9, "latency": 0},
            "nodes": {"0": node, "1": {**node, "name": "1 Linear", "part": 1, "inputs": "0"}},
            "alone": times, "together": times}), encoding="utf-8")
        return path

    def table(self, *rows, name="table.csv"):
        path = self.folder / name
        path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
        return path

    def gpipe(self):
        return self.table("0F0,0F1,,,0B0,0B1", ",1F0,1F1,1B0,1B1")
