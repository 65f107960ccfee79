#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the program schedule, end to end.

    schedule_test.py PROGRAM
"""

import pathlib
import resource
import subprocess
import xml.dom.minidom

import program

SCHEDULES = [("sequential", 1), ("gpipe", 1), ("one_f_one_b", 1), ("interleaved", 2),
             ("zero_bubble_h1", 1), ("zero_bubble_h2", 1), ("zero_bubble_v", 1), ("v_half", 1),
             ("v_min", 1), ("dual_pipe_v", 2), ("chimera", 1), ("dual_pipe", 1), ("cross_model", 1)]
ONE_STAGE = ["sequential", "gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"]  # a rank
ASYNCHRONOUS = ["pipedream", "pipedream_vertical_sync", "pipedream_2bw", "delayed_gradient",
                "weight_prediction", "features_replay", "pmp"]


class Schedule(program.ProgramTest):
    def file(self, text):
        path = self.folder / "table.csv"
        path.write_text(text, encoding="utf-8")
        return path

    def made(self, name, chunks, form):
        return self.output("--schedule", name, "--stages", 4, "--microbatches", 8, "--chunks",
                           chunks, "--depth", 2, "--format", form)

    def test_help(self):
        text = self.output("--help")
        self.assertTrue(text.startswith("usage: schedule --schedule NAME --stages P"))
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_what_is_printed_passes_the_check(self):
        for name, chunks in SCHEDULES:
            for form in ("csv", "csv-lowered"):
                with self.subTest(name=name, form=form):
                    text = self.made(name, chunks, form)
                    self.assertEqual(text.count("\n"), 4)
                    check = ("--check", self.file(text), "--schedule", name, "--depth", 2)
                    stages = 4 if name in ONE_STAGE else 8
                    lines = self.output(*check).splitlines()
                    self.assertEqual(lines[0], f"valid: 4 ranks, {stages} stages, 8 microbatches")
                    self.assertEqual(len(lines), 1 + stages)
                    self.assertIn("live at most", lines[1])
                    self.assertEqual(self.output(*check, "--format", form), text)

    def test_asynchronous_tables(self):
        for name in ASYNCHRONOUS:
            each = 4 if name == "pipedream_2bw" else 1
            size = ("--schedule", name, "--stages", 3, "--microbatches", each)
            for form in ("csv", "csv-lowered"):
                with self.subTest(name=name, form=form):
                    text = self.output(*size, "--steps", 5, "--format", form)
                    self.assertEqual(text.count("0U"), 5)
                    check = ("--check", self.file(text), "--schedule", name)
                    lines = self.output(*check).splitlines()
                    self.assertEqual(lines[0], f"valid: 3 ranks, 3 stages, {5 * each} microbatches")
                    self.assertIn("stage 2: a gradient is 0 microbatches late", "\n".join(lines))
                    self.assertEqual(self.output(*check, "--format", form), text)
            picture = xml.dom.minidom.parseString(self.output(*size, "--format", "svg"))
            self.assertGreater(len(picture.getElementsByTagName("title")), 27)
        text = self.output("--schedule", "pipedream", "--stages", 3, "--microbatches", 1)
        self.assertIn("pipedream: 3 ranks, 3 stages, 4 microbatches", text)
        self.assertIn("stage 0 on rank 0: 3 microbatches live at most", text)
        self.assertIn("stage 0: a gradient is 2 microbatches late, 3 versions of its weights", text)

    def test_averaging(self):
        for rule, last in (("gradients", "0AWAIT_LOSS,0REDUCE_NORM,0U"),
                           ("weights", "5B1,0AWAIT_LOSS,5U,0B0,0U,5X,0X"),
                           ("overlapped", "0B0,0X,0U")):
            text = self.output("--schedule", "cross_model", "--stages", 3, "--microbatches", 2,
                               "--averaging", rule, "--format", "csv")
            self.assertTrue(text.splitlines()[0].endswith(last), text)
            check = ("--check", self.file(text), "--schedule", "cross_model")
            self.assertIn("valid: 3 ranks, 6 stages, 2", self.output(*check))
            self.assertEqual(self.output(*check, "--format", "csv"), text)

    def test_a_wrong_version(self):
        path = self.file("0F0,0B0,0U,0F1,0B1,0U\n")
        self.assertTrue(self.sentence("--check", path, "--schedule", "pipedream").endswith(
            "table.csv:1:12: rank 0: 0F1 must read version 1 of the weights; so the schedule says"))
        self.assertIn("valid: 1 rank, 1 stage, 1", self.output(
            "--check", self.file("0F0,0B0,0U\n"), "--schedule", "features_replay"))

    def test_csv(self):
        text = self.output("--schedule", "one_f_one_b", "--stages", 2, "--microbatches", 2,
                           "--format", "csv")
        self.assertEqual(text, "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n")

    def test_chunks_of_time(self):
        for ranks, chunks in ((2, 5), (3, 4), (4, 16)):
            text = self.output("--schedule", "one_f_one_b", "--stages", ranks, "--microbatches", 1, "--time-chunks", chunks)
            bound = f"{ranks * chunks / (chunks + ranks - 1):.3f}"
            self.assertIn(f"ranks at work: {bound}; in chunks of time of stages of one cost {bound} at most", text)
            self.assertIn(f"makespan {3 * (chunks + ranks - 1)},", text)
            self.assertIn(f"stage 0 on rank 0: {chunks} chunks of time live at most", text)
        text = self.output("--schedule", "gpipe", "--stages", 2, "--microbatches", 1, "--time-chunks", 2, "--format", "csv")
        self.assertEqual(text, "0F0,0F1,,,0B0,0B1\n,1F0,1F1,1B0,1B1\n")
        self.assertIn("--time-chunks goes with synchronous", self.sentence(
            "--schedule", "pipedream", "--stages", 2, "--microbatches", 1, "--time-chunks", 2))

    def test_search(self):
        size = ("--schedule", "search", "--stages", 4, "--microbatches", 8)
        text = self.output(*size, "--memory", 3)
        self.assertIn("found: v_half, 2 stages a rank; 318 twelfths of --cost, no table takes less than 306", text)
        self.assertIn("makespan 318,", text)
        self.assertIn("found: zero_bubble_v, 2 stages a rank; 306 twelfths", self.output(*size))
        self.assertIn("1 stage a rank; 324 twelfths", self.output(*size, "--chunks", 1))
        self.assertIn("found: dual_pipe, 1 stage a rank; 300 twelfths", self.output(*size, "--chunks", 1, "--copies", 2))
        self.assertIn("1 stage a rank", self.output(*size, "--cost", "1,1,1,4"))
        self.assertIn("copies = 2", self.output(*size, "--chunks", 1, "--copies", 2, "--format", "type"))
        self.assertIn("chunks = 3", self.output("--schedule", "interleaved", "--chunks", 3, "--stages", 2,
                                                "--microbatches", 2, "--format", "type"))
        table = self.file(self.output(*size, "--memory", 3, "--format", "csv"))
        self.assertIn("valid: 4 ranks, 8 stages, 8", self.output("--check", table))
        made = self.output("--check", table, "--format", "type")
        self.assertEqual(made, self.output(*size, "--memory", 3, "--format", "type"))
        self.assertEqual(made.count("sink("), 4 * 48)
        self.assertIn("--memory goes with --schedule search", self.sentence(
            "--schedule", "gpipe", "--stages", 2, "--microbatches", 2, "--memory", 2))
        self.assertIn("--schedule search takes", self.sentence(*size, "--chunks", 5))
        self.assertIn("--format type takes a chain", self.sentence(
            "--schedule", "pipedream", "--stages", 2, "--microbatches", 1, "--format", "type"))

    def test_a_type(self):
        made = self.output("--schedule", "search", "--stages", 2, "--microbatches", 4, "--cost", "4,5,4", "--memory", 4,
                           "--format", "type")
        kept = pathlib.Path(__file__).parents[1] / "support" / "table_schedule.hpp"
        self.assertEqual(kept.read_text().partition("\n")[2].split(), made.split())  # what the engine's test runs

    def test_pairs(self):
        for name in ("dual_pipe_v", "dual_pipe"):
            text = self.made(name, 1, "csv-pairs")
            self.assertGreaterEqual(text.count("OVERLAP_F_B"), 14)
            checked = self.output("--check", self.file(text), "--schedule", name, "--format", "csv")
            self.assertEqual(checked, self.made(name, 1, "csv"))

    def test_pictures_are_xml(self):
        for name, chunks in SCHEDULES:
            picture = xml.dom.minidom.parseString(self.made(name, chunks, "svg"))
            self.assertEqual(picture.documentElement.tagName, "svg")
            passes = [cell for cell in self.made(name, chunks, "csv").replace("\n", ",").split(",") if cell]
            self.assertGreaterEqual(len(passes), 64)
            self.assertEqual(len(picture.getElementsByTagName("title")), len(passes))

    def test_costs(self):
        text = self.output("--schedule", "gpipe", "--stages", 3, "--microbatches", 4, "--cost",
                           "10,20,5")
        self.assertIn(f"makespan {(4 + 3 - 1) * 35}, bubble {2 * 35} a rank", text)

    def test_copies(self):
        path = self.file(self.output("--schedule", "chimera", "--stages", 4, "--microbatches", 4,
                                     "--format", "csv"))
        self.assertIn("valid: 4 ranks, 8 stages, 4", self.output("--check", path, "--copies", 2))
        self.assertIn(f"{path}:2:", self.sentence("--check", path))

    def test_a_bad_file(self):
        self.assertTrue(self.sentence("--check", self.file("0F0,0B0\n1F0,xF3\n")).endswith(
            "table.csv:2:5: 'xF3' is no action; write a stage, a kind and a microbatch, such as "
            "0F3, 0B3, 0I3, 0W3, 0SEND_F3, 1RECV_F3, 1SEND_B3 or 0RECV_B3"))
        self.assertTrue(self.sentence("--check", self.file("0F0,0B0\n,1B0,1F0\n")).endswith(
            "table.csv:2:2: rank 1: 1B0 stands before 1F0, which it needs"))
        for file, sought in [(self.folder, "a folder, expected a file"),
                             (self.folder / "none.csv", "there is no such file"), ("/dev/zero", "a device"),
                             (self.pipe(), "a pipe into which nobody writes")]:
            self.assertIn(sought, self.sentence("--check", file))

    def test_the_least_depth(self):
        golden = pathlib.Path(__file__).parents[1] / "data" / "golden"
        for count, depth in ((2, 1), (6, 3)):
            table = golden / f"looped_bfs_2_{count}.csv"
            lines = self.output("--check", table).splitlines()
            self.assertEqual(lines[0], f"valid: 2 ranks, 4 stages, {count} microbatches")
            self.assertEqual(f"with {depth} messages in flight for each link and direction" in lines, depth > 1)
            self.assertIn("backward passes in descending order of microbatches, which TrainerOptions::rows does "
                          "not take", lines)
            self.assertIn("--format type takes", self.sentence("--check", table, "--format", "type"))
        self.assertIn(f"{table}:2:10: rank 1: 1SEND_F2 waits", self.sentence("--check", table, "--depth", 2))
        size = ("--schedule", "interleaved", "--stages", 3, "--chunks", 2, "--microbatches", 8)
        self.assertIn("with 2 messages in flight", self.output(*size))
        self.assertIn("give a larger --depth", self.sentence(*size, "--depth", 1))
        read = subprocess.run([self.program, "--check", "/dev/stdin"], input=table.read_text(), text=True,
                              stdout=subprocess.PIPE, timeout=60)
        self.assertIn("with 3 messages in flight", read.stdout)

    def test_a_file_in_a_pipe(self):
        result = subprocess.run([self.program, "--check", "/dev/stdin"], input="0F0,0B0\n", text=True,
                                stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(result.stdout.splitlines()[0], "valid: 1 rank, 1 stage, 1 microbatch")

    def test_tables_of_many_ranks_and_of_many_stages(self):
        many = self.file("".join(f"{s}F0,{s}F1,{s}B0,{s}B1\n" for s in range(20_000)))
        self.assertIn("valid: 20000 ranks, 20000 stages, 2", self.output("--check", many, "--depth", 65536))
        self.assertIn("20000 ranks", self.output("--check", many, "--depth", 65536, "--format", "text"))
        stages = range(5000)
        one = self.file(",".join([f"{s}F0" for s in stages] + [f"{s}B0" for s in reversed(stages)]))
        for form in ("text", "csv", "csv-lowered"):
            self.output("--check", one, "--format", form)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 1 << 19)  # KiB; it took 1.6 GB

    def test_bad_flags(self):
        size = ("--stages", 4, "--microbatches", 8)
        for arguments, expected in [
                ((), "give --schedule, --stages and --microbatches, or --check"),
                (("--schedule", "gpipe", "--stages", 4), "give --schedule, --stages and"),
                (("--frobnicate",), "there is no flag '--frobnicate'"),
                (("--stages",), "--stages lacks its value; write --stages P"),
                (("--stages=",), "--stages lacks its value; write --stages P"),
                (("--stages", "--chunks"), "--stages lacks its value"),
                (("--stages", 0), "--stages takes a whole number from 1 to 1024, not '0'"),
                (("--microbatches", "8x"), "--microbatches takes a whole number"),
                (("--depth", -1), "--depth takes a whole number from 0 to"),
                (("--depth", 99999999999999999999), "--depth takes a whole number from 0 to"),
                (("--cost", "1,2"), "--cost takes three numbers"),
                (("--cost", "1,2,"), "--cost takes a whole number"),
                (("--format", "png"), "--format takes text, csv, csv-lowered, csv-pairs, type or svg, not 'png'"),
                (("--schedule", "foo", *size), "there is no schedule 'foo'; take one of"),
                (("--schedule", "gpipe", "--chunks", 2, *size), "cannot have 2 chunks"),
                (("--schedule", "gpipe", "--copies", 2, *size), "--copies goes with --check and --schedule search only"),
                (("--schedule", "chimera", "--stages", 3, "--microbatches", 8), "an even number"),
                (("--schedule", "interleaved", "--stages", 4, "--microbatches", 9), "a multiple"),
                (("--schedule", "gpipe", "--stages", 1000, "--microbatches", 1001), "at most"),
                (("--schedule", "one_f_one_b", "--depth", 0, *size), "give a larger --depth"),
                (("--check", "table.csv", *size), "do not go with --check"),
                (("--check", "table.csv", "--steps", 2), "do not go with --check"),
                (("--schedule", "pipedream", *size), "cannot run 8 microbatches a step"),
                (("--schedule", "gpipe", "--steps", 2, *size), "goes with asynchronous schedules"),
                (("--schedule", "pmp", "--steps", 256, *size), "--steps takes a whole number from"),
                (("--schedule", "gpipe", "--averaging", "weights", *size), "cross_model only"),
                (("--schedule", "pmp", "--averaging", "gradients", *size), "synchronous schedules"),
                (("--averaging", "sum"), "--averaging takes gradients, weights or overlapped"),
                (("--schedule", "pipedream_2bw", "--stages", 100, "--microbatches", 60000,
                  "--steps", 200), "1000000 at most"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(expected, self.sentence(*arguments))
                self.assertTrue(self.sentence(*arguments).startswith("schedule: "))


if __name__ == "__main__":
    program.main()
