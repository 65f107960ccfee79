#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of examples/words.sh, on a dictionary that is made here."""

import gzip
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Words(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self):
        return subprocess.run([ROOT / "examples/words.sh", self.folder / "out"], text=True,
                              env={**os.environ, "TANDEM_PACKAGES_ROOT": str(self.folder)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def lines(self, name):
        return (self.folder / "out" / name).read_text(encoding="utf-8").splitlines()

    def test_what_is_missing_is_named_and_nothing_installed(self):
        run = self.run_script()
        self.assertEqual(run.returncode, 77)
        self.assertIn("run 'apt-get install dict-gcide' as root, then this again", run.stdout)

    def test_an_entry_is_a_line_of_small_words_and_marks(self):
        first = 'A b acus \\Ab"a*cus\\, n.; pl. {Abaci}.\n   A counting-frame of 1903\n   or so: the teacher\'s.\n   [1913 Webster]\n'
        entries = [first] + [f"entry {'x' * i}\n   of a few more words\n" for i in range(1, 40)] + ["too short\n"]
        source = self.folder / "usr/share/dictd/gcide.dict.dz"
        source.parent.mkdir(parents=True)
        source.write_bytes(gzip.compress("".join(entries).encode()))
        run = self.run_script()
        self.assertEqual(run.returncode, 0, run.stdout)
        train, valid = self.lines("train.words"), self.lines("valid.words")
        self.assertEqual(train[0], "a b acus , n . ; pl . abaci . a counting-frame of N or so : the teacher's .")
        self.assertEqual([f"entry {'x' * i} of a few more words" for i in (19, 39)], valid)  # each 20th
        self.assertEqual(len(train), 38)


if __name__ == "__main__":
    unittest.main()
