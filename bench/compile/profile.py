#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says where clang's time goes when it compiles a file: by phase, by header, by template.

    bench/compile/profile.py FILE [--top 25] [-- OPTIONS of clang++, as -O2]

Of -ftime-trace. Headers have their own time, without what they include, and those of the standard library are
joined; templates have the time of all their instantiations, what these instantiate included, outermost of its name
only. Seconds of wall time, so run nothing beside it.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def traced(file, options):
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "unit.o"
        command = [os.environ.get("CLANG", "clang++"), "-std=c++20", f"-I{ROOT / 'include'}", "-ftime-trace",
                   "-ftime-trace-granularity=100", "-c", str(file), "-o", str(target), *options]
        subprocess.run(command, check=True)
        return json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))["traceEvents"]


def own_times(events):
    """(event, seconds without the events of the same kind inside it)."""
    stack, result = [], []
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        while stack and event["ts"] >= stack[-1][0]["ts"] + stack[-1][0]["dur"]:
            stack.pop()
        entry = [event, event["dur"]]
        if stack:
            stack[-1][1] -= event["dur"]
        stack.append(entry)
        result.append(entry)
    return [(event, own / 1e6) for event, own in result]


def header_of(path):
    path = os.path.normpath(path)
    if "/tandem/" in path:
        return "tandem/" + path.split("/tandem/", 1)[1] if "include/tandem" in path else path
    return "standard library and system"


def outermost(events, name_of):
    """Seconds by name, of events that are in none of the same name."""
    total, count, ends = collections.Counter(), collections.Counter(), {}
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        name = name_of(event)
        if event["ts"] >= ends.get(name, 0):
            ends[name] = event["ts"] + event["dur"]
            total[name] += event["dur"] / 1e6
        count[name] += 1
    return total, count


def template_of(event):
    return re.sub(r"<.*", "", event["args"]["detail"])


def table(title, seconds, count=None, top=25):
    print(f"\n{title}")
    for name, value in seconds.most_common(top):
        times = f"{count[name]:7}" if count else ""
        print(f"{value:8.2f}{times}  {name}")


def main():
    own = sys.argv[1:]
    split = own.index("--") if "--" in own else len(own)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--top", type=int, default=25)
    options = parser.parse_args(own[:split])
    events = traced(options.file, own[split + 1:])

    phases = collections.Counter({event["name"]: event["dur"] / 1e6 for event in events
                                  if event["name"].startswith("Total ") or event["name"] == "ExecuteCompiler"})
    table("phases, s", phases, top=12)
    headers = collections.Counter()
    for event, seconds in own_times([e for e in events if e["name"] == "Source"]):
        headers[header_of(event["args"]["detail"])] += seconds
    table("headers, own s", headers, top=options.top)
    for kind in ("InstantiateClass", "InstantiateFunction", "OptFunction"):
        seconds, count = outermost([e for e in events if e["name"] == kind], template_of)
        table(f"{kind}, s and times", seconds, count, options.top)


if __name__ == "__main__":
    main()
