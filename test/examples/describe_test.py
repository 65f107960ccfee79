#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the example describe, end to end.

    describe_test.py PROGRAM
"""

import program

NETWORKS = ["googlenet", "resnet20", "resnet18", "small_cnn", "gpt2", "gpt2_medium", "gpt2_large", "gpt2_xl"]


class Describe(program.ProgramTest):
    def test_every_network_in_full_and_by_parts(self):
        for network in NETWORKS:
            with self.subTest(network=network):
                rows = self.output(network).splitlines()
                parts = self.output(network, "--top").splitlines()
                self.assertTrue(rows[0].endswith(", for one sample in fp32"))
                ties = 2 if network.startswith("gpt") else 0
                total = len(rows) - 1 - ties
                self.assertEqual(rows[total:], parts[len(parts) - 1 - ties:])
                self.assertEqual(len(parts) - ties, 3 + int(rows[total].split()[1]))  # "10 parts"
                self.assertGreaterEqual(len(rows), len(parts))

    def test_weights_that_layers_share(self):
        rows = self.output("gpt2").splitlines()
        self.assertEqual(rows[-2], "shared: 0.weight, counted once, lies with Embedding of part 0 and Vocabulary of "
                         "part 15, 147.2 MiB each")
        self.assertIn(" in a step 154389504 bytes of its gradient go each way ", rows[-1])
        self.assertEqual(rows[-3].split()[:5], ["total", "16", "parts", "1024x3", "124439808"])

    def test_memory_of_each_device(self):
        for strategy, devices, samples in [("single", 1, 64), ("data2", 1, 64), ("model2", 2, 64), ("model2", 2, 128)]:
            with self.subTest(strategy=strategy):
                batch = () if samples == 128 else ("--batch", str(samples))
                rows = self.output("googlenet", "--top", "--strategy", strategy, *batch).splitlines()[17:]
                self.assertEqual(rows[0], "")
                if devices > 1:
                    self.assertRegex(rows[1], r"^cut into 2 parts, Split<\d+>, Split<\d+>;")
                    self.assertEqual([row.split()[:2] for row in rows[3:5]], [["0", "0"], ["1", "1"]])
                    rows = rows[5:]
                self.assertTrue(rows[1].startswith(f"MiB for steps of {samples} samples in fp32 with Sgd"))
                self.assertEqual([row.split()[0] for row in rows[3:]], [str(device) for device in range(devices)])
                for row in rows[3:]:
                    numbers = [float(word) for word in row.split()[1:]]
                    self.assertAlmostEqual(sum(numbers[:-1]), numbers[-1], delta=0.4)
        self.assertIn("--batch takes a whole number from 1 to 1048576, not '0'",
                      self.sentence("googlenet", "--batch", "0"))

    def test_layers_that_devices_share(self):
        rows = [row.split() for row in self.output("gpt2", "--top", "--strategy", "tensor", "--batch", "8").splitlines()]
        spread = {row[0] + " " + row[1]: row[2:] for row in rows if len(row) == 7}
        self.assertEqual(spread["2.0.0.body.1 Linear"], ["1024x1152", "columns", "columns", "-", "-"])
        self.assertEqual(spread["2.0.0.body.1 Copy"], ["1024x768", "whole", "partial", "-", "3072.0"])
        self.assertEqual(spread["2.0.0.body.3 Reduce"], ["1024x768", "whole", "whole", "3072.0", "-"])
        self.assertEqual(spread["0 Embedding"], ["1024x768", "partial", "whole", "-", "-"])
        self.assertEqual(spread["4 Vocabulary"], ["1024x3", "whole", "whole", "64.0", "-"])  # four doubles a row of each
        # Four a block, the words, and the gradient of what the criterion reads.
        self.assertIn(["total", "50", "all-reduces,", "1", "all-gather", "76864.0", "76800.0"], rows)

    def test_images_that_devices_share(self):
        for network, strategy, sends in [("googlenet", "channels", "all-reduces"), ("resnet20", "tensor", "all-reduces"),
                                         ("googlenet", "spatial", "exchanges"), ("small_cnn", "spatial", "exchanges")]:
            with self.subTest(network=network, strategy=strategy):
                text = self.output(network, "--strategy", strategy, "--batch", "64")
                rows = [row.split() for row in text.split("\nspreads over 2 devices")[1].split("\n\n")[0].splitlines()]
                total = rows[-1]
                kinds = ("Reduce", "Copy") if sends == "all-reduces" else ("Halo", "Cut", "Gather")
                own = [row for row in rows if len(row) == 7 and row[1] in kinds]
                self.assertEqual(total[:1] + total[2:3], ["total", sends])
                said = len([row for row in own if row[1] != "Copy" or row[6] != "-"])
                self.assertEqual(int(total[1]), said)
                for column in (-2, -1):  # each is rounded
                    whole = sum(float(row[column]) for row in own if row[column] != "-")
                    self.assertAlmostEqual(float(total[column]), whole, delta=0.05 * (len(own) + 1))
        self.assertIn("of these channels and spatial", self.sentence("gpt2", "--strategy", "spatial"))
        self.assertIn("no other --strategy than gpt2's tensor",
                      self.sentence("googlenet", "--strategy", "channels", "--backend", "cuda"))

    def test_kernels_of_a_step_on_a_gpu(self):
        rows = self.output("resnet20", "--backend", "cuda", "--precision", "bf16", "--batch", "64").splitlines()
        self.assertEqual(rows[1], "ResNet-20 in bf16: a step of 64 samples on one GPU; us by the roofline of dgx-h100")
        layers = [row for row in rows[3:] if ", forward " in row]
        self.assertTrue(layers[0].startswith("0 Conv2d, forward "))
        kernels = rows[rows.index("", 1) + 2:-1]
        total = rows[-1].split()
        self.assertEqual(total[0], "total")
        self.assertEqual(sum(int(row.split()[-5]) for row in kernels), int(total[1]))
        self.assertIn("precision tf32, bf16 or fp32", self.sentence("resnet20", "--backend", "cuda", "--precision", "x"))

    def test_kernels_of_layers_that_gpus_share(self):
        rows = self.output("gpt2", "--strategy", "tensor", "--backend", "cuda", "--precision", "bf16", "--batch", "8").splitlines()
        self.assertEqual(rows[1], "GPT-2 in bf16: a step of 8 samples on one GPU, whose layers 2 share; us by the roofline of dgx-h100")
        sums = [row.split() for row in rows if "Reduce, forward" in row or "Copy, input gradient" in row]
        self.assertEqual(len(sums), 50)  # four a block, two of the words, each of (8, 1024, 768)
        self.assertEqual({tuple(row[-5:-2]) for row in sums}, {("1", "12.583", "12.583")})

    def test_anything_else_is_one_sentence(self):
        for arguments, word in [
                ((), ""), (("",), ""), (("--top",), "--top"), (("googlenet", ""), ""),
                (("googlenet", "--to"), "--to"), (("googlenet", "--top", "--top"), "--top"),
                (("--top", "googlenet"), "googlenet"), (("GoogLeNet",), "GoogLeNet"),
                (("--help",), "--help"), (("small_cnn", "resnet20"), "resnet20"),
                (("googlenet", "--strategy", "data3"), "data3"), (("gpt2", "--strategy", "channels"), "channels"),
                (("gpt2_medium", "--strategy", "tensor"), "tensor"),
                (("\x1b[2J\n",), "\\x1B[2J\\x0A"), (("%s%n",), "%s%n"),
                (("resnet18" * 1000,), "resnet18" * 32 + "...")]:
            with self.subTest(arguments=arguments):
                self.assertEqual(
                    self.sentence(*arguments),
                    "describe: takes googlenet, resnet20, resnet18, small_cnn, gpt2, gpt2_medium, gpt2_large or "
                    "gpt2_xl, and then --top, --strategy single, data2, model2, of gpt2 and of images tensor, of these channels "
                    "and spatial, --batch and a number, --backend cuda with --precision tf32, bf16 or fp32 and --machine "
                    f"and a name but no other --strategy than gpt2's tensor, or nothing, not '{word}'")


if __name__ == "__main__":
    program.main()
