# SPDX-License-Identifier: Apache-2.0
"""Checks of the generator that need no compiler; that shapes are the library's, each program asserts itself."""
import json
import pathlib
import random
import subprocess
import tempfile

import build
import mutations
import networks
import program as programs
import sequences
import shrink
import strategies


def check(condition, what):
    if not condition:
        raise SystemExit(f"self-test of the generator: {what}")


def legal_rows(s, microbatches, rows):
    """Executes the rows with one message in flight a link: whether all passes are reached."""
    devices, copies, parts = strategies.devices_of(s), strategies.copies_of(s), strategies.parts_of(s)
    row = [line.split(",") for line in rows.split("\\n") if line]
    done, at, moved = set(), [0] * devices, True
    while moved:
        moved = False
        for d in range(devices):
            while at[d] < len(row[d]):
                text = row[d][at[d]]
                kind = text.lstrip("0123456789")[0]
                stage, m = (int(n) for n in text.split(kind))
                k = stage % parts
                if kind == "F":
                    ready = k == 0 or (stage - 1, "F", m) in done
                elif kind == "W":
                    ready = (stage, "I", m) in done
                else:
                    ready = (stage, "F", m) in done and (k == parts - 1 or (stage + 1, "B", m) in done or
                                                         (stage + 1, "I", m) in done)
                if not ready or (stage, kind, m) in done:
                    break
                done.add((stage, kind, m))
                at[d] += 1
                moved = True
    share = microbatches // copies
    forward = {(stage, "F", m) for stage in range(parts * copies)
               for m in range(stage // parts * share, (stage // parts + 1) * share)}
    back = {(stage, m) for stage, kind, m in done if kind in "BW"}
    return forward <= done and back == {(stage, m) for stage, _, m in forward}


class Scripted:
    """Stands for a process that writes so many bytes in each short wait, and ends behind the last."""

    def __init__(self, output, writes):
        self.output, self.writes = output, list(writes)

    def wait(self, seconds):
        if not self.writes:
            return 0
        self.output.write_bytes(self.output.read_bytes() + b"." * self.writes.pop(0))
        raise subprocess.TimeoutExpired("scripted", seconds)


def check_hangs():
    """A program that speaks is waited for however long it takes; one that does not hangs."""
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(scratch) / "output"

        def status_of(writes):
            output.write_bytes(b"")
            return build.wait_while_it_speaks(Scripted(output, writes), output, 90)
        check(status_of(([0] * 99 + [1]) * 20) == 0, "what is slow hangs")
        check(status_of([1] + [0] * 150) is None, "what hangs is not found")
    result = build.Result(-1, "pair 0: quick\npair 1: hangs\n\nhangs\nstacks")
    check(result.agreed == 1 and result.failures[0][0] == 1, "the pair that hangs is not named")
    check("stacks" in result.failures[0][1], f"what hangs is not said to: {result.failures}")


OPTIONS = {"weights", "checkpoint", "buckets", "sharded", "sharded_gradients", "sharded_parameters", "by_world", "chunks",
           "ahead"}


def run(programs_checked=160):
    check_hangs()
    check(not mutations.stale(), f"write these mutations anew, their places have changed: {mutations.stale()}")
    kinds, forms, schedules, options, groups = set(), set(), set(), set(), set()
    losses = set()
    biased = of_images = two_inputs = averaged = 0
    for number in range(programs_checked):
        backend = ("double", "float", "onednn", "bf16")[number % 4]
        values = number % 3 == 0
        program = programs.random_program(f"self-test-{number}", backend, values=values)
        network = program["network"]
        again = programs.random_program(f"self-test-{number}", backend, values=values)
        check(json.dumps(program, sort_keys=True) == json.dumps(again, sort_keys=True), "a seed gives two programs")
        check(networks.shape_of(network["body"], network["input"]) == networks.result_of(network), "a shape is wrong")
        most = 30 if networks.is_of_tokens(network) else 20
        check(6 <= networks.count_layers(network["body"]) <= most, "a network has too few or too many layers")
        check(program["pairs"], "a program has no pairs")
        kinds |= networks.kinds_in(network["body"])
        of_images += not networks.is_of_tokens(network)
        two_inputs += network.get("second") is not None
        biased += networks.biases_before_norms([network["body"]]) > 0
        losses.add(program["loss"])
        for s in program["strategies"]:
            check(s["form"] == "placed" or strategies.is_valid(s, len(network["body"]["parts"])), f"not valid: {s}")
            forms.add(s["form"])
            schedules.add(s.get("schedule"))
            options |= {key for key in OPTIONS if s.get(key)}
            options |= {"leaves"} if s["leaves"] is not None else set()
        for pair in program["pairs"]:
            s = program["strategies"][pair["strategy"]]
            groups |= set(pair["settings"]["groups"])
            averaged += pair["settings"]["average"] is not None
            check(not (s.get("sharded") and "Lamb" in pair["settings"]["optimizer"]), "Lamb's norms are of whole parameters")
            fits = programs.fitting_groups(network["body"])
            check(set(pair["settings"]["groups"]) <= set(fits), "a group matches no parameter")
            if pair["rows"] and s["form"] != "data":
                check(legal_rows(s, pair["microbatches"], pair["rows"]), f"rows that cannot run: {pair['rows']}")
        text = programs.to_cpp(program)
        check(text.count("entry<Net") >= len(program["strategies"]), "a strategy is missing in the program")
        check(not values or " entry<Net" not in text, "a strategy is a type in a program of values")
        check(values or any(pair.get("twin") for pair in program["pairs"]), "no type is compared with its value")
        if number < 16:
            one = shrink.only_pair(program, random.Random(number).randrange(len(program["pairs"])))
            check(shrink.is_sound(one), f"a pair is not sound by itself: {one['strategies']} {one['pairs']}")
            for less in shrink.smaller(one):
                body = less["network"]["body"]
                out = networks.shape_of(body, less["network"]["input"])
                check(out == networks.result_of(less["network"]), "a smaller network has another shape")
                if shrink.is_sound(less):
                    programs.to_cpp(less)
    check(kinds == set(networks.LAYERS + sequences.LAYERS + networks.COMPOSITES + networks.NAMES), f"layers: only {sorted(kinds)}")
    check(3 * biased >= of_images, f"only {biased} networks have a bias in front of a batch norm")
    check(forms == set(programs.FORMS), f"strategies: only {sorted(forms)}")
    check(schedules >= set(strategies.SYNCHRONOUS) | set(strategies.LATE), f"schedules: only {schedules}")
    check(len(groups) == len(programs.GROUPS), f"groups: only {sorted(groups)}")
    check(losses == {"", "ignored", "weighted", "all", "soft", "soft_weighted"}, f"losses: only {sorted(losses)}")
    check(two_inputs > 2 and averaged > 0, f"{two_inputs} networks with two inputs, {averaged} pairs with averages")
    check(options == OPTIONS | {"leaves"}, f"options: only {sorted(options)}")
    print(f"{programs_checked} programs: every kind of layer, strategy, schedule and option; rows can run")
    return 0
