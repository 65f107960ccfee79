#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what examples/epochs.cpp measured: epochs to the target accuracy over the global batch.

    bench/train/epochs_plot.py RESULTS.json PICTURE.svg

Both axes are logarithmic. A point is the median of the runs, its bar reaches from the smallest to the largest; the
curve is the critical-batch law nearest to the points, where there is one. Batches that missed the target are named
below. Needs nothing but Python.
"""

import argparse
import json
import math
import pathlib

from plotting import LINE, log_ticks, number, svg, text

LEFT, TOP, WIDTH, HEIGHT = 70, 60, 620, 380
POINT, LAW = "#1f5fa8", "#c8441b"


class Panel:
    def __init__(self, points):
        batches = [point["batch"] for point in points]
        self.first, self.last = min(batches) / 1.3, max(batches) * 1.3
        self.least = min(point["least"] for point in points) / 1.25
        self.most = max(point["most"] for point in points) * 1.25

    def x(self, batch):
        return LEFT + WIDTH * math.log(batch / self.first) / math.log(self.last / self.first)

    def y(self, epochs):
        return TOP + HEIGHT * math.log(self.most / epochs) / math.log(self.most / self.least)

    def axes(self, batches):
        for epochs in log_ticks(self.least, self.most):
            y = self.y(epochs)
            yield f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
            yield text(LEFT - 6, round(y + 4, 1), number(epochs), text_anchor="end")
        for batch in batches:
            yield text(round(self.x(batch), 1), TOP + HEIGHT + 18, str(batch), text_anchor="middle")
        yield text(LEFT + WIDTH / 2, TOP + HEIGHT + 38, "global batch (log)", text_anchor="middle")
        yield text(LEFT - 40, TOP - 10, "epochs (log)")
        yield f'<path d="M{LEFT} {TOP}V{TOP + HEIGHT}H{LEFT + WIDTH}" fill="none" stroke="#444444"/>'

    def law(self, law):
        batches = [self.first * (self.last / self.first) ** (i / 100) for i in range(101)]
        places = [(self.x(b), self.y(law["least_epochs"] + law["slope"] * b)) for b in batches]
        inside = " ".join(f"{x:.1f},{y:.1f}" for x, y in places if TOP <= y <= TOP + HEIGHT)
        yield f'<polyline points="{inside}" fill="none" stroke="{LAW}" stroke-width="1.8"/>'

    def point(self, point):
        x, least, most = self.x(point["batch"]), self.y(point["least"]), self.y(point["most"])
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{least:.1f}" y2="{most:.1f}" stroke="{POINT}" stroke-width="1.5"/>'
        yield f'<circle cx="{x:.1f}" cy="{self.y(point["epochs"]):.1f}" r="4" fill="{POINT}"/>'


def law_words(law):
    if law["slope"] <= 0:
        return f'critical-batch law: E(B) = {law["least_epochs"]:.3g}'
    return f'critical-batch law: E(B) = {law["least_epochs"]:.3g} (1 + B / {law["least_epochs"] / law["slope"]:.3g})'


def picture(document):
    """The SVG of what epochs_json() wrote."""
    points, law, missed = document["points"], document["law"], document["missed"]
    if not points:
        raise SystemExit("no batch reached the target, so that there is nothing to draw")
    panel = Panel(points)
    lines = list(panel.axes([point["batch"] for point in points]))
    if law is not None:
        lines += panel.law(law)
    for point in points:
        lines += panel.point(point)
    runs = document["seeds"]
    legend = [("one run each" if runs == 1 else f"median of {runs} runs; from the smallest to the largest", POINT)]
    legend += [(law_words(law), LAW)] if law is not None else []
    for i, (words, colour) in enumerate(legend):
        lines.append(text(LEFT + 16, TOP + 28 + i * (LINE + 4), words, fill=colour))
    for i, sentence in enumerate(missed):
        lines.append(text(LEFT, TOP + HEIGHT + 60 + i * (LINE + 4), sentence))
    title = f'Epochs of {document["samples"]} images to a test accuracy of {number(document["target"])}'
    height = TOP + HEIGHT + 56 + len(missed) * (LINE + 4)
    return svg(LEFT + WIDTH + 40, height, LEFT - 40, title, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    options = parser.parse_args()
    document = json.loads(options.results.read_text(encoding="utf-8"))
    options.picture.write_text(picture(document), encoding="utf-8")


if __name__ == "__main__":
    main()
