# SPDX-License-Identifier: Apache-2.0
"""A source file as a page of its own: numbered lines that can be linked to as #L12, comments and words set apart."""

import html
import re

WORDS = ("alignas auto bool break case catch char class concept const consteval constexpr constinit continue default "
         "delete do double else enum explicit extern false final float for friend if inline int long mutable namespace "
         "new noexcept nullptr operator override private protected public requires return short signed sizeof static "
         "static_assert static_cast struct switch template this throw true try typename union unsigned using virtual "
         "void volatile while").split()
CODE = re.compile(r'(?P<c>//[^\n]*|/\*.*?\*/)|(?P<s>R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*")|(?P<p>^[ \t]*#[^\n]*)'
                  r"|(?P<k>\b(?:" + "|".join(WORDS) + r")\b)", re.M | re.S)
SCRIPT = re.compile(r"(?P<c>#[^\n]*)")

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{path}</title>
<style>
:root {{ color-scheme: light dark; --ink: #24292f; --soft: #6e7781; --paper: #fff; --key: #8250df; --text: #0a5a2a; --mark: #fff3c4; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #d8dee6; --soft: #8b949e; --paper: #1e2129; --key: #c4a7f5; --text: #9bd3a8; --mark: #4a4322; }}
}}
body {{ margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }}
header {{ padding: .8rem 1.2rem; border-bottom: 1px solid var(--soft); overflow-wrap: anywhere; }}
a {{ color: inherit; }}
pre {{ margin: 0; padding: 1rem 0; overflow-x: auto; font: 13px/1.5 ui-monospace, monospace; counter-reset: line; }}
pre i {{ display: block; font-style: normal; padding: 0 1.2rem 0 0; white-space: pre; width: max-content; min-width: calc(100% - 1.2rem); }}
pre i::before {{ counter-increment: line; content: counter(line); display: inline-block; width: 3.2rem; margin-right: 1rem;
  text-align: right; color: var(--soft); user-select: none; }}
pre i:target {{ background: var(--mark); }}
.c, .p {{ color: var(--soft); }} .s {{ color: var(--text); }} .k {{ color: var(--key); }}
</style>
</head>
<body>
<header><a href="{home}">tandem</a> &nbsp; <code>{path}</code></header>
<pre>{lines}</pre>
</body>
</html>
"""


def marked(text, pattern):
    """`text` as HTML with a span around each match, none of which goes over the end of a line."""
    out, at = [], 0
    for match in pattern.finditer(text):
        out.append(html.escape(text[at:match.start()], quote=False))
        for n, line in enumerate(match[0].split("\n")):
            out.append(("\n" if n else "") + f'<span class="{match.lastgroup}">{html.escape(line, quote=False)}</span>')
        at = match.end()
    return "".join(out) + html.escape(text[at:], quote=False)


def page_of(path, text):
    is_code = path.endswith((".hpp", ".cpp", ".cuh", ".cu"))
    shown = marked(text.rstrip("\n"), CODE if is_code else SCRIPT)
    lines = "".join(f'<i id="L{n}">{line or " "}</i>' for n, line in enumerate(shown.split("\n"), start=1))
    return PAGE.format(path=html.escape(path), home="../" * (path.count("/") + 1) + "index.html", lines=lines)
