#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests bench/cuda/run.py without a GPU, with competitors that are scripts."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parents[2] / "bench" / "cuda" / "run.py"
KERNELS = {"copy_bytes_per_s": 1e12, "flops": {"bf16": 1e14, "tf32": 5e13, "fp32": 2e13},
           "rows": [{"name": "add", "bytes": 2**24, "seconds": 1e-5, "share_of_copy": 0.9}]}
STEPS = """
print('{"roofline_s": 0.001, "used_bytes": 1048576}', flush=True)
import sys
for line in sys.stdin:
    print('{"step_s": %s, "host_s": 1e-5}', flush=True)
"""


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "bench").mkdir()
        self.program("bench_kernels", f"print('''{json.dumps(KERNELS)}''')")
        self.program("bench_launch", "print('{\"empty kernel\": 2e-6}')")
        self.program("bench_googlenet_bf16", STEPS % 0.002)

    def program(self, name, text):
        path = self.root / "bench" / name
        path.write_text(f"#!{sys.executable}\n{text}\n")
        path.chmod(0o755)

    def run_bench(self, *options):
        run = subprocess.run([sys.executable, RUN, self.root, self.root / "results", "--without-peers",
                              "--rounds", "3", "--batch", "128", "--memory", "1e10", *options],
                             text=True, capture_output=True)
        return run, json.loads((self.root / "results.json").read_text())

    def test_table(self):
        self.program("bench_googlenet_portable_bf16", STEPS % 0.004)
        run, document = self.run_bench("--precision", "bf16")
        self.assertEqual(0, run.returncode, run.stderr)
        first, second = document["googlenet"]
        self.assertEqual(("tandem bf16 128", 3, 64000), (first["name"], first["rounds"], first["images_per_s"]))
        self.assertEqual((0.5, 2.0), (first["roofline_share"], second["times_tandem"]))
        self.assertRegex(run.stdout, r"tandem_portable bf16 128 +4\.000 .* 25\.0% +10\.0 +1 +2\.00x")
        self.assertRegex(run.stdout, r"add +16 ")

    def test_kernels_and_bytes(self):
        self.program("bench_googlenet_bf16", STEPS.replace('{"roofline_s"', '{"kernels": 440, "moved_bytes": 12.8e9, "roofline_s"')
                     % 0.002)
        run, _ = self.run_bench("--precision", "bf16")
        self.assertRegex(run.stdout, r"host us +MiB of tandem +kernels +GB moved\n.* 1\.00x +440 +12\.80\n")

    def test_a_competitor_that_fails(self):
        self.program("bench_googlenet_tf32", "import sys; sys.exit('out of memory')")
        run, document = self.run_bench("--precision", "tf32", "bf16")
        self.assertEqual(1, run.returncode)
        self.assertIn("tandem tf32 128                          failed: out of memory", run.stdout)
        self.assertEqual([None, 0.002], [row["step_s"] for row in document["googlenet"]])

    def test_a_competitor_that_hangs(self):
        self.program("bench_googlenet_tf32", "import time; time.sleep(100)")
        run, document = self.run_bench("--precision", "bf16", "tf32", "--memory", "7e9", "--seconds", "8")
        self.assertEqual(1, run.returncode)
        self.assertEqual(["tandem bf16 128", "tandem tf32 128"], [r["name"] for r in document["googlenet"]])
        self.assertEqual([3, None], [row.get("rounds") for row in document["googlenet"]])

    def test_kernels_that_fail(self):
        self.program("bench_kernels", "import sys; sys.exit('no such kernel')")
        run, document = self.run_bench("--precision", "bf16")
        self.assertEqual(1, run.returncode)
        self.assertIn("bench_kernels failed: no such kernel", run.stdout)
        self.assertEqual(0.002, document["googlenet"][0]["step_s"])


if __name__ == "__main__":
    unittest.main()
