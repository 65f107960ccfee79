#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the site of docs/ and checks each of its links.

    python3 docs/site/build.py FOLDER        wants mkdocs-material: pip install -r docs/site/requirements.txt

MkDocs is strict: a link of a page that leads nowhere ends it. What it does not look at, such as links of the reference to
lines of the sources, is checked here, in the HTML: each leads to a file of the site, and to a place that is in it; nothing
but such links leaves the site.
"""

import html.parser
import os
import pathlib
import subprocess
import sys
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent


class Links(html.parser.HTMLParser):
    """Links, things fetched, and anchors of a page."""

    def __init__(self):
        super().__init__()
        self.links, self.fetched, self.anchors = set(), set(), set()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        if tag == "a" and attributes.get("href"):
            self.links.add(attributes["href"])
        elif tag in ("img", "script") and attributes.get("src"):
            self.fetched.add(attributes["src"])
        elif tag == "link" and attributes.get("rel") in ("stylesheet", "icon", "preconnect"):
            self.fetched.add(attributes["href"])


def faults_of(site):
    """A sentence for each link that leads nowhere."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = Links()
        pages[path].feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links begin at the root of a server
        for link in sorted(page.links | page.fetched):
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.fetched:
                    yield f"{path.relative_to(site)} fetches {link}"
                continue
            target = path if not parts.path else path.parent / urllib.parse.unquote(parts.path)
            target = pathlib.Path(os.path.normpath(target / "index.html" if target.is_dir() else target))
            if not target.is_file():
                yield f"{path.relative_to(site)}: there is no {link}"
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(site)}: there is no such place as {link}"


def main(folder):
    site = pathlib.Path(folder).resolve()
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--clean", "-f", str(HERE / "mkdocs.yml"), "-d", str(site)]
    if subprocess.run(command, env=environment, check=False).returncode != 0:
        return 1
    faults = list(faults_of(site))
    print("\n".join([*faults, f"{len(list(site.rglob('*.html')))} pages in {site}, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
