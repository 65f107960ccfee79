#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what bench_convergence measured: test accuracy by epoch and by second, a row of panels a network.

    bench/train/convergence_plot.py RESULTS.json PICTURE.svg [--least 0.8]

A curve is the mean over the seeds, its band their smallest and largest accuracy. Labels at the right end of a
panel are in the order of the last accuracies. The axis of accuracies begins at --least, or where the first
quarter of the epochs is over for most methods. Methods that diverged are named below their panel. Needs nothing
but Python.
"""

import argparse
import json
import pathlib
import statistics
from xml.sax.saxutils import escape

from plotting import number, spread, step_of, svg, ticks

LEFT, TOP, WIDTH, HEIGHT = 70, 70, 430, 330  # of the first panel
LABELS, BELOW = 250, 90  # room beside and below a panel
# Black is what others are compared with, cold colours train two models, warm ones are late with gradients.
STYLES = {
    "ModelParallel": ("#000000", ""),
    "AverageGradients": ("#1f5fa8", ""),
    "AverageWeights<>": ("#2a9fd6", ""),
    "AverageWeightsAndState<>": ("#2a9fd6", "6 3"),
    "AverageWeights<8>": ("#178a72", ""),
    "Overlapped<AverageWeights<>>": ("#178a72", "6 3"),
    "PipeDream": ("#c8441b", ""),
    "PipeDreamVerticalSync": ("#c8441b", "6 3"),
    "PipeDream2BW": ("#e08a00", ""),
    "WeightPrediction": ("#e08a00", "6 3"),
    "FeaturesReplay": ("#9a3fa0", ""),
    "PipelinedModel (PMP)": ("#9a3fa0", "6 3"),
}
OTHER = ("#777777", "2 2")


class Curve:
    """Of one method on one network, over its seeds; a seed that diverged ends it."""

    def __init__(self, method, runs):
        self.method = method
        self.colour, self.dash = STYLES.get(method, OTHER)
        self.diverged = any(run["diverged"] for run in runs)
        points = list(zip(*(run["epochs"] for run in runs)))
        self.accuracies = [[point["accuracy"] for point in epoch] for epoch in points]
        self.means = [statistics.fmean(epoch) for epoch in self.accuracies]
        self.seconds = [statistics.fmean(point["seconds"] for point in epoch) for epoch in points]
        self.epochs = [float(epoch + 1) for epoch in range(len(points))]


def networks(document):
    """[(network, [Curve])] in the order of the file."""
    grouped = {}
    for run in document["runs"]:
        grouped.setdefault(run["network"], {}).setdefault(run["method"], []).append(run)
    return [(network, [Curve(method, runs) for method, runs in methods.items()])
            for network, methods in grouped.items()]


def least_accuracy(curves):
    """Most methods are above it when a quarter of the epochs is over; the best end is at most 0.2 above."""
    drawn = [curve.means for curve in curves if curve.means]
    early = sorted(means[len(means) // 4] for means in drawn)
    best = max(means[-1] for means in drawn)
    return max(best - 0.2, early[len(early) // 4] - 0.005, 0.0)


class Panel:
    def __init__(self, left, top, curves, by_seconds, least):
        self.left, self.top, self.by_seconds, self.least = left, top, by_seconds, least
        self.diverged = [curve.method for curve in curves if curve.diverged]
        self.curves = curves = [curve for curve in curves if curve.means]
        self.most_x = max(x for curve in curves for x in self.xs(curve))
        self.least_x = 0.0 if by_seconds else 1.0
        self.most = max(max(epoch) for curve in curves for epoch in curve.accuracies) + 0.003

    def xs(self, curve):
        return curve.seconds if self.by_seconds else curve.epochs

    def x(self, value):
        return self.left + WIDTH * (value - self.least_x) / max(self.most_x - self.least_x, 1e-9)

    def y(self, value):
        return self.top + HEIGHT * (self.most - value) / (self.most - self.least)

    def path(self, points):
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)

    def draw(self, title, clip):
        bottom = self.top + HEIGHT
        yield (f'<clipPath id="{clip}"><rect x="{self.left}" y="{self.top}" width="{WIDTH}" height="{HEIGHT}"/>'
               "</clipPath>")
        yield f'<text x="{self.left}" y="{self.top - 12}" font-size="14" font-weight="bold">{escape(title)}</text>'
        for value in ticks(self.least, self.most, step_of(self.most - self.least)):
            yield (f'<line x1="{self.left}" x2="{self.left + WIDTH}" y1="{self.y(value):.1f}" '
                   f'y2="{self.y(value):.1f}" stroke="#dddddd"/>')
            yield f'<text x="{self.left - 6}" y="{self.y(value) + 4:.1f}" text-anchor="end">{number(value)}</text>'
        span = self.most_x - self.least_x
        for value in ticks(self.least_x, self.most_x, step_of(span) if self.by_seconds else max(1.0, step_of(span, 10))):
            yield f'<text x="{self.x(value):.1f}" y="{bottom + 16}" text-anchor="middle">{number(value)}</text>'
        unit = "seconds of training" if self.by_seconds else "epochs"
        yield f'<text x="{self.left + WIDTH / 2}" y="{bottom + 34}" text-anchor="middle">{unit}</text>'
        yield from self.draw_curves(clip)
        yield f'<path d="M{self.left} {self.top}V{bottom}H{self.left + WIDTH}" fill="none" stroke="#444444"/>'
        yield from self.draw_labels(bottom)
        if self.diverged:
            yield f'<text x="{self.left}" y="{bottom + 54}">diverged: {escape(", ".join(self.diverged))}</text>'

    def draw_curves(self, clip):
        yield f'<g clip-path="url(#{clip})">'
        for curve in self.curves:
            xs = self.xs(curve)
            band = [*zip(xs, map(max, curve.accuracies)), *reversed([*zip(xs, map(min, curve.accuracies))])]
            yield f'<polygon points="{self.path(band)}" fill="{curve.colour}" fill-opacity="0.08"/>'
        for curve in self.curves:
            dash = f' stroke-dasharray="{curve.dash}"' if curve.dash else ""
            yield (f'<polyline points="{self.path(zip(self.xs(curve), curve.means))}" fill="none" '
                   f'stroke="{curve.colour}" stroke-width="1.8"{dash}><title>{escape(curve.method)}</title></polyline>')
        yield "</g>"

    def draw_labels(self, bottom):
        ends = sorted((self.y(max(curve.means[-1], self.least)), curve.method, curve)
                      for curve in self.curves if curve.means)
        at = spread([end[0] for end in ends], self.top + 4, bottom)
        for y, (end, method, curve) in zip(at, ends):
            right = self.left + WIDTH
            yield (f'<polyline points="{self.x(self.xs(curve)[-1]):.1f},{end:.1f} {right + 4},{end:.1f} '
                   f'{right + 16},{y:.1f}" fill="none" stroke="{curve.colour}" stroke-width="0.6" '
                   'stroke-opacity="0.7"/>')
            yield (f'<text x="{right + 20}" y="{y + 4:.1f}" fill="{curve.colour}">{escape(method)} '
                   f'{curve.means[-1]:.3f}</text>')


def picture(document, least=None):
    """The SVG of bench_convergence's JSON."""
    rows = networks(document)
    column, row = WIDTH + LABELS + 60, HEIGHT + BELOW + 30
    width, height = LEFT + 2 * column - 40, TOP + len(rows) * row
    title = (f'Test accuracy on Fashion-MNIST, two devices, batch {document["batch"]}, '
             f'{document["samples"]} training images')
    lines = []
    for r, (network, curves) in enumerate(rows):
        if not any(curve.means for curve in curves):
            continue
        lowest = least_accuracy(curves) if least is None else least
        for c, by_seconds in enumerate([False, True]):
            panel = Panel(LEFT + c * column, TOP + r * row, curves, by_seconds, lowest)
            head = f"{network}: by {'seconds' if by_seconds else 'epochs'}"
            lines += panel.draw(head, f"panel_{r}_{c}")
    return svg(width, height, LEFT, title, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--least", type=float, help="accuracy at which the axis begins")
    options = parser.parse_args()
    document = json.loads(options.results.read_text(encoding="utf-8"))
    options.picture.write_text(picture(document, options.least), encoding="utf-8")


if __name__ == "__main__":
    main()
