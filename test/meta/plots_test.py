#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the scripts that draw what was measured: what they are given stands where it belongs."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TRAIN = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "train"
sys.path.insert(0, str(TRAIN))

import convergence_plot  # noqa: E402
import epochs_plot  # noqa: E402
import translation_plot  # noqa: E402


class ConvergencePlot(unittest.TestCase):
    SVG = "{http://www.w3.org/2000/svg}"

    def document(self, **accuracies):
        """Two seeds of each method, the second 0.02 better; an epoch takes 3 seconds."""
        runs = [{"network": "net", "method": method, "seed": seed, "diverged": not all(values),
                 "epochs": [{"accuracy": value + 0.02 * seed, "seconds": 3.0 * (epoch + 1)}
                            for epoch, value in enumerate(filter(None, values))]}
                for method, values in accuracies.items() for seed in range(2)]
        return {"batch": 8, "samples": 80, "runs": runs}

    def texts(self, document):
        root = xml.etree.ElementTree.fromstring(convergence_plot.picture(document))
        return [text.text for text in root.iter(self.SVG + "text")]

    def test_labels_are_means_in_their_order(self):
        texts = self.texts(self.document(PipeDream=[0.5, 0.6], ModelParallel=[0.5, 0.7]))
        labels = [text for text in texts if text.startswith(("PipeDream", "ModelParallel"))]
        self.assertEqual(["ModelParallel 0.710", "PipeDream 0.610"] * 2, labels)

    def test_labels_stand_apart_and_inside(self):
        self.assertEqual([10, 24, 38], convergence_plot.spread([10, 11, 12], 4, 100))
        self.assertEqual([72, 86, 100], convergence_plot.spread([96, 97, 98], 4, 100))

    def test_curves_are_means_where_they_belong(self):
        curves = convergence_plot.networks(self.document(A=[0.5, 0.6]))[0][1]
        self.assertEqual([0.51, 0.61], [round(mean, 9) for mean in curves[0].means])
        panel = convergence_plot.Panel(0, 0, curves, by_seconds=True, least=0.5)
        self.assertEqual(convergence_plot.WIDTH, panel.x(6.0))
        self.assertEqual(convergence_plot.HEIGHT, panel.y(0.5))

    def test_diverged_methods_are_named(self):
        self.assertIn("diverged: A", self.texts(self.document(A=[0.5, None], B=[0.5, 0.6])))
        self.assertIn("diverged: A", self.texts(self.document(A=[None, None], B=[0.5, 0.6])))


class TranslationPlot(unittest.TestCase):
    FILE = "epoch,loss,held_out_loss,bleu,cpu_s\n1,5.0,5.1,{},10\n2,4.0,4.1,{},20\n# beam of 5: BLEU 9\n# text, with commas\n"

    def curve(self, *scores):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / str(seed) for seed in range(len(scores))]
            for file, pair in zip(files, scores):
                file.write_text(self.FILE.format(*pair), encoding="utf-8")
            return translation_plot.Curve("tandem", [translation_plot.read(file) for file in files])

    def test_a_curve_is_the_mean_over_the_seeds(self):
        curve = self.curve((1, 2), (3, 6))
        self.assertEqual(([1, 2], [10, 20], [2, 4]), (curve.epochs, curve.seconds, curve.means))
        panel = translation_plot.Panel(0, [curve], by_seconds=True)
        self.assertEqual(translation_plot.WIDTH, panel.x(20))
        self.assertAlmostEqual(translation_plot.TOP + translation_plot.HEIGHT * (1 - 1 / 1.05), panel.y(6))

    def test_a_picture_names_both(self):
        rows = [{"epoch": 1.0, "bleu": 2.0, "cpu_s": 3.0}]
        drawing = translation_plot.picture({"tandem": [rows], "PyTorch": [rows, rows]})
        xml.etree.ElementTree.fromstring(drawing)
        self.assertIn("1 of tandem and 2 of PyTorch", drawing)


class EpochsPlot(unittest.TestCase):
    SVG = "{http://www.w3.org/2000/svg}"
    LAW = {"least_epochs": 2.0, "slope": 0.01}  # 2 (1 + B / 200)

    def document(self, law=None, missed=(), seeds=3):
        points = [{"batch": batch, "epochs": epochs, "least": epochs / 2, "most": 2 * epochs}
                  for batch, epochs in ((64, 3), (256, 4.56), (1024, 12))]
        return {"points": points, "law": law, "missed": list(missed), "seeds": seeds, "samples": 5000, "target": 0.91}

    def picture(self, *arguments, **words):
        return xml.etree.ElementTree.fromstring(epochs_plot.picture(self.document(*arguments, **words)))

    def texts(self, *arguments, **words):
        return [text.text for text in self.picture(*arguments, **words).iter(self.SVG + "text")]

    def test_points_stand_where_they_belong(self):
        points = self.document()["points"]
        panel = epochs_plot.Panel(points)
        x, y = [panel.x(point["batch"]) for point in points], [panel.y(point["epochs"]) for point in points]
        self.assertAlmostEqual(x[1] - x[0], x[2] - x[1])  # each batch is four times the one before
        self.assertTrue(epochs_plot.LEFT < x[0] and x[2] < epochs_plot.LEFT + epochs_plot.WIDTH)
        self.assertTrue(y[0] > y[1] > y[2])
        self.assertAlmostEqual(panel.y(6) - panel.y(12), panel.y(3) - panel.y(6))
        circles = [(circle.get("cx"), circle.get("cy")) for circle in self.picture().iter(self.SVG + "circle")]
        self.assertEqual([(f"{a:.1f}", f"{b:.1f}") for a, b in zip(x, y)], circles)
        bars = [bar for bar in self.picture().iter(self.SVG + "line") if bar.get("stroke") == epochs_plot.POINT]
        self.assertEqual([f"{panel.y(point['least']):.1f}" for point in points], [bar.get("y1") for bar in bars])
        self.assertEqual([f"{panel.y(point['most']):.1f}" for point in points], [bar.get("y2") for bar in bars])

    def test_the_law_is_a_curve(self):
        curve = next(self.picture(self.LAW).iter(self.SVG + "polyline"))
        places = [tuple(map(float, place.split(","))) for place in curve.get("points").split()]
        panel = epochs_plot.Panel(self.document()["points"])
        for batch, epochs in ((64, 2.64), (1024, 12.24)):
            x, y = min(places, key=lambda place: abs(place[0] - panel.x(batch)))
            self.assertLess(abs(y - panel.y(epochs)), 3)  # pixels: the curve has a place every 6
        self.assertIn("critical-batch law: E(B) = 2 (1 + B / 200)", self.texts(self.LAW))
        self.assertIn("critical-batch law: E(B) = 2", self.texts({**self.LAW, "slope": 0}))
        self.assertEqual([], list(self.picture(None).iter(self.SVG + "polyline")))

    def test_the_law_stays_inside(self):
        for slope in (0.05, 0.01):  # leaves at the top; comes in from below
            with self.subTest(slope=slope):
                curve = next(self.picture({"least_epochs": 0.1, "slope": slope}).iter(self.SVG + "polyline"))
                heights = [float(place.split(",")[1]) for place in curve.get("points").split()]
                self.assertTrue(10 < len(heights) < 101)
                self.assertGreaterEqual(min(heights), epochs_plot.TOP)
                self.assertLessEqual(max(heights), epochs_plot.TOP + epochs_plot.HEIGHT)

    def test_words(self):
        missed = ["batch 4096: 0.8 < 0.91 after 30 epochs"]
        texts = self.texts(missed=missed)
        self.assertEqual("Epochs of 5000 images to a test accuracy of 0.91", texts[0])
        for word in ["64", "256", "1024", "3", *missed, "median of 3 runs; from the smallest to the largest"]:
            self.assertIn(word, texts)
        self.assertIn("one run each", self.texts(seeds=1))
        heights = [int(self.picture(missed=missed * count).get("height")) for count in (0, 1)]
        self.assertLess(*heights)

    def test_nothing_to_draw(self):
        with self.assertRaisesRegex(SystemExit, "no batch reached the target"):
            epochs_plot.picture({**self.document(), "points": []})

    def test_the_script(self):
        with tempfile.TemporaryDirectory() as folder:
            results, drawn = pathlib.Path(folder, "results.json"), pathlib.Path(folder, "picture.svg")
            results.write_text(json.dumps(self.document(self.LAW)), encoding="utf-8")
            subprocess.run([sys.executable, TRAIN / "epochs_plot.py", results, drawn], check=True)
            self.assertEqual(epochs_plot.picture(self.document(self.LAW)), drawn.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
