#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests check.sh where there is no GPU: in a tree of its own, with a GPU, programs and tools that are scripts."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
NO_GPU = "exit 9"
GPU = 'case "$1" in *compute_cap*memory*) echo "A GPU, 580.1, 9.0, 1 MiB" ;; *) echo 9.0 ;; esac'


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "test" / "gpu").mkdir(parents=True)
        for name in ("check.sh", "report.py"):
            shutil.copy(HERE / name, self.root / "test" / "gpu")
        self.script("test/gpu/two_processes.sh", "exit 0")
        self.script("test/gpu/train_processes.sh", "exit 0")
        for name in ("answers.sh", "overlaps.sh", "together.sh", "processes.sh"):
            shutil.copy(HERE / name, self.root / "test" / "gpu")

    def script(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def programs(self, **texts):
        for name, text in texts.items():
            if text is not None:
                self.script(f"build/gpu/test/cuda/{name}", text)
        lines = "".join(f"test/cuda/{name}\n" for name in texts)
        for name in ("cuda_programs.txt", "cuda_kernel_programs.txt"):
            (self.root / "build" / "gpu" / name).write_text(lines)

    def check(self, *arguments, gpu=GPU, **environment):
        self.script("bin/nvidia-smi", gpu)
        run = subprocess.run([self.root / "test" / "gpu" / "check.sh", *arguments], text=True,
                             capture_output=True,
                             env=dict(os.environ, PATH=f"{self.root}/bin:{os.environ['PATH']}",
                                      **environment))
        report = self.root / "build" / "gpu" / "results" / f"{(arguments or [''])[0]}.json"
        parts = json.loads(report.read_text())["parts"] if report.exists() else []
        return run, {part["name"]: part["outcome"] for part in parts}

    def test_no_gpu(self):
        for verb in ("build", "first", "test", "sanitize", "bench"):
            with self.subTest(verb):
                run, _ = self.check(verb, gpu=NO_GPU)
                self.assertEqual(77, run.returncode)
                self.assertRegex(run.stderr, r"\Acheck\.sh: there is no GPU here: [^\n]*\n\Z")
                self.assertEqual("", run.stdout)
        self.assertFalse((self.root / "build").exists())

    def test_wrong_usage(self):
        for arguments in ([], ["tests"], ["test", "a", "b"]):
            with self.subTest(arguments):
                run, _ = self.check(*arguments)
                self.assertEqual(2, run.returncode)
                self.assertEqual(1, run.stderr.count("\n"))

    def test_one_failure_hides_nothing(self):
        self.programs(cuda_a="echo wrong; exit 1", cuda_b="exit 0", cuda_c=None, cuda_d="exit 77")
        run, parts = self.check("test")
        self.assertEqual(1, run.returncode)
        self.assertEqual({"cuda_a": "failed (1)", "cuda_b": "passed", "cuda_c": "failed (127)",
                          "cuda_d": "skipped", "two_processes": "passed", "train_processes": "passed"}, parts)
        self.assertIn("wrong", run.stdout)
        self.assertIn("test: 3 passed, 2 failed, 1 skipped", run.stdout)

    def test_all_pass(self):
        self.programs(cuda_a="echo '[doctest] assertions: 3 | 3 passed'", cuda_b="exit 0")
        run, _ = self.check("test")
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)
        self.assertIn("assertions: 3", run.stdout)

    def test_time_limit(self):
        self.programs(cuda_a="sleep 60", cuda_b="exit 0")
        run, parts = self.check("test", LIMIT="4")
        self.assertEqual(1, run.returncode)
        self.assertEqual({"cuda_a": "time limit", "cuda_b": "no time left",
                          "two_processes": "no time left", "train_processes": "no time left"}, parts)

    def first(self, answers, trains, overlaps="echo bits 1; echo answer: $1: 2 ms", **environment):
        self.script("bin/cmake", "exit 0")
        self.script("build/gpu/test/gpu/gpu_answers", answers)
        self.script("build/gpu/test/gpu/gpu_train_processes", trains)
        self.script("build/gpu/test/gpu/gpu_overlaps", overlaps)
        run, parts = self.check("first", **environment)
        report = json.loads((self.root / "build/gpu/results/first.json").read_text())
        return run, parts, {part["name"]: part["summary"] for part in report["parts"]}

    def test_first(self):
        run, parts, answers = self.first(
            'echo "$RANK of $WORLD_SIZE as $NCCL_HOSTID: $*"', 'echo "step 0: 1"')
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)
        self.assertEqual(["configure", "programs", "order.32", "order.8", "order.1", "order.32.most_blocks",
                          "order.32.one_block", "loading.eager", "loading.lazy", "destroy", "register",
                          "overlaps.branches", "overlaps.launches", "overlaps.both", "together"], list(parts))
        self.assertEqual({"passed"}, set(parts.values()))
        self.assertRegex(answers["order.8"], r"answer: order ended, .*: 0 of 2 as tandem-0: order "
                         r"\(CUDA_DEVICE_MAX_CONNECTIONS=8 ")
        self.assertIn("NCCL_MAX_CTAS=32", answers["order.32.most_blocks"])
        self.assertIn("CUDA_MODULE_LOADING=LAZY", answers["loading.lazy"])
        self.assertIn("4 GPUs of one process, recorded: ended with the bits", answers["together"])
        self.assertIn("answers: order ended", run.stdout)
        self.assertEqual("answer: launches: the bits of plain steps (2 ms; plain 2 ms)", answers["overlaps.launches"])

    def test_first_overlapping_steps(self):
        run, parts, answers = self.first("exit 0", 'echo "step 0: 1"', """case $1 in
            launches) echo bits 2 ;; both) exit 124 ;; *) echo bits 1 ;; esac""")
        self.assertEqual(1, run.returncode)
        self.assertEqual(["overlaps.launches"], [name for name in parts if parts[name] != "passed"])
        self.assertIn("OTHER bits than plain steps", answers["overlaps.launches"])
        self.assertIn("did NOT end", answers["overlaps.both"])

    def test_first_a_hang_is_an_answer_where_it_is_asked_for(self):
        run, parts, answers = self.first(
            'case "$CUDA_DEVICE_MAX_CONNECTIONS:$CUDA_MODULE_LOADING" in 1:* | :LAZY) exit 3 ;; esac',
            'case "$2" in together) exit 124 ;; esac')
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)
        self.assertEqual({"passed"}, set(parts.values()))
        for name in ("order.1", "loading.lazy", "together"):
            self.assertIn("did NOT end", answers[name])
        self.assertIn("ended, numbers right", answers["order.8"])

    def test_first_the_library_s_own_setting_must_end(self):
        run, parts, _ = self.first('case "$1" in order) exit 3 ;; esac', "exit 0")
        self.assertEqual(1, run.returncode)
        self.assertEqual(["order.32", "order.8"], [name for name in parts if parts[name] != "passed"])

    def test_first_wrong_numbers_are_no_answer(self):
        run, parts, _ = self.first('case "$1:$RANK" in order:1) exit 1 ;; order:0) exit 3 ;; esac',
                                   'echo "bits of $2"')
        self.assertEqual(1, run.returncode)
        self.assertEqual(["order.32", "order.8", "order.1", "order.32.most_blocks", "order.32.one_block",
                          "together"], [name for name in parts if parts[name] != "passed"])

    def test_first_with_one_gpu_and_without_nccl(self):
        run, parts, answers = self.first("exit 77", 'echo "skipped: this wants $1"; exit 77')
        self.assertEqual("skipped", parts["together"])
        self.assertIn("this wants data_parallel_2", answers["together"])
        self.assertEqual("skipped", parts["order.32"])
        self.assertEqual(0, run.returncode)

    def test_first_two_gpus(self):
        _, parts, answers = self.first("exit 0", '[ "$1" = data_parallel_2 ] || { echo "skipped: this wants 4"; exit 77; }')
        self.assertEqual("passed", parts["together"])
        self.assertIn("skipped: this wants 4", answers["together"])

    def test_results_elsewhere(self):
        self.programs(cuda_a="exit 0")
        folder = self.root / "elsewhere"
        run, _ = self.check("test", str(folder))
        self.assertEqual(0, run.returncode)
        document = json.loads((folder / "test.json").read_text())
        self.assertEqual("A GPU", document["gpus"][0]["name"])

    def test_sanitize(self):
        self.programs(cuda_a="exit 0", cuda_b="exit 0")
        self.script("bin/compute-sanitizer",
                    'case "$*" in *racecheck*cuda_b) echo "ERROR SUMMARY: 1 error"; exit 9 ;; esac')
        run, parts = self.check("sanitize")
        self.assertEqual(1, run.returncode)
        self.assertEqual(6, len(parts))
        self.assertEqual(["racecheck.cuda_b"], [name for name in parts if parts[name] != "passed"])

    def test_sanitize_leaves_other_peoples_kernels_out(self):
        self.programs(cuda_convolution="exit 0", cuda_matmul="exit 0")
        self.script("bin/compute-sanitizer", 'case "$*" in *racecheck*cuda_convolution) exit 9 ;; esac')
        run, parts = self.check("sanitize")
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)
        self.assertEqual(["racecheck.cuda_matmul"], [name for name in parts if parts[name] != "passed"])

    def test_not_built(self):
        run, _ = self.check("test")
        self.assertIn("run 'test/gpu/check.sh build' first", run.stderr)

    def test_build(self):
        self.script("bin/cmake", 'case "$*" in *"--target cuda_tests"*) exit 1 ;; esac; echo "$@"')
        run, parts = self.check("build", DOCTEST_DIR="/doctest")
        self.assertEqual(1, run.returncode)
        self.assertEqual(["configure", "cuda_tests", "gpu_programs", "cuda_benches"], list(parts))
        log = (self.root / "build/gpu/results/build/configure.log").read_text()
        self.assertIn("-DTANDEM_TESTS_FOR_GPU=ON -DCMAKE_CUDA_ARCHITECTURES=90 -DTANDEM_DOCTEST_DIR=/doctest", log)

    def test_build_without_a_gpu(self):
        self.script("bin/cmake", 'echo "$@"')
        run, _ = self.check("build", gpu=NO_GPU, ARCHITECTURES="80;90")
        self.assertEqual(0, run.returncode, run.stdout)


if __name__ == "__main__":
    unittest.main()
