#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what bench_translation and its peer have printed: greedy BLEU by epoch and by CPU second.

    bench/train/translation_plot.py PICTURE.svg --tandem FILE... --pytorch FILE...

Each file is of one seed. A curve is the mean over the seeds, its band reaches from the smallest to the largest. Needs
nothing but Python.
"""

import argparse
import csv
import pathlib
import statistics

from plotting import LINE, number, step_of, svg, text, ticks

LEFT, TOP, WIDTH, HEIGHT, BETWEEN = 60, 70, 330, 280, 60
COLOURS = {"tandem": "#1f5fa8", "PyTorch": "#c8441b"}


def read(path):
    """[{column: number}], a line of comma-separated values an epoch; lines that begin with # are no such."""
    with open(path, encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#") and "," in line.split(" ")[0])
        return [{name: float(value) for name, value in row.items()} for row in rows]


class Curve:
    """Of the seeds of one library, as far as all of them have come."""

    def __init__(self, name, runs):
        points = list(zip(*runs))
        self.name, self.seeds = name, len(runs)
        self.epochs = [point[0]["epoch"] for point in points]
        self.seconds = [statistics.fmean(run["cpu_s"] for run in point) for point in points]
        self.scores = [[run["bleu"] for run in point] for point in points]
        self.means = [statistics.fmean(scores) for scores in self.scores]


class Panel:
    def __init__(self, left, curves, by_seconds):
        self.left, self.curves, self.by_seconds = left, curves, by_seconds
        self.most_x = max(max(self.xs(curve)) for curve in curves)
        self.most = max(max(map(max, curve.scores)) for curve in curves) * 1.05

    def xs(self, curve):
        return curve.seconds if self.by_seconds else curve.epochs

    def x(self, value):
        return self.left + WIDTH * value / self.most_x

    def y(self, value):
        return TOP + HEIGHT * (1 - value / self.most)

    def path(self, points):
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)

    def draw(self):
        for value in ticks(0, self.most, step_of(self.most)):
            y = self.y(value)
            yield f'<line x1="{self.left}" x2="{self.left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
            yield text(self.left - 6, round(y + 4, 1), number(value), text_anchor="end")
        for value in ticks(0, self.most_x, step_of(self.most_x) if self.by_seconds else 1):
            yield text(round(self.x(value), 1), TOP + HEIGHT + 18, number(value), text_anchor="middle")
        unit = "CPU seconds of training" if self.by_seconds else "epochs"
        yield text(self.left + WIDTH / 2, TOP + HEIGHT + 38, unit, text_anchor="middle")
        yield f'<path d="M{self.left} {TOP}V{TOP + HEIGHT}H{self.left + WIDTH}" fill="none" stroke="#444444"/>'
        for i, curve in enumerate(self.curves):
            xs, colour = self.xs(curve), COLOURS[curve.name]
            band = [*zip(xs, map(max, curve.scores)), *reversed([*zip(xs, map(min, curve.scores))])]
            yield f'<polygon points="{self.path(band)}" fill="{colour}" fill-opacity="0.15"/>'
            yield (f'<polyline points="{self.path(zip(xs, curve.means))}" fill="none" stroke="{colour}" '
                   'stroke-width="1.8"/>')
            yield text(self.left + 16, TOP + 20 + i * (LINE + 4), f"{curve.name}: {curve.means[-1]:.1f}", fill=colour)


def picture(runs):
    """The SVG of {library: [rows of a seed]}."""
    curves = [Curve(name, seeds) for name, seeds in runs.items() if seeds]
    lines = []
    for i, by_seconds in enumerate([False, True]):
        lines += Panel(LEFT + i * (WIDTH + BETWEEN), curves, by_seconds).draw()
    seeds = " and ".join(f"{curve.seeds} of {curve.name}" for curve in curves)
    lines.append(text(LEFT - 30, 46, f"Greedy BLEU on the pairs held out; mean over seeds, {seeds}, smallest to largest"))
    return svg(LEFT + 2 * WIDTH + BETWEEN + 30, TOP + HEIGHT + 60, LEFT - 30, "English to Spanish, a small GNMT", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--tandem", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--pytorch", type=pathlib.Path, nargs="+", required=True)
    options = parser.parse_args()
    runs = {"tandem": [read(path) for path in options.tandem], "PyTorch": [read(path) for path in options.pytorch]}
    options.picture.write_text(picture(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
