#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws plan.svg: time against devices, as the page of plan has it, with the page's style in light.

    plan --net inception_v3 --machine dgx-1-v100 --devices 1..256 \\
        --epochs "2048:4,4096:7,8192:12,16384:23" --html page.html
    docs/drawings/plan.py page.html > docs/drawings/plan.svg
"""

import pathlib
import re
import sys


def main(page):
    text = pathlib.Path(page).read_text(encoding="utf-8")
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    values = dict(re.findall(r"(--\w+): (#\w+);", style[:style.index("@media")]))
    rules = re.findall(r"^(?:svg text|\.(?:grid|line|point|cross|crossover|key|f\d)\b).*$", style, re.M)
    css = re.sub(r"var\((--(?!family)\w+)\)", lambda name: values[name[1]], "\n".join(rules))
    picture = re.search(r'<svg [^>]*id="time".*?</svg>', text, re.S)[0]
    head, body = picture.split(">", 1)
    print(f'{head} width="860" height="400" font-family="system-ui, sans-serif">\n<style>{css}</style>\n'
          f'<rect width="860" height="400" fill="#fff"/>{body}')


if __name__ == "__main__":
    main(*sys.argv[1:])
