# SPDX-License-Identifier: Apache-2.0
"""What MkDocs is told besides docs/: the README as the first page, the reference, and pages of the sources that are named.

Pages are written for GitHub, where links lead to files of the repository; here they lead to pages of these files.
"""

import pathlib
import posixpath
import re
import sys

from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import reference  # noqa: E402
from source_page import page_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BROUGHT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
FOLDERS = ["", "include", "include/tandem"]
NAMED = re.compile(r"(?<!\[)`((?:[\w.-]+/)+[\w.-]+\.(?:hpp|cuh|cpp|cu|py|sh))`(?!\])")
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.S | re.M)

sources = set()  # of which there is a page


def source_page(path):
    return f"source/{path}.html"


def in_repository(page):
    """Where the text of a page stands."""
    return next((path for path, here in BROUGHT.items() if here == page), f"docs/{page}")


def target_of(page, link):
    """The page that a link of `page` leads to, as links of pages are: from its folder."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository(page)), link))
    if path in BROUGHT:
        target = BROUGHT[path]
    elif (ROOT / path).is_dir():
        below = path.removeprefix("include/tandem").strip("/")
        target = (path.removeprefix("docs/") + "/README.md" if (ROOT / path / "README.md").is_file() else
                  f"reference/{below}.md" if path.startswith("include/") and below in names_of_reference else
                  "reference/index.md")
    elif path.startswith("docs/") and not path.endswith((".cpp", ".hpp", ".py", ".yml", ".css")):
        target = path.removeprefix("docs/")
    elif (ROOT / path).is_file():
        sources.add(path)
        target = source_page(path)
    else:
        return None
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


names_of_reference = {name for name, *_ in reference.PAGES}


def with_links(page, text):
    """`text` with its links, and with links to the files that it names."""
    def link(match):
        target = target_of(page, match[1])
        return match[0] if target is None else f"]({target}{match[2] or ''})"

    def named(match):
        path = next((posixpath.normpath(posixpath.join(under, match[1]))
                     for under in FOLDERS if (ROOT / under / match[1]).is_file()), None)
        if not path or path.startswith("docs/"):
            return match[0]
        sources.add(path)
        return f"[`{match[1]}`]({posixpath.relpath(source_page(path), posixpath.dirname(page) or '.')})"

    def titled(match):  # a page that is called by its file's name
        path = ROOT / posixpath.normpath(posixpath.join(posixpath.dirname(in_repository(page)), match[2]))
        title = re.search(r"^# (.*)", path.read_text(encoding="utf-8"), re.M) if path.suffix == ".md" and path.is_file() else None
        return f"[{title[1]}]({match[2]}{match[3] or ''})" if title and match[1].endswith(path.name) else match[0]

    text = re.sub(r"\[([\w./-]+\.md)\]\(([^)#\s]+)(#[^)]*)?\)", titled, text)
    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else NAMED.sub(named, LINK.sub(link, part)) for part in parts)


def on_config(config):
    """A page of docs/ that the navigation does not name is a page of the guide."""
    named = re.findall(r"[\w/]+\.md", str(config["nav"]))
    guide = next(entry["Guide"] for entry in config["nav"] if "Guide" in entry)
    guide += sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in named)
    return config


def on_files(files, config):
    sources.clear()
    for path, page in BROUGHT.items():
        head = "---\nhide:\n  - navigation\n---\n" if page == "index.md" else ""
        files.append(File.generated(config, page, content=head + (ROOT / path).read_text(encoding="utf-8")))

    def source_link(path, line):
        inside = str(path.relative_to(ROOT))
        sources.add(inside)
        return f"../{source_page(inside)}#L{line}"

    style = pathlib.Path(__file__).with_name("site.css").read_text(encoding="utf-8")
    files.append(File.generated(config, "site.css", content=style))
    made = reference.Reference(ROOT / "include/tandem", source_link)
    files.append(File.generated(config, "reference/index.md", content=made.index()))
    for name in made.read:
        files.append(File.generated(config, f"reference/{name}.md", content=made.page(name)))
    for file in [f for f in files if f.is_documentation_page()]:  # to know of which sources there must be a page
        if not file.src_uri.startswith("reference/"):
            with_links(file.src_uri, file.content_string)
    for path in sorted(sources):
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, source_page(path), content=page_of(path, text)))
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    return markdown if here.startswith("reference/") else with_links(here, markdown)
