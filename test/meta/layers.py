#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the headers of an include tree against the rules of the library.

    layers.py INCLUDE_FOLDER

A folder includes only those that MAY_INCLUDE names; the rest are the rules on the form of a header. Prints one line for
each fault, `file:line: what is wrong`, and exits 1 if there is any. Long headers are no fault: they are listed as questions.
"""

import pathlib
import re
import sys

# Who may include whom, bottom to top; every folder may include itself. What stands in no list is a fault: no op sees a
# communicator, no kernel a strategy, and a schedule is a table that knows of no network.
MAY_INCLUDE = {folder: set(others.split()) for folder, others in {
    "core": "",
    "io": "core",
    "graph": "core",
    "schedule": "core",
    "layers": "core graph",
    "models": "core graph layers",
    "strategy": "core graph schedule",
    "data": "core io",
    "plan": "core io graph schedule strategy",
    "runtime": "core graph",
    "kernels": "core runtime",
    "comm": "core runtime kernels",
    "optim": "core graph strategy",
    "ops": "core graph layers runtime kernels optim",
    "engine": "core graph schedule strategy runtime kernels comm optim ops",
    "train": "core io graph schedule layers strategy data runtime comm optim ops engine",
    "measure": "core io graph schedule layers strategy data plan runtime comm optim ops engine train",
}.items()}

ROOT_HEADERS = ["tandem.hpp", "any_strategy.hpp", "schedules.hpp", "plan.hpp", "measure.hpp", "text.hpp", "images.hpp", "tables.hpp",
                "describe.hpp", "onnx.hpp"]
BODIES = "impl/src.hpp"  # of all doors, for the one unit that has them
IF_BODIES = "#if TANDEM_BODIES"  # begins them; what they alone need is included there
INSTANCE_MACROS = "impl/instance_macros.hpp"
INSTANCES = {"impl/instances.hpp", "impl/rank_parts.hpp", "impl/cuda_instances.cuh", INSTANCE_MACROS}  # compiled there alone
DOORS = {*ROOT_HEADERS, "cuda.cuh", "mpi.hpp", BODIES, "impl/src.cuh", *INSTANCES}  # may include all and do so inside #if
AGAIN = {"core/letters_aside.hpp", "core/letters_back.hpp", INSTANCE_MACROS}  # included by every door
MACROS = ["core/config.hpp", "core/bodies.hpp"]  # the first includes the second
MACRO_HOMES = {*MACROS, "core/contract.hpp", "strategy/rules.hpp", "strategy/argument_rules.hpp", BODIES, *INSTANCES}
LONG = 300  # lines: is it one idea?

# Headers that bind another library or backend are included by those who want them; all others are
# reached from one of ROOT_HEADERS.
OPTIONAL = r"(^|/)(cuda|cublaslt|cudnn|nccl|mpi|onednn|testing)(/|\.hpp$|_)"

# What a library may not do to its program, and a trick where TANDEM_ONCE or inline says it; (pattern, name, paths that may).
FORBIDDEN = [
    (r"\btemplate\s*<\s*class\s*=\s*void\s*>", "template <class = void>", ""),
    (r"(?<![\w.>:])(?:(?:std)?::)?(?:exit|quick_exit|_Exit)\s*\(", "exit", r"core/stall"),
    (r"\bstd::abort\b|(?<!\w)::abort\b", "abort", ""),
    (r"(?<!\w)v?f?printf\s*\(|(?<!\w)(?:puts|fputs|putchar)\s*\(", "printf", r"train/progress|train/elastic/run|runtime/cuda/error"),
    (r"\bstd::(?:cout|cerr|clog)\b|#\s*include\s*<iostream>", "iostream", ""),
    (r"\bgetenv\s*\(", "getenv", r"train/ranks/(launch|world)|runtime/cuda/environment|runtime/host/busy_cores"),
    (r"\bcudaDeviceSynchronize\b", "cudaDeviceSynchronize", ""),
]


def without_comments(text):
    """The text with comments blanked and its lines kept; string literals are kept in includes only."""
    token = re.compile(
        r"//[^\n]*|/\*.*?\*/"                      # comments
        r'|R"([^()\\ ]{0,16})\(.*?\)\1"'            # raw strings
        r'|"(?:\\.|[^"\\\n])*"'                    # strings
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'",   # characters, but not the ' of 1'000
        re.DOTALL)

    def blank(match):
        line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        if match[0][0] == '"' and re.match(r"\s*#\s*include\s*$", line):
            return match[0]
        return " " + "\n" * match[0].count("\n")

    return token.sub(blank, text)


def folder_of(path):
    return path.split("/")[0] if "/" in path else None


def check_include(path, spelled, depth, exists):
    """The faults of `#include spelled` in the header `path`, `depth` #ifs deep, those of bodies aside."""
    if spelled.startswith('"'):
        yield f"write #include <tandem/...> and not {spelled}"
        return
    name = spelled[1:-1]
    if not name.startswith("tandem/"):
        return
    name = name.removeprefix("tandem/")
    if not exists(name):
        yield f"<tandem/{name}> does not exist"
    if path.endswith(".hpp") and name.endswith(".cuh"):
        yield f"a .hpp may not include a .cuh, here <tandem/{name}>"
    if path in DOORS:
        return
    if depth > 0:
        yield f"<tandem/{name}> is included inside #if"
    here, there = folder_of(path), folder_of(name)
    if there is None:
        yield f"<tandem/{name}> is for users; include what is needed from it"
    elif name in AGAIN:
        yield f"<tandem/{name}> is for the doors: {', '.join(sorted(DOORS))}"
    elif there in MAY_INCLUDE and here in MAY_INCLUDE and there not in MAY_INCLUDE[here] | {here}:
        yield f"{here}/ may not include {there}/, here <tandem/{name}>"


def check_kernels(text):
    """Kernels may begin before the one before them has ended, so all of them wait for that first."""
    text = without_comments(text)
    for kernel in re.finditer(r"\b(?:TANDEM_KERNEL|__global__)\s+void\b", text):
        depth, at = 0, kernel.end()
        while at < len(text) and (text[at] != "{" or depth > 0):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if not text[at + 1:].lstrip().startswith("await_previous();"):
            yield text.count("\n", 0, kernel.start()) + 1, "a kernel begins with await_previous();"


def macros_of(root):
    """What the headers of MACROS define."""
    texts = [without_comments((root / name).read_text(encoding="utf-8")) for name in MACROS if (root / name).is_file()]
    return set(re.findall(r"^\s*#\s*define\s+(\w+)", "\n".join(texts), re.M))


def check_conditions(text, macros):
    """A macro that is not defined is 0 in an #if, so a header that asks for one includes its home, above and always."""
    ifs, included = 0, False
    for number, line in enumerate(without_comments(text).splitlines(), start=1):
        if re.match(r"\s*#\s*(el)?if", line) and not included:
            for macro in sorted(macros & set(re.findall(r"\w+", line))):
                yield number, f"{macro} is asked for above #include <tandem/{MACROS[0]}>"
        ifs += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
        included |= ifs == 0 and bool(re.match(rf"\s*#\s*include\s*<tandem/{re.escape(MACROS[0])}>", line))


def check_header(path, text, exists):
    """Yields (line, fault) for the header at `path`, relative to include/tandem."""
    lines = text.splitlines()
    if not lines or lines[0] != "// SPDX-License-Identifier: Apache-2.0":
        yield 1, "the first line must be the SPDX line"
    if [line for line in lines if line.startswith("#pragma once")] != ["#pragma once"][path in AGAIN:]:
        yield 1, "one line must be #pragma once, but in " + " and ".join(sorted(AGAIN))
    if "/" in path and path not in DOORS and folder_of(path) not in MAY_INCLUDE:
        yield 1, f"the folder {folder_of(path)}/ has no place in MAY_INCLUDE of {pathlib.Path(__file__).name}"

    yield from check_kernels(text)
    ifs = []
    for number, line in enumerate(without_comments(text).splitlines(), start=1):
        if re.match(r"\s*#\s*if", line):
            ifs.append(line.strip() != IF_BODIES)
        elif re.match(r"\s*#\s*endif", line):
            ifs.pop()
        include = re.match(r'\s*#\s*include\s*(<[^>]*>|"[^"]*")', line)
        if include:
            for fault in check_include(path, include[1], sum(ifs), exists):
                yield number, fault
        if re.match(r"\s*#\s*define\b", line) and path not in MACRO_HOMES:
            yield number, "macros are defined in core/config.hpp, core/bodies.hpp and core/contract.hpp only"
        for pattern, name, allowed in FORBIDDEN:
            if re.search(pattern, line) and not (allowed and re.match(allowed, path)):
                yield number, f"{name} has no place in include/"


def always(text):
    """What of a header's text stands outside of every #if but that of bodies."""
    lines, ifs = [], []
    for line in text.splitlines():
        if re.match(r"\s*#\s*if", line):
            ifs.append(line.strip() != IF_BODIES)
        elif re.match(r"\s*#\s*endif", line):
            ifs.pop()
        elif not any(ifs):
            lines.append(line)
    return "\n".join(lines)


def reached(root, doors, part=lambda text: text):
    """The headers that one of the doors includes, through however many others, in that part of each text."""
    todo = list(doors)
    seen = set()
    while todo:
        name = todo.pop()
        if name not in seen and (root / name).is_file():
            seen.add(name)
            text = part(without_comments((root / name).read_text(encoding="utf-8")))
            todo += re.findall(r"#\s*include\s*<tandem/([^>]+)>", text)
    return seen


def headers_of(include):
    return sorted(p for p in (pathlib.Path(include) / "tandem").rglob("*") if p.suffix in {".hpp", ".cuh"})


def questions(include):
    """Headers so long that a reader may ask whether they hold one idea."""
    for header in headers_of(include):
        lines = len(header.read_text(encoding="utf-8").splitlines())
        if lines > LONG:
            yield f"{header}:{lines}: question: {lines} lines; is it one idea?"


def check_tree(include):
    root = pathlib.Path(include) / "tandem"
    headers = headers_of(include)
    macros = macros_of(root)
    faults = []
    for header in headers:
        path = header.relative_to(root).as_posix()
        text = header.read_text(encoding="utf-8")
        for line, fault in check_header(path, text, lambda name: (root / name).is_file()):
            faults.append(f"include/tandem/{path}:{line}: {fault}")
        if path not in MACRO_HOMES:
            for line, fault in check_conditions(text, macros):
                faults.append(f"include/tandem/{path}:{line}: {fault}")
    names = [h.relative_to(root).as_posix() for h in headers]
    if (root / "tandem.hpp").is_file():
        seen = reached(root, ROOT_HEADERS + [BODIES] + [name for name in names if re.search(OPTIONAL, name)])
        for name in names:
            if name.endswith(".hpp") and name not in seen and not re.search(OPTIONAL, name):
                faults.append(f"include/tandem/tandem.hpp:1: <tandem/{name}> is not reached from here")
    seen = reached(root, [BODIES], always)
    for header, name in zip(headers, names):
        if (name not in seen and not re.search(OPTIONAL, name)
                and f"\n{IF_BODIES}\n" in header.read_text(encoding="utf-8")):
            faults.append(f"include/tandem/{BODIES}:1: <tandem/{name}>, which has bodies, is not always reached from here")
    return len(headers), faults


def main():
    headers, faults = check_tree(sys.argv[1])
    print("\n".join([*questions(sys.argv[1]), *faults, f"{headers} headers, {len(faults)} faults"]))
    sys.exit(1 if faults or headers == 0 else 0)


if __name__ == "__main__":
    main()
