#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the files that the program plan reads from others, and of two of its own beside each other.

    plan_files_test.py PROGRAM
"""

import json

import plan_cases


def operator(number, colour, backward, latency):
    return {"id": number, "name": f"op{number}", "supportedOnFpga": True, "cpuLatency": 10 * latency,
            "fpgaLatency": latency, "isBackwardNode": backward, "colorClass": colour, "size": 1e9}


class Files(plan_cases.PlanTest):
    def json_file(self, name, value):
        path = self.folder / name
        path.write_text(json.dumps(value, indent=1), encoding="utf-8")
        return path

    def piper(self):
        """The two branches of graph(2)."""
        def layer(number, seconds):
            return {"id": number, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": seconds, "parameterSize": 0.0}]}}
        edges = [(1, 2), (1, 3), (2, 4), (3, 4)]
        return self.json_file("piper.json", {
            "maxDevices": 2, "maxMemoryPerDevice": 1e9, "bandwidth": 25e9, "mbsInBatch": 1,
            "nodes": [layer(1, 0.015), layer(2, 0.090), layer(3, 0.090), layer(4, 0.015)],
            "edges": [{"sourceId": a, "destId": b, "communicationCost": 0.0} for a, b in edges]})

    def instance(self):
        """The same, with a gigabyte for each operator."""
        edges = [(1, 2), (1, 3), (2, 4), (3, 4), (14, 12), (14, 13), (12, 11), (13, 11)]
        return self.json_file("instance.json", {
            "maxSizePerFPGA": 1e9, "maxFPGAs": 2, "maxCPUs": 1,
            "nodes": [operator(n, n, False, 5 if n in (1, 4) else 30) for n in (1, 2, 3, 4)]
            + [operator(10 + n, n, True, 10 if n in (1, 4) else 60) for n in (1, 2, 3, 4)],
            "edges": [{"sourceId": a, "destId": b, "cost": 0.0} for a, b in edges]})

    def placed(self, graph, *more):
        return self.json("--place", "--graph", graph, "--devices", 2, "--link-gbps", 1, "--seconds", 1, "--format",
                         "json", *more)

    def test_graphs_of_others_are_placed(self):
        for graph in (self.graph(2), self.piper(), self.instance()):
            self.assertAlmostEqual(self.placed(graph)["step"], 0.120, places=9, msg=graph)

    def test_what_an_instance_holds(self):
        words = ("--memory", "4GB")  # of eight gigabytes: two nodes on each device
        self.assertEqual(sorted(self.placed(self.instance(), *words)["placement"].values()), [0, 0, 1, 1])
        self.assertIn("bytes", self.sentence("--place", "--graph", self.instance(), "--devices", 2, "--link-gbps", 1,
                                             "--memory", "3GB", "--seconds", 0.1))

    def test_search(self):
        words = ("--machine", "dgx-1-v100", "--devices", 2, "--samples", 6400)
        self.assertIn("using Strategy = ", self.output("--graph", self.piper(), *words))
        self.assertIn("which does not say what of its bytes are weights, so that sums of gradients are not known; "
                      "give --place", self.sentence("--graph", self.instance(), *words))

    def test_faults(self):
        path = self.json_file("bad.json", {"nodes": [{"TMPCs": {}}]})
        self.assertIn("bad.json': line 3, column 3: a node lacks \"id\"; add it",
                      self.sentence("--place", "--graph", path, "--devices", 2, "--link-gbps", 1))

    def test_two_results_beside_each_other(self):
        words = ("--net", "vgg16", "--machine", "dgx-1-v100", "--devices", "1..8", "--format", "json")
        one, other = self.folder / "one.json", self.folder / "other.json"
        one.write_text(self.output(*words), encoding="utf-8")
        self.assertEqual(self.output("--compare", one, one), "nothing differs\n")
        other.write_text(self.output(*words, "--memory", "3GB"), encoding="utf-8")
        text = self.output("--compare", one, other)
        self.assertIn(f"1 devices, SingleDevice<>: cannot be in {other}, a device needs ", text)
        self.assertIn(f"8 devices, DataParallel<8, ShardedParameters>: in {other} only\n", text)  # tried where that does not fit
        self.assertNotIn("sources", text)
        other.write_text(self.output(*words, "--precision", "fp16"), encoding="utf-8")
        text = self.output("--compare", one, other)
        self.assertRegex(text, r"(?m)^8 devices, DataParallel<8>: T 0\.\d+ -> 0\.\d+ \(-\d+(\.\d+)? %\), C ")
        self.assertRegex(text, r"(?m)^sources, costs: computed, .* -> computed, .*\(fp16\)")
        self.assertEqual(len(set(text.splitlines())), len(text.splitlines()))
        self.assertIn("there is no such file", self.sentence("--compare", one, self.folder / "none.json"))
        self.assertIn("line 1, column 1: expected '{'", self.sentence("--compare", one, self.graph(1)))


if __name__ == "__main__":
    plan_cases.main()
