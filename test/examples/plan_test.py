#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the program plan, end to end.

    plan_test.py PROGRAM
"""

import json
import os
import re
import subprocess
import xml.etree.ElementTree

import plan_cases


class Plan(plan_cases.PlanTest):
    def placed(self, graph, *more):
        return json.loads(self.output("--place", "--graph", graph, "--devices", 2, "--link-gbps", 25,
                                      "--seconds", 1, "--format", "json", *more))

    def test_language_models_on_thousands_of_devices(self):
        words = ("--net", "gpt", "--layers", 96, "--width", 12288, "--heads", 96, "--context", 2048,
                 "--vocabulary", 51200, "--machine", "dgx-a100", "--global-batch", 1536)
        text = self.output(*words, "--devices", 1024)
        self.assertIn("1024 devices of dgx-a100, 174.6 G weights, batch 1536; ", text)
        self.assertIn("\nusing Strategy = Hybrid<DataParallel<32, ShardedState>, Pipeline<Interleaved<", text)
        self.assertNotIn("a plan only", text)
        self.assertIn("a plan only: the library has no sharded gradients beside rows of sequences for it yet; ",
                      self.output(*words, "--devices", 1024, "--shard", "parameters", "--time-chunks", 1))
        self.assertIn("\nwhy, beside the fastest that chooses otherwise\n  with", text)
        found = json.loads(self.output(*words, "--devices", 1024, "--format", "json"))
        seconds = [plan["seconds"] for plan in found["plans"]]
        self.assertEqual(seconds, sorted(seconds))
        given = json.loads(self.output(*words, "--devices", 1024, "--tensor", 8, "--pipeline", 8, "--chunks", 3,
                                       "--microbatch", 1, "--recompute", "full", "--sequence-rows", "yes",
                                       "--shard", "none", "--time-chunks", 1, "--format", "json"))
        self.assertEqual(len(given["plans"]), 1)
        plan = given["plans"][0]
        self.assertEqual([plan[key] for key in ("data", "pipeline", "tensor", "chunks", "microbatch", "recompute",
                                                "sequence_rows", "shard")], [16, 8, 8, 3, 1, "full", True, "none"])
        self.assertGreater(plan["seconds"], seconds[0])
        small = self.output("--net", "gpt2", "--machine", "dgx-a100", "--devices", 8, "--global-batch", 64,
                            "--tensor", 1, "--pipeline", 1)
        self.assertIn("using Strategy = DataParallel<8", small)
        self.assertIn("--global-batch goes with --net gpt", self.sentence(
            "--net", "vgg16", "--machine", "dgx-a100", "--devices", 8, "--global-batch", 64))
        self.assertIn("--devices takes up to 65536, and more with --global-batch only", self.sentence(
            "--net", "vgg16", "--machine", "dgx-a100", "--devices", 65537))

    def test_a_search_on_thousands_of_devices(self):
        words = ("--net", "vgg16", "--machine", "dgx-a100", "--epochs", "2048:4,4096:7,8192:12,16384:23")
        few = self.searched(*words, "--devices", "512..1024")["results"]
        many = self.searched(*words, "--devices", "512..65536")["results"]
        self.assertEqual(many[:2], few)
        self.assertEqual([own["devices"] for own in many], [2 ** n for n in range(9, 17)])
        for own in many[2:]:
            bound, plans = own["bound"], own["plans"]
            self.assertEqual(plans[0]["workers"] * plans[0]["devices_per_worker"], own["devices"])
            self.assertLess(bound["simulated"], bound["workers"])
            self.assertAlmostEqual(plans[0]["C"] / bound["C"] - 1, bound["above"], delta=1e-5 * (1 + bound["above"]))
            self.assertGreaterEqual(bound["above"], 0)
        self.assertRegex(self.output(*words, "--devices", 65536), r"\A65536 devices; none converges before .*, were sums of gradients free; the first takes .* longer; ")

    def test_a_wide_search_finds_what_the_usual_one_does_not_try(self):
        words = ("--net", "resnet50", "--devices", 8, "--batch-per-worker", 512)
        usual, wide = (self.searched(*words, *more)["results"][0]["plans"][0] for more in ((), ("--wide",)))
        self.assertEqual(wide["strategy"], "DataParallel<8, Microbatches<8>>")
        self.assertLess(wide["C"], 0.97 * usual["C"])

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

    def test_language_models(self):
        words = ("--machine", "two-cpus", "--devices", 2, "--batch-per-worker", 12, "--samples", 60000)
        small = ("--layers", 4, "--width", 128, "--heads", 4, "--context", 64, "--vocabulary", 69)
        text = self.output("--net", "gpt", *small, *words)
        self.assertIn("using Strategy = DataParallel<2>;", text)
        self.assertIn("Pipeline<OneFOneB, 4, Split<4>, Split<4>>", text)
        self.assertIn("-  Pipeline<PipeDream, 1, Split<4>, Split<4>>: Shares<W> between stages of an asynchronous "
                      "pipeline: ", text)
        self.assertIn("Pipeline<OneFOneB, 4, Split<27>, Split<25>>",
                      self.output("--net", "gpt2_xl", "--memory", "100GB", *words))

    def test_recurrent_networks_of_any_size(self):
        words = ("--machine", "dgx-1-v100", "--devices", 2, "--samples", 1000, "--memory", "64GB")
        usual = {"gnmt": ("--layers", 4, "--width", 1024, "--context", 50, "--vocabulary", 32000),
                 "big_lstm": ("--layers", 2, "--width", 1024, "--hidden", 8192, "--context", 20, "--vocabulary", 793470)}
        for net, parts in (("gnmt", 2 * 8 + 4), ("big_lstm", 8 + 3)):
            self.assertEqual(self.output("--net", net, *words), self.output("--net", net, *words, *usual[net]))
            deep = self.output("--net", net, *words, "--layers", 8)
            cut = re.search(r"ModelParallel<Split<(\d+)>, Split<(\d+)>>", deep)
            self.assertEqual(int(cut[1]) + int(cut[2]), parts)
        for more, said in ((("gnmt", "--layers", 1), "from 2 on"), (("gnmt", "--hidden", 8), "--hidden goes with"),
                           (("gnmt", "--heads", 8), "--heads goes with --net gpt;"),
                           (("big_lstm", "--vocabulary", 8192), "above 8192")):
            self.assertIn(said, self.sentence("--net", *more, *words))

    def test_tokens_to_a_loss(self):
        words = ("--net", "gpt2", "--devices", "1..64", "--batch-per-worker", 8)
        by_tokens = self.searched(*words, "--tokens", "65536:1e9,524288:2e9")
        by_epochs = self.searched(*words, "--samples", 1e9 / 1024, "--epochs", "64:1,512:2")
        for one, other in zip(by_tokens["results"], by_epochs["results"]):
            for plan, same in zip(one["plans"], other["plans"]):
                self.assertEqual(plan["strategy"], same["strategy"])
                self.assertAlmostEqual(plan.get("C", 0), same.get("C", 0), delta=1e-6 * plan.get("C", 1))
        self.assertIn("of tokens to a loss: 1024 a sample, 1e+09 an epoch", by_tokens["sources"]["epochs"])
        law = self.searched(*words, "--tokens", "65536:1e9", "--critical-batch", 65536)
        for own in law["results"]:
            batch = 8 * 1024 * own["devices"]  # of one replica a device
            data = [plan for plan in own["plans"] if plan["devices_per_worker"] == 1][0]
            self.assertAlmostEqual(data["E"], (1 + batch / 65536) / 2, places=6)
        for more, said in ((("--tokens", "64:2"), "--tokens goes with --net gpt2 or another GPT"),
                           (("--critical-batch", 8), "--critical-batch needs one point of --epochs or --tokens"),
                           (("--critical-batch", 8, "--epochs", "8:1,9:2"), "--critical-batch needs one point")):
            self.assertIn(said, self.sentence("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2, *more))
        self.assertIn("give --epochs or --tokens", self.sentence("--machine", "dgx-a100", *words, "--tokens", "64:2",
                                                                 "--epochs", "64:2"))

    def test_late_gradients(self):
        words = ("--net", "vgg16", "--devices", 4, "--memory", "100GB")
        shown, asked = self.searched(*words), self.searched(*words, "--late-gradients")
        late = [plan for plan in shown["results"][0]["plans"] if "late_gradients" in plan]
        self.assertIn("Pipeline<PipeDream, 1, ", late[0]["strategy"] + late[1]["strategy"])
        self.assertNotIn("late_gradients", shown["results"][0]["plans"][0])
        times = [plan["C"] for plan in asked["results"][0]["plans"] if "problem" not in plan]
        self.assertEqual(times, sorted(times))
        self.assertIn("--late-gradients goes with a search, not with --partition", self.sentence("--late-gradients", "--partition", "1,2", "--parts", 1))

    def test_failures(self):
        words = ("--net", "vgg16", "--devices", 1024)
        safe = self.searched(*words, "--machine", "dgx-a100")["results"][0]
        failing = self.searched(*words, "--machine", "dgx-a100", "--mtbf-hours", 50000, "--checkpoint-seconds", 60,
                                "--restart-seconds", 600)["results"][0]
        share = failing["failures"]["goodput"]
        self.assertNotIn("failures", safe)
        self.assertAlmostEqual(failing["failures"]["seconds_between"], 50000 * 3600 / 1024)
        self.assertTrue(0.95 < share < 0.99, share)
        self.assertAlmostEqual(failing["plans"][0]["C"] * share / safe["plans"][0]["C"], 1, 6)

    def test_a_placement_is_a_type(self):
        words = ("--place", "--net", "inception_v3", "--machine", "dgx-1-v100", "--devices", 2, "--seconds", 1)
        text = self.output(*words)
        self.assertIn("\ninline constexpr auto table = place<Net>({{\"", text)
        self.assertIn("\nusing Strategy = ModelParallel<Placed<table>>;  // placed for the network's order: ", text)
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

    def test_search_of_a_profile(self):
        result = self.searched("--profile", self.profile(), "--devices", 2, "--batch-per-worker", 10)
        of = {plan["strategy"]: plan for plan in result["results"][0]["plans"]}
        self.assertAlmostEqual(of["DataParallel<2>"]["T"], 0.040, places=4)  # two nodes, both ways, 10 samples
        self.assertAlmostEqual(of["ModelParallel<Split<1>, Split<1>>"]["T"], 0.040, places=4)
        self.assertIn("profile.json, measured", result["sources"]["costs"])
        self.assertIn("1 GB/s", result["sources"]["links"])

    def test_links_are_fitted(self):
        # A ring of 2 devices over the links of dgx-1-v100 at half their bandwidth: 2 messages of half the bytes.
        times = "".join(f"2,{n},{2 * (3.4e-6 + n / 2 / 60e9)}\n" for n in (4096, 1 << 20, 1 << 28))
        table = self.table("devices,bytes,seconds", times.rstrip())
        words = ("--net", "vgg16", "--machine", "dgx-1-v100", "--devices", 4)
        result = self.searched(*words, "--all-reduces", table)
        self.assertIn("dgx-1-v100, links fitted to 3 all-reduces, off by ", result["sources"]["links"])
        self.assertIn(" 60 GB/s and 3.4 us within a node of 8", result["sources"]["links"])
        sentence = self.sentence(*words, "--all-reduces", self.table("devices,bytes,seconds", "2,0,1"))
        self.assertIn("line 2, column 3: expected a positive number of bytes", sentence)

    def test_nothing_infinite_is_printed(self):
        free = self.folder / "free.txt"
        free.write_text(plan_cases.LINE.format("node1", "ReLU", "0", "0", "8"), encoding="utf-8")
        for words in [("--machine", "two-cpus", "--devices", 2), ("--place", "--link-gbps", 1, "--devices", 2)]:
            self.assertIn("free.txt': all nodes together take less than 1e-12 s",
                          self.sentence("--graph", free, *words))
        self.assertIn("give points whose batches are further apart", self.sentence(
            "--net", "vgg16", "--machine", "dgx-a100", "--devices", 8, "--epochs", "64:1,64.000001:1000"))
        slow = self.folder / "slow.json"
        slow.write_text(json.dumps({
            "name": "a\tb", "devices_per_node": 1, "nodes": 0, "memory": 1,
            "peak": {"fp64": 1, "fp32": 1, "tf32": 1, "bf16": 1}, "efficiency": 1e-6, "memory_bandwidth": 1,
            "launch_overhead": 1e6, "inside": {"bandwidth": 1, "latency": 1e6},
            "between": {"bandwidth": 1, "latency": 1e6}}), encoding="utf-8")
        words = ("--net", "vgg16", "--machine", slow, "--devices", 8, "--batch-per-worker", 1000000, "--memory",
                 "1000000GB", "--samples", 1e15, "--epochs", "1:1e12", "--format", "json")
        self.assertGreater(self.json(*words)["results"][0]["plans"][0]["C"], 1e30)
        trace = self.folder / "trace.json"
        self.json("--place", *words[:5], 2, "--seconds", 0.1, "--format", "json", "--trace", trace)
        json.loads(trace.read_text(encoding="utf-8"), parse_constant=self.fail)

    def test_what_is_printed_is_utf8(self):
        odd = os.fsencode(self.folder) + b"/a\xff\"\x01.txt"
        with open(odd, "wb") as file:
            file.write(self.graph(3).read_bytes())
        result = subprocess.run([self.program, "--graph", odd, "--machine", "dgx-a100", "--devices", "2", "--format",
                                 "json"], stdout=subprocess.PIPE, timeout=60)
        self.assertIn('a?" .txt', json.loads(result.stdout.decode("utf-8"))["sources"]["costs"])

    def test_files_that_are_none(self):
        words = ("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2)
        for path, sought in [(self.pipe(), "a pipe into which nobody writes"), ("/dev/zero", "a device"),
                             (self.folder, "a folder")]:
            self.assertIn(sought, self.sentence("--graph", path, *words[2:]))
            self.assertIn(sought, self.sentence("--profile", path, *words[2:]))
            self.assertIn(sought, self.sentence("--all-reduces", path, *words))
            self.assertIn(sought, self.sentence("--simulate", path, *words[:4]))

    def test_a_graph_in_a_pipe(self):  # that is read once, for all strategies
        result = subprocess.run([self.program, "--graph", "/dev/stdin", "--machine", "dgx-a100", "--devices", "2"],
                                input=self.graph(3).read_text(), text=True, stdout=subprocess.PIPE, timeout=60)
        self.assertIn("using Strategy = ", result.stdout)

    def test_large_inputs(self):
        graph = self.folder / "large.txt"
        graph.write_text("".join(plan_cases.LINE.format(f"n{n}", "ReLU", 3, 6, 1000) for n in range(2000)) +
                         "".join(f"\tn{n} -- n{n + 1}\n" for n in range(1999)), encoding="utf-8")
        self.assertIn("using Strategy = ", self.output("--graph", graph, "--machine", "dgx-a100", "--devices", 8))
        times = "".join(f"{1000000 - n},{n + 1}e6,0.{n + 1:03}\n" for n in range(200))
        table = self.table("devices,bytes,seconds", times.rstrip())
        self.output("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2, "--all-reduces", table)
        for devices in (8, 64):
            self.output("--place", "--graph", graph, "--devices", devices, "--link-gbps", 1, "--seconds", 0.1)
            self.output("--place", "--net", "inception_v3", "--machine", "pcie-box", "--devices", devices,
                        "--seconds", 0.1)

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


if __name__ == "__main__":
    plan_cases.main()
