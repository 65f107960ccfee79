#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the example describe, end to end.

    describe_test.py PROGRAM
"""

import program

NETWORKS = ["googlenet", "resnet20", "resnet18", "small_cnn"]


class Describe(program.ProgramTest):
    def test_every_network_in_full_and_by_parts(self):
        for network in NETWORKS:
            with self.subTest(network=network):
                rows = self.output(network).splitlines()
                parts = self.output(network, "--top").splitlines()
                self.assertTrue(rows[0].endswith(", for one sample in fp32"))
                self.assertEqual(rows[-1], parts[-1])  # the total
                self.assertEqual(len(parts), 3 + int(rows[-1].split()[1]))  # "10 parts"
                self.assertGreaterEqual(len(rows), len(parts))

    def test_anything_else_is_one_sentence(self):
        for arguments, word in [
                ((), ""), (("",), ""), (("--top",), "--top"), (("googlenet", ""), ""),
                (("googlenet", "--to"), "--to"), (("googlenet", "--top", "--top"), "--top"),
                (("--top", "googlenet"), "googlenet"), (("GoogLeNet",), "GoogLeNet"),
                (("--help",), "--help"), (("small_cnn", "resnet20"), "resnet20"),
                (("\x1b[2J\n",), "\\x1B[2J\\x0A"), (("%s%n",), "%s%n"),
                (("resnet18" * 1000,), "resnet18" * 32 + "...")]:
            with self.subTest(arguments=arguments):
                self.assertEqual(
                    self.sentence(*arguments),
                    "describe: takes googlenet, resnet20, resnet18 or small_cnn, and then --top or "
                    f"nothing, not '{word}'")


if __name__ == "__main__":
    program.main()
