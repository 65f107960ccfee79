#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of plan --simulate, end to end.

    plan_simulation_test.py PROGRAM
"""

import json

import plan_cases


class Simulation(plan_cases.PlanTest):
    def simulated(self, *words):
        return json.loads(self.output("--machine", "two-cpus", "--profile", self.profile(), "--batch-per-worker", 8,
                                      "--format", "json", *words))

    def test_simulation(self):
        svg, trace = self.folder / "step.svg", self.folder / "step.json"
        step = self.simulated("--simulate", self.gpipe(), "--svg", svg, "--trace", trace)
        # A pass of 4 samples takes 4 ms each way: 2 microbatches on 2 devices are 3 slots of it, then back. A message
        # of 4,000 bytes takes 4 us on the profile's link; one each way is waited for.
        self.assertAlmostEqual(step["makespan"], 0.024008, places=9)
        self.assertEqual([round(device["busy"], 9) for device in step["devices"]], [0.016, 0.016])
        self.assertEqual([device["peak_bytes"] for device in step["devices"]], [8000, 8000])
        self.assertAlmostEqual(step["idle"], 1 / 3, places=3)
        self.assertIn("2 microbatches of 4 samples", svg.read_text(encoding="utf-8"))
        names = [event["name"] for event in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]]
        self.assertIn("1B1", names)

        with_messages = self.table("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                   "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1")
        self.assertEqual(self.simulated("--simulate", with_messages), step)

    def test_simulation_in_words(self):
        text = self.output("--simulate", self.gpipe(), "--net", "vgg16", "--machine", "dgx-1-v100")
        lines = text.splitlines()
        self.assertTrue(lines[0].endswith(
            "table.csv on dgx-1-v100: 2 devices, 2 stages, 2 microbatches of 32 samples"), text)
        self.assertTrue(lines[1].startswith("makespan "))
        self.assertEqual(len(lines), 5)

    def test_workers_that_do_the_same_are_simulated_once(self):
        words = ("--simulate", self.gpipe(), "--net", "vgg16", "--machine", "dgx-1-v100")
        lines = self.output(*words, "--workers", 32768).splitlines()
        self.assertEqual(lines[1], "32768 workers, 65536 devices; 1 worker tells of all, of which 32768 do what the "
                                   "first does")
        self.assertEqual(len(lines), 6)
        one, few, many = (self.json(*words, "--format", "json", "--workers", n) for n in (1, 2, 32768))
        self.assertNotIn("workers", one)
        self.assertEqual((few["workers"], many["workers"]), (2, 32768))
        self.assertEqual([device["ranks"] for device in many["devices"]], [32768, 32768])
        self.assertEqual(one["last_pass"], many["last_pass"])
        self.assertTrue(one["makespan"] < few["makespan"] < many["makespan"])  # sums of gradients
        self.assertIn("--workers 32769 of 2 devices are more than 65536 devices; give fewer",
                      self.sentence(*words, "--workers", 32769))
        self.assertIn("a row for each of 2 devices of 2 workers, more than --machine two-cpus has",
                      self.sentence(*words[:-1], "two-cpus", "--workers", 2))

    def test_simulation_of_two_copies(self):
        table = self.table("0F0,3F1,3B1,0B0", "2F1,1F0,1B0,2B1")
        step = self.simulated("--simulate", table, "--copies", 2)
        self.assertAlmostEqual(step["makespan"], 0.016, delta=2e-5)
        self.assertEqual(self.simulated("--simulate", table, "--schedule", "chimera"), step)
        self.assertIn("--copies or --schedule", self.sentence(
            "--simulate", table, "--copies", 2, "--schedule", "chimera", "--net", "vgg16", "--machine", "two-cpus"))

    def test_simulation_of_an_asynchronous_table(self):
        table = self.table("0F0,0F1,0B0,0U,0F2@1,0B1,0U,0B2@1,0U", "1F0,1B0,1U,1F1@1,1B1@1,1U,1F2@2,1B2@2,1U")
        words = ("--simulate", table, "--net", "vgg16", "--machine", "two-cpus")
        text = self.output(*words, "--schedule", "pipedream")
        self.assertIn("3 steps of 1 microbatch of 64 samples", text)
        self.assertIn("--workers goes with synchronous tables; those of pipedream have all devices",
                      self.sentence(*words, "--schedule", "pipedream", "--workers", 2))
        self.assertIn(f"{table}:1:16: 0F2@1 is of an asynchronous schedule; say which by --schedule",
                      self.sentence(*words))
        alone = self.simulated("--simulate", table, "--schedule", "pipedream")
        self.assertAlmostEqual(alone["devices"][0]["busy"], 0.048)  # three steps of 8 samples, 2 ms each
        replayed = self.table("0F0,0F1,0B0,0U,0B1@1,0U", "1F0,1B0,1U,1F1@1,1B1@1,1U")
        again = self.simulated("--simulate", replayed, "--schedule", "features_replay")
        self.assertAlmostEqual(again["devices"][0]["busy"], 0.048)  # two, and their forward passes a second time

    def test_simulation_where_sends_wait_for_their_receives(self):
        gpipe = self.gpipe()
        self.assertGreater(self.simulated("--simulate", gpipe, "--depth", 0)["makespan"],
                           self.simulated("--simulate", gpipe)["makespan"] + 3e-6)
        table = self.table("0F0,0F1,,0B0,,0B1", ",1F0,1B0,1F1,1B1")
        self.assertIn(f"{table}:2:6: rank 1: 1SEND_B0 waits for 0RECV_B0", self.sentence(
            "--simulate", table, "--net", "vgg16", "--machine", "two-cpus", "--depth", 0))

    def test_tables_that_cannot_run(self):
        words = ("--net", "resnet18", "--machine", "dgx-1-v100")
        for rows, sought in [
                (("0F0,xF1",), ":1:5: 'xF1' is no action"),
                (("",), ":1:1: there is no action here"),
                (("0F0,0B0", "1B0,1F0"), ":2:1: rank 1: 1B0 stands before 1F0"),
                (("0F0,0F2,0B0,0B2", "1F0,1F2,1B0,1B2"), ":1:5: "),
        ]:
            with self.subTest(rows=rows):
                table = self.table(*rows)
                self.assertTrue(self.sentence("--simulate", table, *words).startswith(f"{table}{sought}"),
                                self.sentence("--simulate", table, *words))
        many = self.table(*(f"{d}F0,{d}B0" for d in range(40)), name="many.csv")
        self.assertIn("40 stages, but it has only", self.sentence("--simulate", many, *words))
        for more, sought in [
                (("--simulate", self.folder / "no.csv", *words), "there is no such file"),
                (("--simulate", self.gpipe(), *words, "--batch-per-worker", 9), "give a multiple of 2"),
                (("--simulate", self.gpipe(), *words, "--schedule", "x"), "there is no schedule 'x'"),
                (("--simulate", many, "--net", "vgg16", "--machine", "two-cpus"), "each of 40 devices"),
                (("--simulate", self.gpipe(), "--net", "vgg16"), "--simulate needs --machine MACHINE"),
                (("--simulate", self.gpipe(), "--machine", "two-cpus"), "--simulate needs one of --net"),
                (("--simulate", self.gpipe(), "--place"), "give one of --global-batch, --place, --simulate, --partition "
                 "and --compare"),
        ]:
            with self.subTest(words=more):
                self.assertIn(sought, self.sentence(*more))


if __name__ == "__main__":
    plan_cases.main()
