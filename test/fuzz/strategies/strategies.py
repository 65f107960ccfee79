# SPDX-License-Identifier: Apache-2.0
"""Random strategies that are valid for a network, what each is compared with, and tables for it.

A strategy is a dictionary: "form" (data, tensor, model, placed, pipeline, cross, late), "slices" (devices that share each part), "in_rows" (each
has its rows of what they do not share), "pieces" (L of Slices<L>), "replicas"
(a list: DataParallels around it, outermost first), "weights", "microbatches" (of a replica), "leaves" (None: not reproducible; 0: one a
microbatch), "cut" ("split" and counts, or "auto" and parts), "schedule", "checkpoint", "buckets", "rule", "sharded"
(whether replicas have parts of the optimizer's states), "sharded_gradients", "sharded_parameters" (and of these), "chunks" (of time), "by_world" (it is the program that says how many replicas there
are, and not the type).
"""
import math

import networks

TURNING = ("ZeroBubbleV", "VHalf", "VMin", "DualPipeV")  # the second half of the stages goes back to the first device
CHUNKS = {"Interleaved": 2} | dict.fromkeys(TURNING, 2)
SPLITTING = ("ZeroBubbleH1", "ZeroBubbleH2", *TURNING, "DualPipe")  # I and W in place of B
SYNCHRONOUS = ("GPipe", "OneFOneB", "Interleaved", *SPLITTING, "Chimera")
TWO_COPIES = ("Chimera", "DualPipe")
LATE = {"PipeDream": "PipeDreamEquation", "DelayedGradient": "PipeDreamEquation",
        "PipeDreamVerticalSync": "VerticalSyncEquation", "PipeDream2BW": "DoubleBufferedEquation",
        "WeightPrediction": "PredictionEquation", "FeaturesReplay": "ReplayEquation",
        "PipelinedModel": "PipelinedModelEquation"}


def power_of_two(n):
    return n > 0 and n & (n - 1) == 0


def parts_of(strategy):
    cut = strategy.get("cut")
    return 1 if cut is None else cut[1] if cut[0] == "auto" else len(cut[1])


def replicas_of(strategy):
    return math.prod(strategy["replicas"])


def devices_of(strategy):
    if strategy["form"] == "placed":
        return max(device for _, device in strategy["places"]) + 1
    return parts_of(strategy) // CHUNKS.get(strategy.get("schedule"), 1)


def ranks_of(strategy):
    return replicas_of(strategy) * devices_of(strategy) * (strategy.get("slices") or 1)


def copies_of(strategy):
    return 2 if strategy["form"] == "cross" or strategy.get("schedule") in TWO_COPIES else 1


def takes_pieces(strategy, pieces):
    """Whether its devices may have as many slices of each layer."""
    devices = strategy.get("slices") or 1
    if strategy.get("tiles"):
        return False
    return pieces % devices == 0 and (devices == 1 or power_of_two(pieces // devices))


def keeps_pairs(strategy, body):
    """Whether it surely deals out what one device does, as the same bits ask: its cut parts no pair."""
    return strategy["form"] in ("data", "tensor") or (strategy["form"] != "placed" and networks.keeps_pairs(body))


def leaves_in(strategy, microbatches):
    """Of the whole batch, where a replica has so many microbatches; as batching_with() says."""
    if strategy["leaves"] is None:
        return None
    replicas = replicas_of(strategy)
    if strategy.get("by_world") and strategy["leaves"]:
        return strategy["leaves"]
    own = strategy["leaves"] // replicas if strategy["leaves"] else strategy["microbatches"]
    return replicas * (microbatches if own == strategy["microbatches"] else own)


def is_valid(strategy, tops, microbatches=None):
    """Whether the library takes it for a network of `tops` top-level parts, with so many microbatches a replica, and
    its numbers may be compared with those of one device."""
    m = microbatches or strategy["microbatches"]
    parts, schedule = parts_of(strategy), strategy.get("schedule")
    cut = strategy.get("cut")
    if strategy["form"] not in ("data", "placed", "tensor"):
        if (cut[0] == "split" and (sum(cut[1]) != tops or min(cut[1]) < 1)) or parts > tops:
            return False
        if parts % CHUNKS.get(schedule, 1):
            return False
    if strategy.get("by_world") and (
            len(strategy["replicas"]) != 1 or strategy.get("weights") or strategy.get("sharded")):
        return False
    devices, copies = devices_of(strategy), copies_of(strategy)
    if schedule == "Interleaved" and m % devices and (m > 2 * devices or (m > devices and strategy.get("chunks"))):
        return False  # rounds of more microbatches than devices, which wait for more messages than are in flight
    if schedule in ("DualPipe", "DualPipeV") and m < 2 * devices and not microbatches:
        return False
    if copies == 2 and (m % 2 or devices < 2 or (schedule in TWO_COPIES and devices % 2)):
        return False
    if strategy["form"] == "pipeline" and devices == 1 and microbatches:
        return False
    if strategy["leaves"] is not None:
        total = leaves_in(strategy, m)
        own = total // replicas_of(strategy)
        if not power_of_two(total) or not power_of_two(own) or m % own or own % copies:
            return False
        if strategy["leaves"] % replicas_of(strategy):
            return False
    return True


# ---- C++ ------------------------------------------------------------------------------------------------------------


def options_text(strategy, outside):
    """Of the model, or of the DataParallel around it: `outside` ones stand with the outermost replicas."""
    words = []
    if strategy["leaves"] is not None and strategy.get("leaves_outside", False) == outside:
        words.append(f"Reproducible<{strategy['leaves'] or ''}>")
    if strategy.get("buckets") and not outside:
        words.append("BucketBytes<{}, {}>".format(*strategy["buckets"]))
    if strategy.get("checkpoint") and not outside:
        rule = strategy["checkpoint"]
        words.append(f"Checkpoint<{rule if rule == 'Boundaries' else f'Every<{rule}>'}>")
    if strategy.get("weights") and outside:
        words.append(f"Weighted<{', '.join(map(str, strategy['weights']))}>")
    if strategy.get("sharded") and outside:
        words.append("ShardedParameters" if strategy.get("sharded_parameters") else
                     "ShardedGradients" if strategy.get("sharded_gradients") else "ShardedState")
    shared = strategy.get("slices") and strategy["form"] != "tensor"  # the TensorParallel of a Hybrid says it
    if strategy.get("pieces") and not outside and not shared:
        words.append(f"Slices<{strategy['pieces']}>")
    return words


def replica_words(strategy, n):
    return ["by_world" if strategy.get("by_world") else str(n)]


def named(strategy):
    """The same, its type saying how many replicas there are."""
    return {**strategy, "by_world": False}


def tensor_words(strategy):
    pieces = [f"Slices<{strategy['pieces']}>"] if strategy.get("pieces") and strategy["form"] != "tensor" else []
    rows = ["SequenceRows"] if strategy.get("in_rows") else []
    return [str(strategy["slices"])] + pieces + rows + strategy.get("wishes", [])


def shared(strategy, words):
    """How devices share a part: slices of its layers, or tiles of its images."""
    if strategy.get("tiles"):
        return networks.spelled("SpatialParallel", [str(n) for n in strategy["tiles"]] + words)
    return networks.spelled("TensorParallel", tensor_words(strategy) + words)


def random_sharing(r, network, choices):
    """{"slices"} and perhaps {"tiles"}; None where a network has nothing to be shared."""
    pairs = [n for n in choices if networks.shares_pairs(network["body"], n)]
    tilings = networks.tilings(network)
    if tilings and (not pairs or r.random() < 0.4):
        tiles = r.choice(tilings)
        return {"slices": tiles[0] * tiles[1], "tiles": tiles}
    return {"slices": r.choice(pairs)} if pairs else None


def cpp(strategy, table="table"):
    form, replicas = strategy["form"], strategy["replicas"]
    cut = strategy.get("cut")
    how = [] if cut is None else [f"Auto<{cut[1]}>"] if cut[0] == "auto" else [f"Split<{n}>" for n in cut[1]]
    m = strategy["microbatches"]
    if form == "data":
        words = replica_words(strategy, replicas[0]) + options_text(strategy, True) + options_text(strategy, False)
        return networks.spelled("DataParallel", words + ([f"Microbatches<{m}>"] if m > 1 else []))
    inside = options_text(strategy, False)
    if form == "placed":
        how = [f"Placed<{table}>"]
    if form == "tensor":
        model = shared(strategy, ([f"Microbatches<{m}>"] if m > 1 else []) + inside)
    elif form in ("model", "placed"):
        model = networks.spelled("ModelParallel", how + ([f"Microbatches<{m}>"] if m > 1 else []) + inside)
    elif form == "cross":
        name = ["CrossModelParallel"] if m == 2 and not strategy.get("long") else ["CrossPipeline", str(m)]
        model = networks.spelled(name[0], name[1:] + [strategy["rule"]] + how + inside)
    else:
        schedule = strategy["schedule"]
        schedule += f"<{CHUNKS[schedule]}>" if schedule == "Interleaved" else ""
        schedule = f"PostValidated<{schedule}>" if strategy.get("ahead") else schedule
        chunks = [f"Chunks<{strategy['chunks']}>"] if strategy.get("chunks") else []
        model = networks.spelled("Pipeline", [schedule, str(m)] + chunks + how + inside)
    outer = [networks.spelled("DataParallel", replica_words(strategy, n) + (options_text(strategy, True) if i == 0 else []))
             for i, n in enumerate(replicas)]
    inner = [model] + ([shared(strategy, [])] if strategy.get("slices") and form != "tensor" else [])
    return networks.spelled("Hybrid", outer + inner) if len(outer + inner) > 1 else model


def reference_cpp(strategy, microbatches):
    """The strategy on one device with the same microbatches, whatever their number, and leaves."""
    leaves = leaves_in(strategy, microbatches)
    words = []
    if strategy.get("weights"):
        words += [f"Microbatches<{len(strategy['weights'])}>", f"Weighted<{', '.join(map(str, strategy['weights']))}>"]
    if leaves is not None and leaves == replicas_of(strategy) * microbatches:
        words.append("Reproducible<>")
    elif leaves is not None:
        words = [word for word in words if not word.startswith("Microbatches")]
        words += [f"Microbatches<{2 * leaves}>", f"Reproducible<{leaves}>"]
    pieces = strategy.get("pieces") or strategy.get("slices")
    if leaves is not None and pieces:  # else one device computes whole layers, and rounds otherwise
        words.append(f"Slices<{pieces}>")
    return networks.spelled("SingleDevice", words)


# ---- random ---------------------------------------------------------------------------------------------------------


def random_cut(r, tops, parts):
    if r.random() < 0.25:
        return ("auto", parts)
    borders = sorted(r.sample(range(1, tops), parts - 1))
    return ("split", [b - a for a, b in zip([0] + borders, borders + [tops])])


def paths_of(part, path=""):
    """Paths with a node of their own below them."""
    found = []
    children = part.get("parts", [])
    for i, child in enumerate(children):
        if networks.count_layers(child) == 0:
            continue
        step = {"residual": ("body", "shortcut")}.get(part["kind"], range(len(children)))[i]
        below = path if part["kind"] == "frozen" else f"{path}.{step}" if path else str(step)
        if below != path:
            found.append(below)
        found += paths_of(child, below)
    return found


def random_places(r, body, devices):
    tops = [str(i) for i, part in enumerate(body["parts"]) if networks.count_layers(part) > 0]
    inner = [path for path in paths_of(body) if "." in path]
    places = [(path, min(i * devices // len(tops), devices - 1)) for i, path in enumerate(tops)]
    for path in r.sample(inner, min(len(inner), r.randint(1, 4))) if inner else []:
        places.append((path, r.randrange(devices)))
    for path in r.sample(tops[1:-1], min(len(tops) - 2, r.randint(0, 2))):
        places.append((path, r.randrange(devices)))
    return [(path, device) for path, device in places if device or "." in path or path in tops]


def uses_all_devices(places, body, devices):
    plain = {str(i) for i, part in enumerate(body["parts"]) if "parts" not in part}
    last = {path: device for path, device in places if path in plain}
    return set(last.values()) == set(range(devices))


def random_strategy(r, network, form):
    """A valid one of the form; None where the network has too few parts for it."""
    tops = len(network["body"]["parts"])
    one_pixel = networks.has_batch_norm_of_one_pixel(network["body"], network["input"])
    for _ in range(50):
        s = {"form": form, "replicas": [], "weights": None, "microbatches": r.choice((1, 2, 2, 3, 4, 4, 6)),
             "leaves": None, "checkpoint": None, "buckets": None}
        if r.random() < 0.5:
            s["leaves"] = 0 if r.random() < 0.7 else r.choice((1, 2, 4, 8))
        if r.random() < 0.3:
            s["buckets"] = (r.choice((1, 8, 64)), r.choice((1, 32, 200)))
        parts = r.choice((2, 2, 3, 3, 4))
        if form == "data":
            s["replicas"] = [r.choice((2, 2, 3, 4))]
            s["microbatches"] = r.choice((1, 1, 2, 3, 4))
        elif form == "tensor":
            sharing = random_sharing(r, network, (2, 2, 3, 4))
            if not sharing:
                return None
            s.update(sharing, buckets=None)
            if s.get("tiles"):
                s["leaves"] = None
            if r.random() < 0.4:
                s["checkpoint"] = r.choice(("Boundaries", 1, 2))
        elif form == "placed":
            devices = r.choice((2, 2, 3))
            if tops < devices + 2:
                return None
            s["places"] = random_places(r, network["body"], devices)
            s["leaves"] = 0 if s["leaves"] is not None else None
            if not uses_all_devices(s["places"], network["body"], devices):
                continue
        else:
            if form == "pipeline":
                s["schedule"] = r.choice(SYNCHRONOUS)
                parts *= CHUNKS.get(s["schedule"], 1)
            elif form == "cross":
                s["rule"] = "AverageGradients" if r.random() < 0.8 else "AverageWeights<1>"
                if s["rule"] != "AverageGradients":
                    s["leaves"] = None
                s["long"] = r.random() < 0.3
            elif form == "late":
                s["schedule"] = r.choice(sorted(LATE))
                s["leaves"] = None
                s["microbatches"] = r.randint(parts, parts + 2) if s["schedule"] == "PipeDream2BW" else 1
            if parts > tops:
                continue
            s["cut"] = random_cut(r, tops, parts)
            if form != "late" and s.get("schedule") not in SPLITTING and r.random() < 0.45:
                s["checkpoint"] = r.choice(("Boundaries", 1, 1, 2, 3))
        replicates = form in ("tensor", "model", "placed", "pipeline", "cross") and s.get("rule") != "AverageWeights<1>"
        if replicates and r.random() < 0.3:
            s["replicas"] = r.choice(([2], [2], [3], [2, 2]))
            s["leaves_outside"] = False
        if s["replicas"] and r.random() < 0.35 and not one_pixel and s["leaves"] in (None, 0):
            weights = [r.choice((0, 1, 1, 2, 3, 4)) for _ in range(replicas_of(s))]
            # Hybrid asks as many weights as there are replicas in all, of its outermost DataParallel.
            if sum(weights) and len(s["replicas"]) < 2:
                s["weights"] = weights
        if len(s["replicas"]) == 1 and not s["weights"] and r.random() < 0.3:
            s["by_world"] = True
        if is_valid(s, tops):
            return s
    return None


def random_rows(r, strategy, microbatches, splits):
    """A legal order of the passes of a chain, or of two: random but for what must come first, and for one message in
    flight on a link. Stage k of copy c is c * parts + k. With `splits`, some backward passes are cut into I and W."""
    devices, copies, parts = devices_of(strategy), copies_of(strategy), parts_of(strategy)
    share = microbatches // copies
    turns = strategy.get("schedule") in TURNING
    device_of = [devices - 1 - k % devices if c > 0 or (turns and k >= devices) else k % devices
                 for c in range(copies) for k in range(parts)]
    stages = len(device_of)
    forward, backward, weight = [0] * stages, [0] * stages, [0] * stages
    apart = {(s, m): splits and r.random() < 0.6 for s in range(stages) for m in range(share)}
    rows = [[] for _ in range(devices)]
    eager = r.choice((0.2, 1.0, 5.0))
    bias = [r.choice((0.3, 1.0, 3.0)) for _ in range(stages)]
    while True:
        ready = []
        for s in range(stages):
            k, first = s % parts, (s // parts) * share
            taken = k == parts - 1 or forward[s + 1] == forward[s]
            if forward[s] < share and (k == 0 or forward[s - 1] > forward[s]) and taken:
                ready.append((eager * bias[s], s, "F", first + forward[s]))
            taken = k == 0 or backward[s - 1] == backward[s]
            if backward[s] < forward[s] and (k == parts - 1 or backward[s + 1] > backward[s]) and taken:
                ready.append((1.0, s, "I" if apart[s, backward[s]] else "B", first + backward[s]))
            if weight[s] < backward[s]:
                ready.append((0.7, s, "W", first + weight[s]))
        if not ready:
            break
        _, s, kind, m = r.choices(ready, [one[0] for one in ready])[0]
        count = m - (s // parts) * share
        if kind == "F":
            forward[s] += 1
        elif kind == "W":
            weight[s] += 1
        else:
            backward[s] += 1
            if kind == "B":
                if weight[s] != count:  # weight gradients stand in ascending order: the earlier ones first
                    for late in range(weight[s], count):
                        rows[device_of[s]].append(f"{s}W{(s // parts) * share + late}")
                weight[s] = count + 1
        rows[device_of[s]].append(f"{s}{kind}{m}")
    return "".join(",".join(row) + "\\n" for row in rows)


def sequential_row(microbatches):
    return ",".join(f"0F{m},0B{m}" for m in range(microbatches)) + "\\n"


def takes_rows(strategy):
    return strategy["form"] in ("data", "model", "pipeline", "cross") and not strategy.get("chunks") and (
        devices_of(strategy) > 1 or strategy["form"] == "data")


# ---- smaller ones ---------------------------------------------------------------------------------------------------


def smaller_strategies(strategy):
    """Strategies that say less; some are not valid."""
    for key in ("buckets", "checkpoint", "weights", "leaves", "sharded_parameters", "sharded_gradients", "sharded", "chunks", "in_rows", "ahead"):
        if strategy.get(key) is not None:
            yield {**strategy, key: None}
    if strategy.get("by_world"):
        yield named(strategy)
    if strategy["leaves"]:
        yield {**strategy, "leaves": 0}
    if strategy["replicas"] and strategy["form"] != "data":
        yield {**strategy, "replicas": strategy["replicas"][1:], "weights": None}
    for i, n in enumerate(strategy["replicas"]):
        if n > 2:
            fewer = strategy["replicas"][:i] + [2] + strategy["replicas"][i + 1:]
            yield {**strategy, "weights": None, "replicas": fewer}
    if strategy["form"] == "pipeline":
        for schedule in ("model", "GPipe", "OneFOneB"):
            if schedule != strategy["schedule"]:
                yield {**strategy, "form": "model", "schedule": None, "chunks": None,
                       "ahead": None} if schedule == "model" else {**strategy, "schedule": schedule}
    if strategy.get("slices") and strategy["form"] != "tensor":
        yield {**strategy, "slices": None, "in_rows": None, "tiles": None}
    if strategy.get("wishes"):
        yield {**strategy, "wishes": strategy["wishes"][1:]}
    if strategy.get("pieces"):
        yield {**strategy, "pieces": None}
    if (strategy.get("slices") or 2) > 2:
        yield {**strategy, "slices": 2, "pieces": None, "tiles": strategy.get("tiles") and (2, 1)}
    for m in range(1, strategy["microbatches"]):
        yield {**strategy, "microbatches": m}
    if strategy.get("cut", ("",))[0] == "split":
        counts = strategy["cut"][1]
        for i in range(len(counts) - 1):
            yield {**strategy, "cut": ("split", counts[:i] + [counts[i] + counts[i + 1]] + counts[i + 2:])}
    if strategy.get("cut", ("",))[0] == "auto" and strategy["cut"][1] > 2:
        yield {**strategy, "cut": ("auto", strategy["cut"][1] - 1)}
    if strategy["form"] == "placed":
        for i in range(len(strategy["places"])):
            yield {**strategy, "places": strategy["places"][:i] + strategy["places"][i + 1:]}


def without_top(strategy, top):
    """The strategy for a network that has lost this top-level part."""
    cut = strategy.get("cut")
    if cut is not None and cut[0] == "split":
        counts, at = list(cut[1]), top
        for i, count in enumerate(counts):
            if at < count:
                counts[i] -= 1
                break
            at -= count
        return {**strategy, "cut": ("split", [count for count in counts if count])}
    if strategy["form"] == "placed":
        places = []
        for path, device in strategy["places"]:
            head, _, rest = path.partition(".")
            if int(head) != top:
                head = str(int(head) - (int(head) > top))
                places.append((head + ("." + rest if rest else ""), device))
        return {**strategy, "places": places}
    return strategy
