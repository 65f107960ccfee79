#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes some of Fashion-MNIST as PNG files, trains on them by examples/image_folder, and looks at all that it leaves.

    image_folder_test.py IMAGE_FOLDER CURVES

Exits 77, which ctest shows as skipped, where Fashion-MNIST is not installed.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "image_folder"
PROGRAM, CURVES = (pathlib.Path(p).resolve() for p in sys.argv[1:3])


class ImageFolder(unittest.TestCase):
    def test_from_files_to_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            def run(*command):
                return subprocess.run([str(c) for c in command], cwd=folder, check=True, text=True,
                                      stdout=subprocess.PIPE).stdout

            run(sys.executable, EXAMPLE / "fashion_png.py", "png", "600")
            lines = run(PROGRAM, "png", "3").splitlines()
            self.assertIn("600 images of 10 classes", lines)
            table = lines.index(next(line for line in lines if line.endswith("| predicted")))
            names = sorted(path.name for path in pathlib.Path(folder, "png", "test").iterdir())
            self.assertEqual(lines[table + 1].split("|")[1].split(), names)
            rows = [line.split("|") for line in lines[table + 2:table + 12]]
            self.assertEqual([row[0].strip() for row in rows], names)
            counts = [[int(count) for count in row[1].split()] for row in rows]
            self.assertEqual(sum(map(sum, counts)), 600)
            accuracy = float(lines[-1].split()[1])
            self.assertEqual(lines[-1].split()[0], "accuracy")
            self.assertEqual(f"{sum(counts[c][c] for c in range(10)) / 600:.4f}", f"{accuracy:.4f}")
            self.assertGreater(accuracy, 0.4)

            log = [json.loads(line) for line in pathlib.Path(folder, "run.jsonl").read_text().splitlines()]
            self.assertEqual(sum(line["kind"] == "evaluation" for line in log), 3)
            self.assertEqual(sum(line["kind"] == "step" for line in log), 3 * 5)
            self.assertIn("</html>", run(CURVES, "run.jsonl"))
            self.assertTrue(pathlib.Path(folder, "classifier.onnx").read_bytes().find(b"Conv") > 0)

    def test_a_folder_that_is_not_there_is_one_sentence(self):
        result = subprocess.run([str(PROGRAM), "nowhere"], text=True, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertIn("nowhere/train", result.stderr)


if __name__ == "__main__":
    if not os.path.isdir(os.environ.get("FASHION_MNIST", "")):
        print("skipped: install dataset-fashion-mnist")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
