#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the flags of the program plan: what they go with, what they need, and what is said of faults.

    plan_flags_test.py PROGRAM
"""

import plan_cases


class Flags(plan_cases.PlanTest):
    MODES = {"a search": ("--net", "vgg16", "--machine", "two-cpus", "--devices", 2),
             "--global-batch": ("--global-batch", 8, "--net", "gpt2", "--machine", "dgx-a100", "--devices", 2),
             "--place": ("--place", "--net", "vgg16", "--machine", "two-cpus", "--devices", 2),
             "--simulate": ("--simulate", "table.csv", "--net", "vgg16", "--machine", "two-cpus"),
             "--partition": ("--partition", "1,2", "--parts", 1),
             "--compare": ("--compare", "a.json", "b.json")}
    VALUES = {"--compare": ("a.json", "b.json"), "--precision": "fp32", "--memory": "1GB", "--optimizer": "sgd", "--epochs": "64:2", "--tokens": "64:2",
              "--schedule": "gpipe", "--format": "json", "--recompute": "full", "--sequence-rows": "yes",
              "--shard": "none"}

    def flags(self):
        """[(flag, whether it takes a value, its modes)], as the help has them."""
        modes = ""
        for line in self.output("--help").splitlines():
            self.assertLessEqual(len(line), 100, line)
            if line.startswith(("With ", "Always")):
                modes = line
            elif line.startswith("  --"):
                words = line[:24].split()
                yield words[0], len(words) > 1, [mode for mode in self.MODES if mode in modes or "Always" in modes]

    def test_flags_go_with_their_modes(self):
        flags = list(self.flags())
        modes_of = {flag: modes for flag, _, modes in flags}
        self.assertEqual(len(flags), len(modes_of))
        for flag, modes in {"--net": ["a search", "--global-batch", "--place", "--simulate"],
                            "--devices": ["a search", "--global-batch", "--place"], "--tensor": ["--global-batch"],
                            "--epochs": ["a search"], "--link-gbps": ["--place"], "--copies": ["--simulate"],
                            "--parts": ["--partition"], "--format": list(self.MODES)}.items():
            self.assertEqual(modes_of[flag], modes, flag)
        for flag, valued, modes in flags:
            value = self.VALUES.get(flag, 1)
            words = (flag, *(value if isinstance(value, tuple) else (value,))) if valued else (flag,)
            with self.subTest(flag=flag):
                if valued:
                    self.assertIn(f"{flag} lacks its value; write {flag} ", self.sentence(flag))
                    self.assertIn(f"{flag} lacks its value; write {flag} ", self.sentence(flag, "--help"))
                own = " and ".join(", ".join(modes).rsplit(", ", 1))
                for mode, base in self.MODES.items():
                    if flag in self.MODES and mode not in ("a search", flag):
                        self.assertIn("give one of", self.sentence(*base, *words))
                    elif flag not in self.MODES and mode not in modes:
                        self.assertEqual(self.sentence(*base, *words),
                                         f"plan: {flag} goes with {own}, not with {mode}; --help says more")

    def test_help(self):
        text = self.output("--help")
        self.assertTrue(text.startswith("usage: plan --net NAME --machine MACHINE"))
        self.assertEqual(self.output("--net", "x", "--help", "--none"), text)

    def test_values_as_they_are_written(self):
        words = ("--machine=two-cpus", "--net=vgg16", "--devices=2")
        text = self.output(*words, "--batch-per-worker", 100)
        for batch in ("1e2", "0100"):  # neither a letter nor octal
            self.assertEqual(self.output("--batch-per-worker", 7, *words, "--batch-per-worker", batch), text)
        for flag in ("--place", "--late-gradients", "--help"):
            self.assertEqual(self.sentence(f"{flag}=x"), f"plan: {flag} takes no value; write {flag}")
        self.assertIn("there is no flag 'more'; --help lists them", self.sentence(*words, "more"))
        self.assertIn("there is no flag '\\x1B[2J'", self.sentence(*words, "\x1b[2J"))  # no terminal obeys
        self.assertIn("not '\\x1B8'", self.sentence(*words, "--batch-per-worker", "\x1b8"))

    def test_faults_are_one_sentence(self):
        graph = self.graph(2)
        bad = self.folder / "bad.txt"
        bad.write_text("node1 -- Conv2d -- forward_compute_time=x\n", encoding="utf-8")
        for words, sought in [
                ((), "give --net, --graph or --profile"),
                (("--place",), "--place needs --devices M and one of --net, --graph and --profile; "),
                (("--net", "vgg16"), "a search needs --machine MACHINE and --devices M; "),
                (("--net", "vgg16", "--machine", "dgx-a100"), "a search needs --devices"),
                (("--net", "vgg16", "--machine", "two-cpus", "--devices", 4), "fewer devices"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", "8..4"), "--devices, column 4, takes"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", 65537), "65536"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2, "--epochs", "64"), "column"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2, "--link-gbps", 1), "--place"),
                (("--place", "--devices", 2, "--net", "x", "--machine", "dgx-a100"), "inception_v3"),
                (("--place", "--devices", 2, "--net", "vgg16", "--machine", "x"), "dgx-a100"),
                (("--place", "--devices", 2, "--net", "vgg16"), "--machine"),
                (("--place", "--devices", 2, "--net", "gpt2", "--width", 8, "--machine", "dgx-a100"), "--net gpt, gnmt and big_lstm"),
                (("--place", "--devices", 2, "--net", "gpt", "--heads", 5, "--machine", "dgx-a100"), "768 of 5"),
                (("--net", "gpt2", "--machine", "dgx-a100", "--devices", 2), "needs --samples N"),
                (("--net", "big_lstm", "--machine", "dgx-a100", "--devices", 2), "needs --samples N"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2, "--restart-seconds", 9), "needs --mtbf-hours"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2, "--mtbf-hours", 0), "from 0.001 to"),
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
                (("--net", "vgg16", "--graph", graph, "--machine", "dgx-a100", "--devices", 2), "give one of --net"),
                (("--precision", "bf16", "--graph", graph, "--machine", "dgx-a100", "--devices", 2), "--net"),
                (("--net", "vgg16", "--machine", "dgx-a100", "--devices", 2, "--samples", 0), "from 1 to 1e+15"),
                (("--partition", "3,1", "--parts", 1, "--devices", 2), "not with --partition"),
                (("--parts", 2, "--partition", "3,1", "--place"), "give one of"),
                (("--partition", "3,1", "--parts", 1, "--format", "xml"), "json"),
                (("--place", "--graph", graph, "--devices", 1, "--link-gbps", 1), "from 2 to 64"),
                (("--place", "--graph", graph, "--devices", 2, "--link-gbps", 0), "--link-gbps"),
                (("--place", "--graph", graph, "--devices", 2, "--link-gbps"), "lacks its value"),
                (("--place", "--graph", graph, "--devices", 2, "--link-gbps", 1, "--memory", "xGB"), "not 'xGB'"),
                (("--place", "--graph", graph, "--devices", 2, "--link-gbps", 1, "--optimizer", "x"), "adam"),
                (("--place", "--graph", self.folder / "no", "--devices", 2, "--link-gbps", 1), "no such file"),
                (("--place", "--graph", bad, "--devices", 2, "--link-gbps", 1), "line 1, column"),
        ]:
            with self.subTest(words=words):
                self.assertIn(sought, self.sentence(*words))


if __name__ == "__main__":
    plan_cases.main()
