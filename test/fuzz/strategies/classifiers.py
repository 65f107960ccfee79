# SPDX-License-Identifier: Apache-2.0
"""Random networks that read tokens and give each sample a label, of one input or of two.

As in sequences.py, with "head": "label"; what is pooled is a vector. Where there are two inputs, "second" is the shape
of the other and "others" its vocabulary; {"kind": "input", "index", "time"} stands where one of them is read, its
embedding is "of" it.
"""
import sequences
from shapes import Rows, names_fit, shape_of
from sequences import linear, norm, parts_in, plain, random_activation, random_block, random_look, seq


def is_one(network):
    return network.get("head") == "label"


def begins_with_input(part):
    """Whether it reads nothing of what stands before it."""
    children = part.get("parts", [])
    if part["kind"] in ("concat", "residual"):
        return all(begins_with_input(child) for child in children)
    return part["kind"] == "input" or (bool(children) and begins_with_input(children[0]))


def ends_with_name(part):
    """Whether what it gives has a name, by which it is read further on."""
    children = part.get("parts", [])
    return part["kind"] == "let" or (part["kind"] == "seq" and bool(children) and ends_with_name(children[-1]))


def drops_values(part):
    """Whether some part behind another does not read it."""
    children = part.get("parts", [])
    drops = part["kind"] == "seq" and any(begins_with_input(child) and not ends_with_name(before)
                                          for before, child in zip(children, children[1:]))
    return drops or any(drops_values(child) for child in children)


def is_sound(network):
    """Whether the library takes it: shapes fit, and each input is read."""
    body = network["body"]
    if shape_of(body, network["input"]) != (network["classes"],) or drops_values(body):
        return False
    tags = {kind: {part["tag"] for part in parts_in(body) if part["kind"] == kind} for kind in ("let", "use")}
    if tags["let"] != tags["use"] or not names_fit(body, network["input"]):
        return False
    read = sorted(part["of"] for part in sequences.embeddings_in(body))
    indices = {part["index"] for part in parts_in(body) if part["kind"] == "input"}
    if network.get("second") is None and 1 in indices:
        return False
    return read == ([0] if network.get("second") is None else [0, 1])


# ---- random ---------------------------------------------------------------------------------------------------------


def pool(r):
    last, mean = plain("last_row"), plain("mean_over_time")
    return r.choice((last, last, mean, mean, {"kind": "concat", "parts": [last, mean]}))


def tower(r, of, blocks):
    """From the tokens of an input to a vector."""
    channels = r.choice((1, 2, 3, 4, 4, 6, 8))
    parts = [{"kind": "embedding", "out": channels, "of": of}]
    if r.random() < 0.6:
        parts.append(plain("positions"))
    causal = r.random() < 0.4
    parts += [random_block(r, channels, causal) for _ in range(blocks)]
    return parts + ([norm(r)] if r.random() < 0.4 else []) + [pool(r)]


def random_head(r, classes):
    """Layers of a vector, and the numbers of the classes."""
    parts = []
    for _ in range(r.randint(1, 4)):
        kind = r.choice(("linear", "linear", "activation", "activation", "norm", "dropout", "residual"))
        if kind == "linear" or not parts:
            width = r.choice((2, 3, 4, 6))
            parts.append(linear(r, width))
        elif kind == "activation":
            parts.append(random_activation(r))
        elif kind == "norm":
            parts.append(norm(r))
        elif kind == "dropout":
            parts.append({"kind": "dropout", "percent": r.choice((0, 10, 50))})
        else:
            body = seq([random_activation(r), linear(r, width)])
            parts.append({"kind": "residual", "parts": [body, seq([])]})
    return parts + [{"kind": "linear", "out": classes, "bias": True}]


def input_part(index, shapes):
    return {"kind": "input", "index": index, "time": shapes[index].time}


def two_towers(r, shapes):
    """Both inputs, wherever they are read, and where they meet."""
    first, second = tower(r, 0, r.choice((0, 1))), tower(r, 1, r.choice((0, 1)))
    style = r.choice(("beside", "beside", "later", "first", "added", "translated", "translated"))
    if style == "translated":  # the rows of the second look at those of the first, as a decoder's
        memory = {"kind": "let", "tag": 0}
        named = {"kind": "use", "tag": 0, "shape": shape_of(seq(first[:-1]), shapes[0])}
        said = seq([input_part(1, shapes), second[0]])
        look = random_look(r, named)
        behind = [seq([look, linear(r, r.choice((2, 4)))])] if r.random() < 0.5 else [look]
        return first[:-2] + [seq([first[-2], memory]), said] + second[1:-1] + behind + [second[-1]]
    if style == "beside":
        return [{"kind": "concat", "parts": [seq([input_part(0, shapes)] + first),
                                             seq([input_part(1, shapes)] + second)]}]
    if style == "first":  # the second begins
        return [input_part(1, shapes)] + second + [
            {"kind": "concat", "parts": [seq([]), seq([input_part(0, shapes)] + first)]}]
    if style == "later":
        return first + [{"kind": "concat", "parts": [seq([input_part(1, shapes)] + second), seq([])]}]
    width = shape_of(seq(first), shapes[0])
    return first + [{"kind": "residual", "parts": [
        seq([input_part(1, shapes)] + second + [linear(r, width[0])]), seq([])]}]


def random_network(r, largest, two):
    """@param two  it has two inputs"""
    while True:
        shapes = (Rows(r.randint(1, 9), 0), Rows(r.randint(1, 7), 0, 1))
        classes = r.randint(2, 5)
        parts = two_towers(r, shapes) if two else tower(r, 0, r.choice((0, 1, 2, 3)))
        network = {"input": shapes[0], "vocabulary": r.randint(2, 12), "tied": False, "head": "label",
                   "body": seq(parts + random_head(r, classes)), "classes": classes}
        if two:
            network.update(second=shapes[1], others=r.randint(2, 9))
        layers = sum("parts" not in part and part["kind"] not in ("input", "let", "use") for part in parts_in(network["body"]))
        if 6 <= layers <= largest + 10 and is_sound(network):
            return network


# ---- smaller ones ---------------------------------------------------------------------------------------------------


def with_times(part, times):
    """The part as it is where the inputs have these times."""
    if part["kind"] == "input":
        return {**part, "time": times[part["index"]]}
    if part["kind"] == "use":
        return {**part, "shape": part["shape"]._replace(time=times[part["shape"].clock])}
    return {**part, "parts": [with_times(child, times) for child in part["parts"]]} if "parts" in part else part


def smaller_networks(network):
    """Valid networks that say less, with the place of the top-level part that went, or None."""
    parts, second = network["body"]["parts"], network.get("second")
    candidates = [(i, parts[:i] + parts[i + 1:]) for i in range(len(parts) - 1)]
    for i, part in enumerate(parts):
        candidates += [(None, parts[:i] + [less] + parts[i + 1:]) for less in sequences.smaller_parts(part)]
    for gone, fewer in candidates:
        less = {**network, "body": seq(fewer)}
        if second and not any(part["of"] for part in sequences.embeddings_in(less["body"])):
            less = {key: value for key, value in less.items() if key not in ("second", "others")}
        if fewer and is_sound(less):
            yield gone, less
    changes = [{"vocabulary": 2}] if network["vocabulary"] > 2 else []
    changes += [{"others": 2}] if second and network["others"] > 2 else []
    for time in (1, 2, 4):
        if time < network["input"].time:
            changes.append({"input": network["input"]._replace(time=time)})
        if second and time < second.time:
            changes.append({"second": second._replace(time=time)})
    for change in changes:
        less = {**network, **change}
        times = [less["input"].time, less["second"].time if second else 0]
        yield None, {**less, "body": with_times(less["body"], times)}
