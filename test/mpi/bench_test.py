#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests bench/scale/run.py, with competitors and an mpirun that are scripts."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parents[2] / "bench" / "scale" / "run.py"
STEPS = """
import os, sys
print('{}', flush=True)
for line in sys.stdin:
    print('{"step_s": %s, "cpu_s": 1}' % (SLOWER if 'SLOWER' in os.environ else 0.5), flush=True)
"""
MPIRUN = """
import os, signal, subprocess, sys
own = [word for word in sys.argv[1:] if word not in ('-n', '2', '--mca', 'btl', 'vader,self')]
os.environ['SLOWER'] = '1'
run = subprocess.Popen(own)
signal.signal(signal.SIGTERM, lambda *_: run.kill())
sys.exit(run.wait() != 0)
"""
RESTART = """
import pathlib, sys, time
path = pathlib.Path(sys.argv[1], 'newest')
step = int(path.read_text()) if path.exists() else 0
while True:
    step += 1
    new = path.with_suffix('.new')  # complete, whenever it is killed, and before it is said
    new.write_text(str(step))
    new.replace(path)
    print('step', step, flush=True)
    time.sleep(0.02)
"""


class Scale(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.mpirun = self.program("mpirun", MPIRUN)

    def program(self, name, text):
        path = self.root / name
        path.write_text(f"#!{sys.executable}\n{text}\n")
        path.chmod(0o755)
        return path

    def run_bench(self, *options):
        return subprocess.run([sys.executable, RUN, self.root, self.root / "results", "--mpirun", self.mpirun, "--rounds", "3",
                               "--python", "/bin/false", *options], text=True, capture_output=True)

    def test_devices(self):
        for slower, status, word in ((0.5, 0, "met"), (0.6, 1, "MISSED")):
            self.program("bench_scale_googlenet", STEPS.replace("(SLOWER", f"({slower}"))
            run = self.run_bench("--only", "devices")
            self.assertEqual(status, run.returncode, run.stdout + run.stderr)
            self.assertRegex(run.stdout, rf"two MPI processes, of two threads: {2 * slower:.3f}, at most 1.02: {word}")
            self.assertIn("has no torch", run.stdout)

    def test_restart(self):
        self.program("bench_scale_restart", RESTART)
        run = self.run_bench("--only", "restart")
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"killed behind step 4; .* the first step of the next start is ([5-9]|\d\d)")

    def test_restart_from_nothing(self):
        self.program("bench_scale_restart", RESTART.replace("if path.exists()", "if False"))
        run = self.run_bench("--only", "restart")
        self.assertEqual(1, run.returncode)
        self.assertIn("failed: restart: it has begun from nothing", run.stdout)

    def test_start_up(self):
        said = {"ranks": 1024, "processes": 128, "groups": 1800, "rounds": 5, "splits": 5, "id_bytes": 1024,
                "read_bytes": 19267712, "sums_bytes": 16384, "order_bytes": 0}
        for splits, status in ((5, 0), (6, 1)):
            self.program("bench_start_up", f"print('''{json.dumps(dict(said, splits=splits))}''')")
            run = self.run_bench("--only", "start_up")
            self.assertEqual(status, run.returncode, run.stdout + run.stderr)
            self.assertIn("1024 ranks in 128 processes: 1800 groups in 5 rounds", run.stdout)

    def test_what_is_missing_is_said(self):
        run = self.run_bench()
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)
        self.assertEqual(6, run.stdout.count("skipped: "))


if __name__ == "__main__":
    unittest.main()
