# SPDX-License-Identifier: Apache-2.0
"""Random networks of tokens: parts on rows of a sequence, as networks.py has them on images and vectors.

A network has "vocabulary" and "tied", and ends with a Vocabulary, whose output has 3 channels; classifiers.py has those
that end with a label. An embedding is "of" input 0.
"""
import copy

from shapes import Rows, names_fit, shape_of

LAYERS = ("embedding", "positions", "rotary", "layer_norm", "rms_norm", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh",
          "softmax", "swiglu", "attention", "recurrent", "bahdanau", "vocabulary", "last_row", "mean_over_time", "input")
PLAIN = {"gelu": "Gelu", "gelu_tanh": "GeluTanh", "silu": "SiLU", "sigmoid": "Sigmoid", "tanh": "Tanh",
         "softmax": "Softmax", "swiglu": "SwiGlu", "relu": "ReLU", "last_row": "LastRow",
         "mean_over_time": "MeanOverTime"}
WITH_PARAMETERS = ("embedding", "positions", "layer_norm", "rms_norm", "recurrent", "bahdanau", "vocabulary")


def parts_in(part):
    yield part
    for child in part.get("parts", ()):
        yield from parts_in(child)


def embeddings_in(body):
    return [part for part in parts_in(body) if part["kind"] == "embedding"]


def generates(network):
    """Whether each row says what comes next, and looks at no later one."""
    writes = network["body"]["parts"][-1]["kind"] == "vocabulary"
    return writes and all(part.get("causal", True) and not part.get("both") for part in parts_in(network["body"]))


def is_stateful(network):
    """Whether steps hand states on, so that they have samples alike, and none is late."""
    return any(part.get("lives_on") for part in parts_in(network["body"]))


def is_of_host(network):
    """Whether a layer has no kernels for Cuda."""
    return any(part.get("sampled", 0) for part in parts_in(network["body"]))


IN_CHUNKS = ("embedding", "positions", "rotary", "attention", "layer_norm", "rms_norm", "gelu", "gelu_tanh", "silu", "swiglu",
             "sigmoid", "tanh", "relu", "dropout", "linear", "recurrent", "vocabulary", "let", "use")


def takes_chunks(network):
    """Whether its rows may come in chunks of time: each layer makes a row of that row and of earlier ones."""
    parts = list(parts_in(network["body"]))
    return not network.get("second") and network["body"]["parts"][-1]["kind"] == "vocabulary" and all(
        part["kind"] in IN_CHUNKS + ("seq", "residual", "concat") and not part.get("both") and part.get("causal", True)
        for part in parts)


def is_by_sample(network):
    return network["body"]["parts"][-1].get("divisor", "PerSample") == "PerSample"


def is_sound(network):
    """Whether the library takes it: shapes fit, the criterion is the last part, what is shared has one shape."""
    parts = network["body"]["parts"]
    last = parts[-1]
    if last["kind"] != "vocabulary" or shape_of(network["body"], network["input"]) is None:
        return False
    if not names_fit(network["body"], network["input"]):
        return False
    if sum(part["kind"] == "vocabulary" for part in parts_in(network["body"])) != 1:
        return False
    if last.get("sampled", 0) > network["vocabulary"] or (last.get("sampled", 0) and last["smoothing"]):
        return False
    embeddings = embeddings_in(network["body"])
    if len(embeddings) != 1 or embeddings[0] is not parts[0]:
        return False
    before = shape_of({"kind": "seq", "parts": parts[:-1]}, network["input"])
    return not network["tied"] or before.channels == embeddings[0]["out"]


# ---- C++ ------------------------------------------------------------------------------------------------------------


def spelled(name, arguments):
    return f"{name}<{', '.join(arguments)}>"


def cpp(part):
    """Of a layer that only rows have; None of others."""
    kind = part["kind"]
    if kind in PLAIN:
        return PLAIN[kind]
    if kind == "embedding":
        return ("Words", "Others")[part["of"]]
    if kind == "input":
        return f"Input<{part['index']}>"
    if kind == "positions":
        return "Positions<>"
    if kind == "layer_norm":
        return spelled("LayerNorm", [] if part["bias"] else ["NoBias"])
    if kind == "rms_norm":
        return "RmsNorm<>"
    if kind in ("rotary", "attention"):
        options = [str(part["heads"])]
        options += [f"KeyHeads<{part['key_heads']}>"] if part["key_heads"] != part["heads"] else []
        if kind == "rotary":
            return spelled("RotaryPositions", options)
        options += ["Causal"] if part["causal"] else []
        return spelled("Attention", options + ([f"Percent<{part['percent']}>"] if part["percent"] else []))
    if kind == "recurrent":
        options = [str(part["hidden"])] + [["NoBias"], ["OneBias"], []][part["biases"]]
        options += [f"Projection<{part['projection']}>"] if part["projection"] else []
        options += ["ForgetBias<1>"] if part["forgets_less"] else []
        options += ["Bidirectional"] if part["both"] else []
        return spelled("Gru" if part["gru"] else "Lstm", options + (["Stateful"] if part.get("lives_on") else []))
    if kind == "vocabulary":
        options = ["words"] + (["Shares<Words>"] if part["shares"] else [])
        options += [] if part["bias"] else ["NoBias"]
        options += [f"Smoothing<Percent<{part['smoothing']}>>"] if part["smoothing"] else []
        options += [f"Chunked<{part['chunk']}>"] if part["chunk"] else []
        if part.get("sampled", 0):
            options += [f"Sampled<{part['sampled']}>"] + (["RowGradient"] if part.get("rows") else [])
        return spelled("Vocabulary", options + ([part["divisor"]] if part["divisor"] else []))
    return None


def definitions(network):
    """What stands before the network's type."""
    lines = []
    for part in sorted(embeddings_in(network["body"]), key=lambda part: part["of"]):
        number, name = ("words", "Words") if part["of"] == 0 else ("others", "Others")
        size = network["vocabulary"] if part["of"] == 0 else network["others"]
        lines += [f"inline constexpr int {number} = {size};",
                  f"struct {name} : Embedding<{number}, {part['out']}{', RowGradient' if part.get('rows') else ''}> {{}};"]
    return lines


# ---- random ---------------------------------------------------------------------------------------------------------


def seq(parts):
    return {"kind": "seq", "parts": parts}


def plain(kind):
    return {"kind": kind}


def linear(r, out):
    return {"kind": "linear", "out": out, "bias": r.random() < 0.7}


def norm(r):
    return plain("rms_norm") if r.random() < 0.4 else {"kind": "layer_norm", "bias": r.random() < 0.7}


def random_heads(r):
    heads = r.choice((1, 2, 2, 3, 4))
    return heads, r.choice([k for k in (1, 2, heads, heads) if heads % k == 0])


def random_attention(r, out, causal):
    """Rows of queries, keys and values, who look at one another, and `out` channels of what they saw."""
    heads, key_heads = random_heads(r)
    width = r.choice((1, 2, 2, 3, 4, 5))
    rotates = r.random() < 0.35
    width += width % 2 if rotates else 0
    look = {"kind": "attention", "heads": heads, "key_heads": key_heads, "causal": causal,
            "percent": r.choice((0, 0, 10, 40))}
    parts = [norm(r)] if r.random() < 0.6 else []
    parts.append(linear(r, (heads + 2 * key_heads) * width))
    if rotates:
        parts.append({"kind": "rotary", "heads": heads, "key_heads": key_heads})
    parts += [look, linear(r, out)]
    return seq(parts)


def random_activation(r):
    return plain(r.choice(("gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "relu", "softmax")))


def random_thought(r, out):
    parts = [norm(r)] if r.random() < 0.6 else []
    hidden = r.choice((2, 4, 5, 6, 8))
    if r.random() < 0.3:
        parts += [linear(r, 2 * hidden), plain("swiglu")]
    else:
        parts += [linear(r, hidden), random_activation(r)]
    parts.append(linear(r, out))
    if r.random() < 0.4:
        parts.append({"kind": "dropout", "percent": r.choice((0, 10, 50))})
    return seq(parts)


def random_memory(r, out, causal):
    """A state that each row leaves to the next, `out` numbers of it in one direction or in both."""
    both = not causal and out % 2 == 0 and r.random() < 0.6
    each = out // 2 if both else out
    gru, projects = r.random() < 0.4, r.random() < 0.4
    part = {"kind": "recurrent", "gru": gru, "hidden": each, "projection": 0, "biases": r.choice((0, 1, 2, 2)),
            "both": both, "forgets_less": not gru and r.random() < 0.3, "lives_on": not both and r.random() < 0.35}
    if projects and not gru:
        part.update({"hidden": r.choice((1, 3, 5, 8, 17)), "projection": each})
    return seq(([norm(r)] if r.random() < 0.4 else []) + [part])


def random_body(r, channels, causal):
    if r.random() < 0.2:
        return random_memory(r, channels, causal)
    return random_attention(r, channels, causal) if r.random() < 0.55 else random_thought(r, channels)


def random_block(r, channels, causal, depth=1):
    """A part that keeps the channels."""
    kind = r.choice(("residual", "residual", "residual", "residual", "residual", "seq", "frozen", "concat", "plain"))
    if kind == "residual":
        body = random_body(r, channels, causal)
        if depth and r.random() < 0.2:
            body = seq([body, {"kind": "residual", "parts": [random_body(r, channels, causal), seq([])]}])
        shortcut = seq([])
        if r.random() < 0.1:
            shortcut = linear(r, channels)
        return {"kind": "residual", "parts": [body, shortcut]}
    if kind == "seq":
        return seq([{"kind": "residual", "parts": [random_attention(r, channels, causal), seq([])]},
                    {"kind": "residual", "parts": [random_thought(r, channels), seq([])]}])
    if kind == "frozen" and depth:
        return {"kind": "frozen", "parts": [random_block(r, channels, causal, 0)]}
    if kind == "concat" and channels > 1:
        first = r.randint(1, channels - 1)
        return {"kind": "concat", "parts": [random_body(r, first, causal), linear(r, channels - first)]}
    return r.choice((random_activation(r), norm(r), linear(r, channels), {"kind": "dropout", "percent": 25},
                     {"kind": "rotary", "heads": 1, "key_heads": 1} if channels % 6 == 0 else plain("positions")))


def random_look(r, named):
    """Of each row, at all rows that a name stands for."""
    return {"kind": "bahdanau", "hidden": r.choice((1, 2, 3, 5, 8)), "causal": False, "parts": [seq([]), named]}


def random_reading(r, named, out, causal):
    """A part that keeps `out` channels and reads `named`, {"kind": "use", ...}."""
    alike = named["shape"].channels == out
    kind = r.choice(("concat", "look", "look") + (("residual", "multiply") if alike else ()))
    if kind == "look" and not causal:
        look = random_look(r, named)
        look = look if alike else seq([look, linear(r, out)])
        return {"kind": "residual", "parts": [look, seq([])]} if r.random() < 0.5 else look
    if kind in ("residual", "multiply"):
        return {"kind": kind, "parts": [named, seq([])]}
    return seq([{"kind": "concat", "parts": [seq([]), named]}, linear(r, out)])


def with_names(r, parts, shape, causal):
    """Top-level parts with values that are named, and read further on up to three times each; neither the first nor the
    last is another."""
    parts, shapes = list(parts), [shape]
    for part in parts:
        shapes.append(shape_of(part, shapes[-1]))
    for tag in range(r.choice((1, 1, 2))):
        at = r.randrange(1, len(parts) - 2)
        parts[at] = seq([parts[at], {"kind": "let", "tag": tag}])
        places = range(at + 1, len(parts) - 1)
        named = {"kind": "use", "tag": tag, "shape": shapes[at + 1]}
        reading = random_reading(r, named, shapes[at + 2].channels, causal)  # equal ones are copies, as in a Repeat
        for i in sorted(r.sample(places, min(len(places), r.randint(1, 3)))):
            if shapes[i + 1].channels == shapes[at + 2].channels:
                parts[i] = seq([parts[i], copy.deepcopy(reading)])
    return parts


def random_network(r, largest=20):
    """{"input": Rows, "vocabulary", "tied", "body", "classes"}."""
    while True:
        time, channels = r.randint(1, 9), r.choice((1, 2, 3, 4, 4, 6, 6, 8))
        causal = r.random() < 0.75
        tied = r.random() < 0.6
        parts = [{"kind": "embedding", "out": channels, "of": 0}]
        if r.random() < 0.7:
            parts.append(plain("positions"))
        blocks = r.randint(2, 6)
        while len(parts) < blocks:
            block = random_block(r, channels, causal)
            parts += [copy.deepcopy(block) for _ in range(r.choice((1, 1, 1, 2, 3)))]
        if r.random() < 0.6:
            parts.append(norm(r))
        if not tied and r.random() < 0.4:
            channels = r.choice((2, 3, 5))
            parts.append(linear(r, channels))
        bias, smoothing = r.random() < 0.5, r.choice((0, 0, "of a sample", 10, 30))
        last = {"kind": "vocabulary", "shares": tied, "bias": bias, "chunk": r.choice((0, 0, 0, 1, 3, 7, 50)),
                "divisor": r.choice(("", "", "PerToken", "PerSample"))}
        vocabulary = r.randint(2, 12)
        if smoothing == "of a sample":
            last.update({"smoothing": 0, "sampled": 1 + time * channels % vocabulary})
        else:
            last.update({"smoothing": smoothing, "sampled": 0})
        parts.append(last)
        if len(parts) > 3 and r.random() < 0.4:
            parts = with_names(r, parts, Rows(time, 0), causal)
        network = {"input": Rows(time, 0), "vocabulary": vocabulary, "tied": tied, "body": seq(parts),
                   "classes": vocabulary}
        layers = sum("parts" not in part and part["kind"] not in ("let", "use") for part in parts_in(network["body"]))
        if 6 <= layers <= largest + 10 and is_sound(network):
            return network


def random_network_in_chunks(r, largest=20):
    """One that takes_chunks(), of two rows or more."""
    while True:
        network = random_network(r, largest)
        if takes_chunks(network) and network["input"].time > 1:
            return network


# ---- smaller ones ---------------------------------------------------------------------------------------------------


def smaller_layers(part):
    """The layer with fewer options."""
    kind = part["kind"]
    changes = {"attention": ({"percent": 0}, {"causal": True}),
               "recurrent": ({"biases": 0}, {"forgets_less": False}, {"lives_on": False}), "layer_norm": ({"bias": False},),
               "linear": ({"bias": False},),
               "vocabulary": ({"bias": False}, {"smoothing": 0}, {"chunk": 0}, {"sampled": 0},
                              {"divisor": ""})}.get(kind, ())
    for change in changes:
        if any(part.get(key, value) != value for key, value in change.items()):
            yield {**part, **change}


def smaller_parts(part):
    children = part.get("parts", [])
    if part["kind"] != "seq":
        yield from children
    for i, child in enumerate(children):
        if part["kind"] == "seq" and len(children) > 1:
            yield {**part, "parts": children[:i] + children[i + 1:]}
        for less in smaller_parts(child):
            yield {**part, "parts": children[:i] + [less] + children[i + 1:]}
    yield from smaller_layers(part)


def smaller_networks(network):
    """Valid networks that say less, with the place of the top-level part that went, or None."""
    parts = network["body"]["parts"]
    candidates = [(i, parts[:i] + parts[i + 1:]) for i in range(1, len(parts) - 1)]
    for i, part in enumerate(parts):
        candidates += [(None, parts[:i] + [less] + parts[i + 1:]) for less in smaller_parts(part)]
    less_of = [{"input": Rows(time, 0)} for time in (1, 2, 4) if time < network["input"].time]
    less_of += [{"vocabulary": 2, "classes": 2}] if network["vocabulary"] > 2 else []
    if network["tied"]:
        less_of.append({"tied": False, "body": seq(parts[:-1] + [{**parts[-1], "shares": False}])})
    for gone, fewer in candidates:
        if fewer and is_sound({**network, "body": seq(fewer)}):
            yield gone, {**network, "body": seq(fewer)}
    for less in less_of:
        if is_sound({**network, **less}):
            yield None, {**network, **less}
