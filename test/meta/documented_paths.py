# SPDX-License-Identifier: Apache-2.0
"""Checks that what pages of Markdown name is there: files as `folder/name.hpp`, and links to files beside the page.

documented_paths.py ROOT FILE...     files are looked for below ROOT, ROOT/include and ROOT/include/tandem
"""

import pathlib
import re
import sys

FOLDERS = ["", "include", "include/tandem"]
NAMED = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:hpp|cuh|cpp|cu|py|sh|md))`")
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(?:#[^)]*)?\)")


def faults_of(root, page):
    """One sentence for each thing that `page` names and that is not there."""
    text = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"), flags=re.S)
    for number, line in enumerate(text.splitlines(), start=1):
        for name in NAMED.findall(line):
            if not any((root / under / name).is_file() for under in FOLDERS):
                yield f"{page}:{number}: there is no file {name}"
        for link in LINK.findall(line):
            if not (page.parent / link).exists():
                yield f"{page}:{number}: there is no {link} to link to"


def main(root, *pages):
    faults = [fault for page in pages for fault in faults_of(pathlib.Path(root), pathlib.Path(page))]
    print("\n".join([*faults, f"{len(pages)} pages, {len(faults)} faults"]))
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
