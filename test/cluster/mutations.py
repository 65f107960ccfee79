#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks a copy of what processes do when one fails, in one place at a time, and sees that a test finds it.

  mutations.py [NAME ...]      with mpicxx, mpirun and clang++ or g++ on the PATH
  mutations.py --stale         only whether the text of each still stands in the library, once

A mutation is one edit of one header, and the test that must fail: a file of test/unit, "rig" with what rig.py gets, or "mpi"
with the program of test/mpi and what run.py is told. A broken test hangs rather than fails, so each has a limit.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
LIFELINE_TEST, INQUIRY_TEST = "comm/lifeline_test", "comm/lifeline_inquiry_test"
LIMIT = {"rig": 300, "mpi": 120}  # in seconds

# name: (header, what stands there, what is to stand there, what must fail)
MUTATIONS = {
    "verdict_stays_here": (  # process 0 does not tell the others
        "comm/lifeline/judge.hpp", "  peers_.tell_children(frame_of(FrameKind::verdict, verdict));\n", "",
        (LIFELINE_TEST,)),
    "last_verdict_counts": (
        "comm/lifeline/judge.hpp", "  if (is_decided_) {\n    return;\n  }\n", "", (LIFELINE_TEST,)),
    "end_not_noticed": (  # of a connection
        "comm/lifeline/judge.hpp", "  if (counts) {\n", "  if (false && counts) {\n", (LIFELINE_TEST,)),
    "silence_not_noticed": (
        "comm/lifeline/lifeline.hpp", "now - peer.heard > options_.silence && !peer.is_done", "false && !peer.is_done",
        (LIFELINE_TEST,)),
    "goodbye_not_heard": (  # who has done all is missed
        "comm/lifeline/lifeline.hpp", "peer.is_done = true;\n  }\n}", "peer.is_done = false;\n  }\n}", (LIFELINE_TEST,)),
    "who_left_is_not_missed": (  # by those who go on
        "comm/lifeline/lifeline.hpp", "if (left.works < works) {", "if (false) {", (LIFELINE_TEST,)),
    "options_may_differ": (
        "train/agreement.hpp", "  if (options.world.processes > 1) {\n", "  if (false) {\n", ("rig", "--only", "option")),
    "calls_may_differ": (
        "train/agreement.hpp", "  if (world.processes > 1) {\n", "  if (false) {\n", ("rig", "--only", "call")),
    "exit_is_not_told": (
        "comm/mpi/session.hpp", "        if (!one.call(one.context)) {", "        if (false) {", ("rig", "--only", "quit")),
    "answers_stay_between": (  # in a tree
        "comm/lifeline/judge.hpp", "    append(parent->out, frame);\n", "", (LIFELINE_TEST,)),
    "silent_process_waits": (  # a stream of its rank may wait for another
        "comm/lifeline/inquiry.hpp", "if (!answers(further.to_blame())) {", "if (false) {", (INQUIRY_TEST,)),
    "first_report_counts": (  # nobody asks who waits for whom
        "comm/lifeline/inquiry.hpp", "  if (begin == nullptr) {", "  if (begin != nullptr || waits_.empty()) {",
        (INQUIRY_TEST,)),
    "who_has_come_is_missed": (  # as if nobody had come as far
        "comm/lifeline/inquiry.hpp", "found->second.call >= own.call", "found->second.call > own.call", (INQUIRY_TEST,)),
    "ranks_may_stay": (  # where they do not return
        "comm/lifeline/guard.hpp", "    detail::report_stall(hook_,", "    if (false) detail::report_stall(hook_,",
        (LIFELINE_TEST,)),
    "everyone_says": (
        "comm/lifeline/first_to_say.hpp", "  return !taken;", "  return true;", ("mpi", "elastic", "elastic")),
    "process_0_says": (  # though it may be the dead one
        "train/elastic/run.hpp", "options.world.processes == 1 || detail::is_first_to_say(text)",
        "code == ExitCode::error || options.world.process == 0", ("mpi", "elastic", "elastic")),
    "error_of_another_is_own": (  # by the exit code
        "train/elastic/run.hpp", "    return is_of_another(cause);", "    return false;", ("rig", "--only", "kill")),
    "signal_ends_in_error": (
        "train/elastic/run.hpp", "static_cast<ExitCode>(stopped->exit_status())", "ExitCode::error",
        ("rig", "--only", "term")),
    "start_has_no_limit": (
        "comm/mpi/session.hpp", "if (options.start_timeout.count() > 0) {", "if (false) {",
        ("rig", "--only", "stop", "--cases", "12")),
    "start_is_to_be_repeated": (  # by the exit code, though another process has not come
        "comm/mpi/session.hpp", ",\n                   ExitCode::peer_failed);", ");",
        ("rig", "--only", "stop", "--cases", "12")),
    "time_out_kept_here": (  # nobody asks the others
        "comm/mpi/wire.hpp", "        lifeline_->report_time_out(rank, text);\n", "", ("rig", "--only", "net-both")),
}


def stale():
    """Mutations whose text the library no longer has once."""
    return [name for name, (header, old, *_) in MUTATIONS.items()
            if (INCLUDE / "tandem" / header).read_text().count(old) != 1]


def mutated_include(name, scratch):
    header, old, new, _ = MUTATIONS[name]
    include = scratch / "include"
    shutil.copytree(INCLUDE, include)
    path = include / "tandem" / header
    path.write_text(path.read_text().replace(old, new))
    return include


def compile_unit(include, name, binary):
    compiler = shutil.which("clang++") or shutil.which("g++")
    test = ROOT / "test"
    return [compiler, "-std=c++20", "-O0", f"-I{include}", f"-I{test}", f"-I{test}/support", test / "unit" / f"{name}.cpp",
            test / "support" / "doctest_main.cpp", "-o", binary, "-pthread"]


def compile_mpi(include, source, binary):
    return ["mpicxx", "-DOMPI_SKIP_MPICXX", "-std=c++20", "-O0", f"-I{include}", f"-I{ROOT}/test/support", source, "-o", binary]


def commands(name, include, binary):
    """(what compiles, what must fail)."""
    kind, *words = MUTATIONS[name][3]
    if kind == "rig":
        cases = [] if "--cases" in words else ["--cases", "6"]
        return (compile_mpi(include, ROOT / "test/cluster/program.cpp", binary),
                [sys.executable, ROOT / "test/cluster/rig.py", "mpirun", binary, "--jobs", "3", *cases, *words])
    if kind == "mpi":
        program, what = words
        return (compile_mpi(include, ROOT / f"test/mpi/{program}.cpp", binary),
                [sys.executable, ROOT / "test/mpi/run.py", what, "mpirun", binary])
    return compile_unit(include, kind, binary), [binary]


def fails(command, limit):
    """Whether it does, and what it says of it."""
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                           start_new_session=True)
    try:
        out = run.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, 9)
        return True, "hangs"
    lines = [line for line in out.splitlines() if "ERROR" in line or "seed" in line or "run.py" in line] or out.splitlines()
    return run.returncode != 0, lines[0] if lines else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--stale", action="store_true")
    options = parser.parse_args()
    if stale():
        sys.exit(f"write these mutations anew, their places have changed: {', '.join(stale())}")
    if options.stale:
        return
    missed = []
    print("| mutation | seconds | found as |\n| --- | --- | --- |", flush=True)
    for name in options.names or MUTATIONS:
        with tempfile.TemporaryDirectory(prefix=f"tandem-{name}-") as folder:
            scratch = pathlib.Path(folder)
            compiles, test = commands(name, mutated_include(name, scratch), scratch / "test")
            begin = time.monotonic()
            subprocess.run(compiles, check=True)
            found, why = fails(test, LIMIT.get(MUTATIONS[name][3][0], 60))
        missed += [] if found else [name]
        print(f"| `{name}` | {time.monotonic() - begin:.0f} | {why[:100] if found else 'missed'} |", flush=True)
    if missed:
        sys.exit(f"not found: {', '.join(missed)}")


if __name__ == "__main__":
    main()
