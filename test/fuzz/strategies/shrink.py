# SPDX-License-Identifier: Apache-2.0
"""Makes a program that fails as small as it can be while it still fails."""
import concurrent.futures
import time

import networks
import program as programs
import sequences
import strategies


def only_pair(program, number):
    """The program of one pair."""
    pair = {**program["pairs"][number], "strategy": 0}
    return {**program, "strategies": [program["strategies"][program["pairs"][number]["strategy"]]], "pairs": [pair]}


def is_sound(program):
    s, pair = program["strategies"][0], program["pairs"][0]
    body = program["network"]["body"]
    tops = len(body["parts"])
    total = pair["microbatches"] * strategies.replicas_of(s)
    settings = pair["settings"]
    if not set(settings["groups"]) <= set(programs.fitting_groups(body)):
        return False
    least = total * (2 if networks.has_batch_norm_of_one_pixel(body, program["network"]["input"]) else 1)
    if min(pair["settings"]["sizes"]) < least or not networks.trains(body):
        return False
    if pair["rows"]:  # a table is of so many devices and stages
        stages = {int(text.lstrip("\\n").partition(kind)[0]) for text in pair["rows"].replace("\\n", ",").split(",")
                  if text for kind in "FBIW" if kind in text}
        own = strategies.copies_of(s) * strategies.parts_of(s)
        fits = stages == set(range(own)) and pair["rows"].count("\\n") == strategies.devices_of(s)
        if not fits or ("W" in pair["rows"] and s.get("schedule") not in strategies.SPLITTING):
            return False
    if s.get("tiles") and not networks.has_windows(body, program["network"]["input"], s["tiles"]):
        return False
    for key in ("slices", "pieces"):
        if s.get(key) and not s.get("tiles") and not networks.shares_pairs(body, s[key]):
            return False
    if s.get("pieces") and not strategies.takes_pieces(s, s["pieces"]):
        return False
    if not s.get("tiles") and (s.get("slices") or s.get("pieces")) and s["leaves"] is not None and not strategies.keeps_pairs(s, body):
        return False
    if s.get("chunks") and (program["network"]["input"].time % s["chunks"] or
                            not sequences.takes_chunks(program["network"])):
        return False
    if s.get("in_rows") and not networks.divides_rows(program["network"], s["slices"]):
        return False
    if s["form"] == "placed":
        paths = {str(i) for i in range(tops)} | set(strategies.paths_of(body))
        if not all(path in paths for path, _ in s["places"]):
            return False
        return strategies.devices_of(s) == 1 or strategies.uses_all_devices(s["places"], body, strategies.devices_of(s))
    return strategies.is_valid(s, tops)


def smaller(program):
    """Programs of one pair that say less, the boldest first."""
    s, pair, settings = program["strategies"][0], program["pairs"][0], program["pairs"][0]["settings"]

    def with_pair(**changes):
        return {**program, "pairs": [{**pair, **changes}]}

    def with_settings(**changes):
        return with_pair(settings={**settings, **changes})

    if program.get("values"):
        yield {**program, "values": False}
    for gone, network in networks.smaller_networks(program["network"]):
        own = strategies.without_top(s, gone) if gone is not None else s
        times = [min(time, network["input"][0]) for time in settings["times"]]
        yield {**with_settings(times=times), "network": network, "strategies": [own]}
    if program.get("loss"):
        yield {**program, "loss": ""}
    if program["repeats"]:
        yield {**program, "repeats": False}
    if pair["rows"]:
        yield with_pair(rows="", microbatches=s["microbatches"])
    for own in strategies.smaller_strategies(s):
        follows = not pair["rows"]
        yield {**program, "strategies": [own], "pairs": [
            {**pair, "microbatches": own["microbatches"] if follows else pair["microbatches"],
             "bits": own["leaves"] is not None or own["form"] == "late"}]}
    for change in ({"saved": 0}, {"tardy": 0}):
        if any(pair[key] != value for key, value in change.items()):
            yield with_pair(**change)
    plain = {"clip": 0.0, "clip_value": 0.0, "groups": [], "average": None, "threads": 1,
             "optimizer": "Sgd{.learning_rate = 0.05F}",
             "evaluated": 1}
    for key, value in plain.items():
        if settings[key] != value:
            yield with_settings(**{key: value})
    for group in settings["groups"]:
        yield with_settings(groups=[group])
    sizes = settings["sizes"]
    if len(sizes) > 1:
        yield with_settings(sizes=sizes[:1])
        yield with_settings(sizes=sizes[:-1])
    least = min(sizes)
    if any(size > least for size in sizes):
        yield with_settings(sizes=[least] * len(sizes))
    total = pair["microbatches"] * strategies.replicas_of(s)
    for size in (total, 2 * total, least - 1):
        if size < least:
            yield with_settings(sizes=[size] * len(sizes))


def kind_of(why):
    """A smaller program must fail as the first did: by other numbers, an exception or a crash."""
    return next((kind for kind in ("threw", "ended with", "does not compile") if why.startswith(kind)), "differs")


def shrink(program, number, why_first, attempt, seconds, jobs=2):
    """The smallest program found in the time, and why it fails; None where the pair alone does not fail.

    @param attempt  attempt(program, name) gives a Result
    """
    ends = time.monotonic() + seconds

    def why_of(candidate, name, times=1):
        for _ in range(times):
            failures = attempt(candidate, name).failures
            if failures and kind_of(failures[0][1]) == kind:
                return failures[0][1]
        return None

    kind = kind_of(why_first)
    best = only_pair(program, number)
    why = why_of(best, "shrink-0", 4)
    if why is None:
        return None, "the pair alone did not fail again"
    shrinks = True
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while shrinks and time.monotonic() < ends:
            shrinks = False
            candidates = [candidate for candidate in smaller(best) if is_sound(candidate)]
            for first in range(0, len(candidates), jobs):
                if time.monotonic() > ends:
                    break
                some = candidates[first:first + jobs]
                found = list(pool.map(why_of, some, [f"shrink-{i}" for i in range(len(some))]))
                hits = [(candidate, text) for candidate, text in zip(some, found) if text is not None]
                if hits:
                    best, why = hits[0]
                    shrinks = True
                    break
    return best, why
