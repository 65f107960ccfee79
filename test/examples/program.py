# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests of the programs plan and schedule share: a program that is run as users run it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest


class ProgramTest(unittest.TestCase):
    """Runs PROGRAM, the first word of the test's command line; each test has a folder of its own."""

    program = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def pipe(self):
        """A pipe that nobody writes into."""
        path = self.folder / "pipe"
        os.mkfifo(path)
        return path

    def run_program(self, *arguments):
        return subprocess.run([self.program, *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)

    def json(self, *arguments):
        """What is printed, as JSON proper, which has neither Infinity nor NaN."""
        def refuse(constant):
            raise AssertionError(f"{constant} in the output of {arguments}")
        return json.loads(self.output(*arguments), parse_constant=refuse)

    def output(self, *arguments):
        result = self.run_program(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def sentence(self, *arguments):
        """The error of a call that must fail: one line, and nothing printed."""
        result = self.run_program(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr.strip()


def main():
    ProgramTest.program = sys.argv.pop(1)
    unittest.main()
