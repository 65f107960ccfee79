# SPDX-License-Identifier: Apache-2.0
"""What the plots of this folder share: axes, labels that stand apart, and the SVG around a drawing."""

from xml.sax.saxutils import escape

LINE = 14  # of labels


def step_of(span, wanted=6):
    """1, 2 or 5 times a power of ten, so that `span` has about `wanted` of it."""
    power = 10.0 ** -4
    while True:
        for factor in (1, 2, 5):
            if span / (factor * power) <= wanted:
                return factor * power
        power *= 10


def ticks(least, most, step):
    first = -(-least // step)
    return [step * (first + i) for i in range(int((most - first * step) / step + 1e-6) + 1)]


def log_ticks(least, most):
    """1, 2, 3, 5 and 7 times the powers of ten from `least` to `most`."""
    values = [factor * 10.0 ** power for power in range(-6, 10) for factor in (1, 2, 3, 5, 7)]
    return [value for value in values if least <= value <= most]


def number(value):
    return f"{value:.4f}".rstrip("0").rstrip(".")


def spread(places, top, bottom):
    """Moves labels apart: at least LINE between two, in their order, from top to bottom."""
    placed = []
    for place in places:
        placed.append(max(place, placed[-1] + LINE if placed else top))
    limit = bottom
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - LINE
    return placed


def text(x, y, words, **attributes):
    """A text element; `text_anchor` is written as text-anchor."""
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:g}" y="{y:g}"{rest}>{escape(words)}</text>'


def svg(width, height, left, title, elements):
    """A whole picture: white, with its title at the top."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#111111">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        text(left, 26, title, font_size=16, font_weight="bold"), *elements, "</svg>", ""])
