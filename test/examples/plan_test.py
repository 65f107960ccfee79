#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the example plan, end to end.

    plan_test.py PROGRAM
"""

import json
import xml.etree.ElementTree

import program

LINE = "{} -- {} -- forward_compute_time={}, backward_compute_time={}, activation_size={}, parameter_size=0.000\n"


class Plan(program.ProgramTest):
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

    def placed(self, graph, *more):
        return json.loads(self.output("--place", "--graph", graph, "--devices", 2, "--link-gbps", 25,
                                      "--seconds", 1, "--format", "json", *more))

    def test_help(self):
        self.assertIn("usage: plan", self.output("--help"))

    def test_two_branches_on_two_devices(self):
        result = self.placed(self.graph(2))
        self.assertAlmostEqual(result["speedup"], 210 / 120, places=5)
        self.assertAlmostEqual(result["step"], 0.120, places=9)
        self.assertAlmostEqual(result["one_device"], 0.210, places=9)
        self.assertAlmostEqual(result["lower_bound"], 0.120, places=9)
        self.assertEqual(result["bottleneck"], "longest path")
        placement = result["placement"]
        self.assertEqual(sorted(placement), ["node1", "node2", "node3", "node4"])
        self.assertNotEqual(placement["node2"], placement["node3"])

    def test_a_chain_gains_nothing(self):
        result = self.placed(self.graph(1))
        self.assertEqual(result["speedup"], 1)
        self.assertEqual(set(result["placement"].values()), {0})

    def test_a_slow_link_is_not_worth_it(self):
        graph = self.graph(2, "1000000000.000")  # 40 ms at 25 GB/s
        fast, slow = self.placed(graph), self.placed(graph, "--latency-us", 100000)
        self.assertLess(fast["speedup"], 210 / 120)
        self.assertEqual(slow["speedup"], 1)
        self.assertGreaterEqual(slow["step"], slow["lower_bound"])

    def test_memory(self):
        graph = self.graph(2, "1000000000.000")
        result = self.placed(graph, "--memory", "3GB", "--latency-us", 100000)
        devices = list(result["placement"].values())
        self.assertLessEqual(max(devices.count(0), devices.count(1)), 3)  # though one would be faster
        self.assertLess(result["speedup"], 1)
        self.assertIn("bytes", self.sentence("--place", "--graph", graph, "--devices", 2, "--link-gbps",
                                             25, "--memory", "1GB", "--seconds", 0.1))

    def test_networks_of_the_library(self):
        for net, machine, most in [("inception_v3", "dgx-1-v100", 1.6), ("googlenet", "two-cpus", 2),
                                   ("resnet50", "dgx-a100", 1.2), ("resnet18", "pcie-box", 1.2)]:
            with self.subTest(net=net):
                result = json.loads(self.output("--place", "--net", net, "--machine", machine, "--devices", 2,
                                                "--batch-per-worker", 32, "--seconds", 0.5, "--format", "json"))
                self.assertGreaterEqual(result["speedup"], 1)
                self.assertLessEqual(result["speedup"], result["most_speedup"])
                self.assertLess(result["most_speedup"], most)
                self.assertEqual(result["placement"]["input"] in (0, 1), True)
        chain = json.loads(self.output("--place", "--net", "vgg16", "--machine", "dgx-h100", "--devices", 2,
                                       "--precision", "bf16", "--format", "json"))
        self.assertEqual(chain["speedup"], 1)

    def searched(self, *words):
        return json.loads(self.output("--machine", "dgx-1-v100", "--format", "json", *words))

    def test_search(self):
        result = self.searched("--net", "inception_v3", "--devices", "1..256",
                               "--epochs", "2048:4,4096:7,8192:12,16384:23")
        self.assertEqual([own["devices"] for own in result["results"]], [1, 2, 4, 8, 16, 32, 64, 128, 256])
        for own in result["results"]:
            possible = [plan for plan in own["plans"] if "problem" not in plan and "late_gradients" not in plan]
            for plan in own["plans"]:
                self.assertEqual(plan.get("extrapolated", False), "problem" not in plan
                                 and not 2048 <= 64 * plan["workers"] <= 16384)
            times = [plan["C"] for plan in possible]
            self.assertEqual(times, sorted(times))
            data = [plan for plan in possible if plan["devices_per_worker"] == 1]
            self.assertLessEqual(times[0], data[0]["C"])
            for plan in possible:
                self.assertEqual(plan["workers"] * plan["devices_per_worker"], own["devices"])
                self.assertAlmostEqual(plan["T"] * plan["S"] * plan["E"], plan["C"], delta=1e-6 * plan["C"])
        self.assertEqual([own["devices"] for own in result["results"] if own.get("hybrid_gain", -1) > 0],
                         [64, 128, 256])
        self.assertEqual(result["recommended"], result["results"][-1]["plans"][0]["strategy"])
        self.assertTrue(result["recommended"].startswith("Hybrid<DataParallel<"))

        self.assertIn("of all tensors", result["sources"]["memory"])
        self.assertIn("15.7 Top/s (fp32)", result["sources"]["costs"])

    def test_late_gradients(self):
        words = ("--net", "vgg16", "--devices", 4, "--memory", "100GB")
        shown, asked = self.searched(*words), self.searched(*words, "--late-gradients")
        late = [plan for plan in shown["results"][0]["plans"] if "late_gradients" in plan]
        self.assertIn("Pipeline<PipeDream, 1, ", late[0]["strategy"] + late[1]["strategy"])
        self.assertNotIn("late_gradients", shown["results"][0]["plans"][0])
        times = [plan["C"] for plan in asked["results"][0]["plans"] if "problem" not in plan]
        self.assertEqual(times, sorted(times))
        self.assertIn("--late-gradients goes with", self.sentence("--late-gradients", "--partition", "1,2", "--parts", 1))

    def test_a_placement_is_a_type(self):
        words = ("--place", "--net", "inception_v3", "--machine", "dgx-1-v100", "--devices", 2, "--seconds", 1)
        text = self.output(*words)
        self.assertIn("\ninline constexpr auto table = place<Net>({{\"", text)
        self.assertIn("\nusing Strategy = ModelParallel<Placed<table>>;  // in the network's order: ", text)
        self.assertIn("place<Net>({{", json.loads(self.output(*words, "--format", "json"))["type"])
        chain = self.output("--place", "--net", "vgg16", "--machine", "dgx-1-v100", "--devices", 2, "--seconds", 1)
        self.assertNotIn("place<Net>", chain)

    def test_search_of_a_measured_graph(self):
        result = self.searched("--graph", self.graph(3), "--devices", 2, "--samples", 6400)
        data = [plan for plan in result["results"][0]["plans"] if plan["strategy"] == "DataParallel<2>"][0]
        self.assertAlmostEqual(data["T"], 0.300, places=9)
        self.assertAlmostEqual(data["S"], 50)
        self.assertIn("graph.txt", result["sources"]["costs"])
        self.assertIn("outputs of live microbatches", result["sources"]["memory"])
        self.assertIn("no points", result["sources"]["epochs"])

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

    def test_search_of_a_profile(self):
        result = self.searched("--profile", self.profile(), "--devices", 2, "--batch-per-worker", 10)
        of = {plan["strategy"]: plan for plan in result["results"][0]["plans"]}
        self.assertAlmostEqual(of["DataParallel<2>"]["T"], 0.040, places=4)  # two nodes, both ways, 10 samples
        self.assertAlmostEqual(of["ModelParallel<Split<1>, Split<1>>"]["T"], 0.040, places=4)
        self.assertIn("profile.json, measured", result["sources"]["costs"])
        self.assertIn("1 GB/s", result["sources"]["links"])

    def test_pictures(self):
        svg, trace = self.folder / "step.svg", self.folder / "step.json"
        for words in [("--profile", self.profile(), "--machine", "two-cpus", "--devices", 2, "--batch-per-worker", 8),
                      ("--place", "--graph", self.graph(2), "--devices", 2, "--link-gbps", 25, "--seconds", 0.1)]:
            with self.subTest(words=words):
                self.output(*words, "--svg", svg, "--trace", trace)
                self.assertEqual(xml.etree.ElementTree.parse(svg).getroot().tag.split("}")[-1], "svg")
                passes = [event for event in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
                          if event["ph"] == "X"]
                self.assertGreaterEqual(len(passes), 2)  # forward and backward
                svg.unlink()
        self.assertIn("cannot write", self.sentence(*words, "--svg", self.folder / "no" / "step.svg"))

    def test_search_in_words(self):
        text = self.output("--net", "googlenet", "--machine", "two-cpus", "--devices", 2)
        self.assertIn("using Strategy = ", text)
        small = self.output("--net", "vgg16", "--machine", "dgx-a100", "--devices", 8, "--memory", "1MB")
        self.assertIn("nothing fits", small)

    def test_text(self):
        text = self.output("--place", "--graph", self.graph(2), "--devices", 2, "--link-gbps", 25)
        self.assertTrue(text.startswith("speedup 1.75: 120 ms a step, 210 ms on one device\n"), text)
        self.assertIn("device 1, busy 75 %:", text)

    def test_partition(self):
        self.assertEqual(json.loads(self.output("--partition", "3,1,4,1,5", "--parts", 2, "--format", "json")),
                         {"max_load": 8, "sizes": [3, 2]})
        self.assertEqual(self.output("--partition", "0.5,0.25", "--parts", 1),
                         "sizes 2; the heaviest part has 0.75\n")

    def test_faults_are_one_sentence(self):
        graph = self.graph(2)
        bad = self.folder / "bad.txt"
        bad.write_text("node1 -- Conv2d -- forward_compute_time=x\n", encoding="utf-8")
        for words, sought in [
                ((), "give --net, --graph or --profile"),
                (("--place",), "--devices"),
                (("--net", "vgg16", "--machine", "dgx-a100"), "--devices"),
                (("--net", "vgg16", "--machine", "two-cpus", "--devices", 4), "fewer devices"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", "8..4"), "--devices"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2048), "1024"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2, "--epochs", "64"), "column"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2, "--link-gbps", 1), "--place"),
                (("--place", "--devices", 2, "--net", "x", "--machine", "dgx-a100"), "inception_v3"),
                (("--place", "--devices", 2, "--net", "vgg16", "--machine", "x"), "dgx-a100"),
                (("--place", "--devices", 2, "--net", "vgg16"), "--machine"),
                (("--place", "--devices", 2, "--graph", graph), "--link-gbps"),
                (("--place", "--devices", 2, "--net", "vgg16", "--machine", "dgx-a100", "--precision", "x"), "tf32"),
                (("--place", "--devices", 2, "--net", "vgg16", "--machine", self.folder / "no.json"), "no.json"),
                (("--plaice",), "--plaice"),
                (("--partition", "3,x", "--parts", 1), "column 3"),
                (("--partition", "3,,1", "--parts", 1), "column 3"),
                (("--partition", "3,-1", "--parts", 1), "column 3"),
                (("--partition", "3,1", "--parts", 3), "only 2 loads"),
                (("--partition", "3,1"), "--parts"),
                (("--partition", "3,1", "--parts", "1.5"), "whole number"),
                (("--partition", "3,1", "--parts", 1, "--devices", 2), "--partition goes with"),
                (("--partition", "3,1", "--parts", 1, "--format", "xml"), "json"),
                (("--place", "--graph", graph, "--devices", 1, "--link-gbps", 1), "--devices"),
                (("--place", "--graph", graph, "--devices", 2, "--link-gbps", 0), "--link-gbps"),
                (("--place", "--graph", graph, "--devices", 2, "--link-gbps"), "lacks its value"),
                (("--place", "--graph", graph, "--devices", 2, "--link-gbps", 1, "--memory", "x"), "--memory"),
                (("--place", "--graph", graph, "--devices", 2, "--link-gbps", 1, "--optimizer", "x"), "adam"),
                (("--place", "--graph", self.folder / "no", "--devices", 2, "--link-gbps", 1), "no such file"),
                (("--place", "--graph", bad, "--devices", 2, "--link-gbps", 1), "line 1, column"),
        ]:
            with self.subTest(words=words):
                self.assertIn(sought, self.sentence(*words))


if __name__ == "__main__":
    program.main()
