#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws curves.svg: two charts of the page that the program curves makes of runs, as a browser draws them.

    curves one_device.jsonl two_devices.jsonl > page.html
    docs/drawings/curves.py page.html > docs/drawings/curves.svg

Wants Chromium. The first run is drawn wide and pale, so that one that lies on it is seen.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
STYLE = """
text { font: 11px system-ui, sans-serif; fill: #6e6e73; } .title { font-size: 14px; font-weight: 600; fill: #1c1c1e; }
.grid { stroke: #e3e3e7; } .run { fill: none; stroke-width: 1.5; stroke-linejoin: round; } .raw { display: none; }
.first .run, .run.first { stroke-width: 6; opacity: .3; }
"""


def drawn(page, state):
    """The charts of a page in that state, by title."""
    with tempfile.TemporaryDirectory() as profile:
        address = pathlib.Path(page).resolve().as_uri() + "#" + urllib.parse.quote(json.dumps(state))
        dom = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                              "--dump-dom", address], text=True, capture_output=True, check=True).stdout
    return {title: svg for title, svg in re.findall(r"<h2>(.*?)</h2><svg[^>]*>(.*?)</svg>", dom, re.S)}


def main(page):
    charts = drawn(page, {"smooth": 0.9, "log": True})
    text = pathlib.Path(page).read_text(encoding="utf-8")
    names = re.findall(r'"?name"?: ?"(.*?)"', text[text.index("const runs"):text.index("const colours")])
    colours = dict.fromkeys(re.findall(r'stroke="(#\w+)"', charts["Loss"]))
    first = next(iter(colours))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1160 350" width="1160" height="350">\n<style>{STYLE}</style>',
           '<rect width="1160" height="350" fill="#fff"/>']
    for n, (name, colour) in enumerate(zip(names, colours)):
        wide = ' stroke-width="6" opacity=".3"' if n == 0 else ' stroke-width="1.5"'
        out.append(f'<path d="M{300 + 150 * n} 16h24" stroke="{colour}"{wide}/>'
                   f'<text x="{330 + 150 * n}" y="20">{pathlib.Path(name).stem}</text>')
    out.append('<text x="890" y="20">line: training, smoothed; points: test images</text>')
    for x, title in zip((0, 590), charts):  # the loss, and the first metric
        body = charts[title].replace(f'class="run" stroke="{first}"', f'class="run first" stroke="{first}"')
        out += [f'<g transform="translate({x} 30)"><text class="title" x="58" y="-10">{title.capitalize()} by step</text>', body, "</g>"]
    print("\n".join([*out, "</svg>"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
