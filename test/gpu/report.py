#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what check.sh has noted of its parts, and writes it as JSON.

    report.py VERB RESULTS

Reads RESULTS/VERB.tsv (name, outcome, seconds, summary), writes RESULTS/VERB.json; what a part itself has
left as RESULTS/VERB/NAME.json goes in, too. Exits with 1 unless a part has passed and none has failed.
"""

import json
import pathlib
import subprocess
import sys


def machine():
    fields = "name,driver_version,compute_cap,memory.total"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        lines = subprocess.run(command, text=True, capture_output=True).stdout.splitlines()
    except OSError:
        lines = []
    return [dict(zip(fields.split(","), map(str.strip, line.split(",")))) for line in lines]


def main():
    verb, results = sys.argv[1], pathlib.Path(sys.argv[2])
    parts = []
    for line in (results / f"{verb}.tsv").read_text(encoding="utf-8").splitlines():
        name, outcome, seconds, summary = line.split("\t")
        part = {"name": name, "outcome": outcome, "seconds": int(seconds), "summary": summary}
        own = results / verb / f"{name}.json"
        if own.is_file():
            part["result"] = json.loads(own.read_text(encoding="utf-8"))
        parts.append(part)
    parts.sort(key=lambda part: part["name"]) if verb == "sanitize" else None

    width = max([len(part["name"]) for part in parts] + [4])
    print(f"{'part':{width}}  {'outcome':12} {'s':>4}  summary")
    for part in parts:
        print(f"{part['name']:{width}}  {part['outcome']:12} {part['seconds']:4}  {part['summary']}")
    count = {"passed": 0, "skipped": 0, "failed": 0}
    for part in parts:
        count[part["outcome"] if part["outcome"] in count else "failed"] += 1
    print(f"{verb}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")

    document = {"verb": verb, "gpus": machine(), **count, "parts": parts}
    (results / f"{verb}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    sys.exit(0 if count["passed"] and not count["failed"] else 1)


if __name__ == "__main__":
    main()
