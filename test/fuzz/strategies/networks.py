# SPDX-License-Identifier: Apache-2.0
"""Random networks as trees of dictionaries, with the shapes that the library must give them.

A part is {"kind": ..., options...}; composites have "parts". By shape_of() a generated network is valid by
construction, and a shrunk one can be asked.
"""
import copy
import itertools

import classifiers
import sequences
from shapes import Rows, names_fit, shape_of

LAYERS = ("conv", "bn", "relu", "maxpool", "avgpool", "gap", "linear", "dropout", "flatten", "subsample", "pad", "upsample",
          "group_norm", "instance_norm", "conv_transpose")
COMPOSITES = ("seq", "concat", "residual", "multiply", "frozen")
NAMES = ("let", "use")


def has_batch_norm_of_one_pixel(part, shape):
    """A microbatch of one sample would have no variance there."""
    if isinstance(shape, Rows):
        return False
    kind = part["kind"]
    if kind == "bn":
        return shape[1] * shape[2] == 1
    if kind in ("seq", "frozen"):
        for child in part["parts"]:
            if has_batch_norm_of_one_pixel(child, shape):
                return True
            shape = shape_of(child, shape)
        return False
    return any(has_batch_norm_of_one_pixel(child, shape) for child in part.get("parts", ()))


def kinds_in(part):
    kinds = {part["kind"]}
    for child in part.get("parts", ()):
        kinds |= kinds_in(child)
    return kinds


def tags_in(part):
    own = {part["tag"]} if part["kind"] == "let" else set()
    return own.union(*(tags_in(child) for child in part.get("parts", ())))


def count_layers(part):
    if part["kind"] in ("input", "let", "use"):
        return 0
    return sum(count_layers(child) for child in part["parts"]) if "parts" in part else 1


def biases_before_norms(parts):
    """How many convolutions with a bias stand right before a batch norm, to which backends may leave it."""
    children = [child for part in parts for child in part.get("parts", ()) if part["kind"] != "seq"]
    chains = [part["parts"] for part in parts if part["kind"] == "seq"]
    pairs = sum(1 for a, b in zip(parts, parts[1:]) if a["kind"] == "conv" and a["bias"] and b["kind"] == "bn")
    return pairs + sum(biases_before_norms(chain) for chain in chains) + sum(
        biases_before_norms([child]) for child in children)


def trained_names(part):
    """What the names of its trained parameters end with, each with its number of axes."""
    kind = part["kind"]
    if kind == "frozen":
        return set()
    found = set().union(*(trained_names(child) for child in part.get("parts", ())))
    if kind in ("conv", "conv_transpose", "linear", "embedding", "positions", "vocabulary"):
        found.add((".weight", 4 if kind in ("conv", "conv_transpose") else 2))
    if kind in ("bn", "layer_norm", "rms_norm") or part.get("affine"):
        found.add((".weight", 1))
    if kind == "bn" or part.get("bias") or part.get("affine"):
        found.add((".bias", 1))
    if kind == "bahdanau":
        found |= {(".weight", 2), (".linear_att", 1)}
    return found


def chains_of(part):
    """Runs of layers of which each reads what the one before it gives, and nobody else does."""
    if part["kind"] not in ("seq", "frozen"):
        return [chain for child in part.get("parts", ()) for chain in chains_of(child)] or [[part]]
    chains, run = [], []
    for child in part["parts"]:
        inner = chains_of(child) if child["kind"] == "seq" else [[child]]
        if child["kind"] == "seq" and len(inner) == 1:
            run += inner[0]
        elif "parts" in child or child["kind"] in ("let", "use", "input"):
            chains, run = chains + [run] + chains_of(child), []
        else:
            run.append(child)
    return [chain for chain in chains + [run] if chain]


def is_product(part):
    return part["kind"] == "linear" or (part["kind"] == "conv" and part["groups"] == 1)


def is_pair_of_channels(layers, slices):
    """Likewise of a convolution, what sees channels alone or groups of them, and another product."""
    vector = False
    for part in layers[1:-1]:
        kind = part["kind"]
        if kind == "conv" and part["groups"] % slices:
            return False
        if kind not in ("conv", "bn", "relu", "dropout", "maxpool", "avgpool", "gap", "flatten") or (
                vector and kind not in ("relu", "dropout")):
            return False
        vector = vector or kind in ("gap", "flatten")
    return layers[0]["out"] % slices == 0 and is_product(layers[-1])


def is_pair(layers, slices):
    """Whether TensorParallel deals out these: a Linear, what needs no whole rows, and a Linear."""
    if len(layers) > 1 and layers[0]["kind"] == "conv" and is_product(layers[0]):
        return is_pair_of_channels(layers, slices)
    alike = ("relu", "dropout", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
    if len(layers) < 2 or layers[0]["kind"] != "linear" or layers[-1]["kind"] != "linear":
        return False
    inside = [part for part in layers[1:-1] if part["kind"] not in alike]
    columns = layers[0]["out"]
    if not inside:
        return columns % slices == 0
    if [part["kind"] for part in inside] == ["swiglu"]:
        return columns // 2 % slices == 0
    heads = [part for part in inside if part["kind"] in ("attention", "rotary")]
    same = len({(part["heads"], part["key_heads"]) for part in heads}) == 1
    return heads == inside and same and all(heads[0][key] % slices == 0 for key in ("heads", "key_heads"))


def pairs_of(body, slices):
    """The layers of each pair that can be dealt out over so many devices."""
    for chain in chains_of(body):
        products = [i for i, part in enumerate(chain) if is_product(part)]
        yield from (chain[a:b + 1] for a, b in zip(products, products[1:]) if is_pair(chain[a:b + 1], slices))


def shares_pairs(body, slices):
    """Whether some layers of a network can be dealt out over so many devices."""
    return any(True for _ in pairs_of(body, slices))


def masks_pairs(body, slices):
    """Whether some of these drop at random."""
    return any(part.get("percent") for pair in pairs_of(body, slices) for part in pair)


def divides_rows(network, slices):
    """Whether so many devices can have equal parts of the rows of its sequences."""
    if not is_of_tokens(network):
        return False
    return all(shape.time % slices == 0 for shape in (network["input"], network.get("second")) if shape)


def keeps_pairs(body):
    """Whether no cut between or within top-level parts can part a pair: each stands in one that is nested."""
    return all(sum(is_product(part) for part in chain) < 2 for chain in chains_of({**body, "parts": [
        part for part in body["parts"] if "parts" not in part or part["kind"] == "seq"]}))


def fits_tiles(part, shape, out, tiles):
    """Whether a convolution or a pool can be computed tile by tile, each with a halo of its neighbours."""
    stride = part["stride"]
    padding = part["padding"]
    if part["kind"] == "avgpool" and part.get("exclude") and padding != (0, 0):
        return False
    for axis in (0, 1):
        whole, made, reach = shape[1 + axis], out[1 + axis], part.get("dilation", (1, 1))[axis] * (part["kernel"][axis] - 1) + 1
        behind = max(0, reach - padding[axis] - stride[axis])
        tile = whole // tiles[axis]
        if whole != made * stride[axis] or whole % tiles[axis] or made % tiles[axis] or max(padding[axis], behind) > tile:
            return False
        if (tile + padding[axis] + behind - reach) // stride[axis] + 1 != made // tiles[axis]:
            return False
    return True


def has_windows(part, shape, tiles):
    """Whether SpatialParallel computes some convolution or pool of a part tile by tile."""
    if isinstance(shape, Rows) or shape is None or len(shape) != 3:
        return False
    if part["kind"] in ("conv", "maxpool", "avgpool"):
        return fits_tiles(part, shape, shape_of(part, shape), tiles)
    if part["kind"] in ("seq", "frozen"):
        for child in part["parts"]:
            if has_windows(child, shape, tiles):
                return True
            shape = shape_of(child, shape)
            if isinstance(shape, Rows) or shape is None or len(shape) != 3:
                return False
        return False
    return any(has_windows(child, shape, tiles) for child in part.get("parts", ()))


def tilings(network):
    """Rows and columns of tiles that a network can be computed in."""
    if is_of_tokens(network):
        return []
    return [tiles for tiles in ((2, 1), (1, 2), (2, 2), (3, 1), (1, 3)) if has_windows(network["body"], network["input"], tiles)]


def trains(part):
    """Whether it has parameters that are not frozen."""
    if part["kind"] == "frozen":
        return False
    with_parameters = ("conv", "conv_transpose", "bn", "linear") + sequences.WITH_PARAMETERS
    return part["kind"] in with_parameters or part.get("affine") or any(trains(child) for child in part.get("parts", ()))


# ---- C++ ------------------------------------------------------------------------------------------------------------


def pair_text(name, pair, default):
    if pair == default:
        return []
    return [f"{name}<{pair[0]}>" if pair[0] == pair[1] else f"{name}<{pair[0]}, {pair[1]}>"]


def window_text(part, stride):
    return (pair_text("Kernel", part["kernel"], (1, 1)) + pair_text("Stride", part["stride"], stride) +
            pair_text("Padding", part["padding"], (0, 0)) +
            pair_text("Dilation", part.get("dilation", (1, 1)), (1, 1)))


def spelled(name, arguments):
    return f"{name}<{', '.join(arguments)}>"


def cpp(part, repeats=False):
    """@param repeats  equal parts that follow one another are a Repeat, which changes paths"""
    kind = part["kind"]
    if sequences.cpp(part) is not None:
        return sequences.cpp(part)
    if kind == "conv":
        options = window_text(part, (1, 1))
        options += [f"Groups<{part['groups']}>"] if part["groups"] > 1 else []
        options += [] if part["bias"] else ["NoBias"]
        return spelled("Conv2d", [str(part["out"])] + options)
    if kind == "conv_transpose":
        options = window_text(part, (1, 1)) + pair_text("OutputPadding", part["output_padding"], (0, 0))
        options += [f"Groups<{part['groups']}>"] if part["groups"] > 1 else []
        return spelled("ConvTranspose2d", [str(part["out"])] + options + ([] if part["bias"] else ["NoBias"]))
    if kind in ("maxpool", "avgpool"):
        options = window_text(part, part["kernel"])
        options += ["ExcludePadding"] if part.get("exclude") else []
        return spelled("MaxPool2d" if kind == "maxpool" else "AvgPool2d", options)
    if kind == "linear":
        return spelled("Linear", [str(part["out"])] + ([] if part["bias"] else ["NoBias"]))
    if kind == "dropout":
        return f"Dropout<Percent<{part['percent']}>>"
    if kind == "subsample":
        return f"Subsample2d<{part['out']}, {part['step']}>"
    if kind == "group_norm":
        return spelled("GroupNorm", [str(part["groups"])] + ([] if part["affine"] else ["NoAffine"]))
    if kind == "instance_norm":
        return spelled("InstanceNorm2d", ["Affine"] if part["affine"] else [])
    if kind == "pad":
        return spelled("Pad2d", pair_text("Padding", part["padding"], None) + [part["mode"]])
    if kind == "upsample":
        return f"Upsample<{part['scale']}, {part['mode']}>"
    if kind in ("let", "use"):
        return f"{kind.capitalize()}<Tag{part['tag']}>"
    if kind == "bn" and part.get("sync"):
        return "SyncBatchNorm2d<>"
    if kind in ("bn", "gap", "flatten"):
        return {"bn": "BatchNorm2d<>", "gap": "GlobalAvgPool", "flatten": "Flatten"}[kind]
    if kind == "bahdanau":
        return spelled("Join", [f"Bahdanau<{part['hidden']}>"] + [cpp(child, repeats) for child in part["parts"]])
    name = {"seq": "Sequential", "concat": "Concat", "residual": "Residual", "multiply": "Multiply",
            "frozen": "Frozen"}[kind]
    parts = [cpp(child, repeats) for child in part["parts"]]
    if kind == "seq" and repeats:
        runs = [(text, len(list(run))) for text, run in itertools.groupby(parts)]
        parts = [text if count == 1 else f"Repeat<{count}, {text}>" for text, count in runs]
    if kind == "residual" and parts[1] == "Sequential<>":
        parts = parts[:1]
    return spelled(name, parts)


def input_cpp(network):
    shape = network["input"]
    if is_of_tokens(network):
        first = f"Tokens<{shape.time}, words>"
        second = network.get("second")
        return f"Inputs<{first}, Tokens<{second.time}, others>>" if second else first
    return spelled("Image" if len(shape) == 3 else "Vector", [str(extent) for extent in shape])


def shape_cpp(shape):
    if isinstance(shape, Rows):
        return f"timed_shape({shape.time}, {shape.channels})"
    return f"image_shape({shape[0]}, {shape[1]}, {shape[2]})" if len(shape) == 3 else f"vector_shape({shape[0]})"


# ---- random ---------------------------------------------------------------------------------------------------------


def seq(parts):
    return {"kind": "seq", "parts": parts}


def random_window(r, kind):
    kernel = (r.choice((1, 1, 2, 3, 3)), r.choice((1, 2, 3, 3))) if r.random() < 0.4 else (r.choice((1, 2, 3, 3)),) * 2
    stride = (r.choice((1, 1, 2)),) * 2 if r.random() < 0.7 else (r.choice((1, 2)), r.choice((1, 2, 3)))
    if kind == "conv":
        padding = tuple(r.choice((0, k // 2, k // 2, k - 1)) for k in kernel)
    else:
        padding = tuple(r.choice((0, k // 2)) for k in kernel)
    return {"kernel": kernel, "stride": stride, "padding": padding}


def random_layer(r, shape):
    """A layer that may stand behind `shape`, or None: the caller tries again."""
    image = len(shape) == 3
    kind = r.choice(("conv", "conv", "conv", "conv", "conv", "bn", "bn", "bn", "relu", "relu", "maxpool", "avgpool", "dropout", "subsample",
                     "gap", "flatten", "pad", "upsample", "group_norm", "instance_norm",
                     "conv_transpose") if image else
                    ("linear", "linear", "linear", "relu", "relu", "dropout", "flatten", "group_norm"))
    part = {"kind": kind}
    if kind == "conv":
        part.update(random_window(r, kind))
        if r.random() < 0.2:
            part["dilation"] = r.choice(((2, 2), (2, 1), (1, 3)))
        groups = r.choice([g for g in (1, 1, 1, 2, 3) if shape[0] % g == 0])
        part.update(out=groups * r.randint(1, 4), groups=groups, bias=r.random() < 0.7)
    elif kind in ("maxpool", "avgpool"):
        part.update(random_window(r, kind))
        if r.random() < 0.4:
            part["stride"] = part["kernel"]
        if kind == "avgpool":
            part["exclude"] = r.random() < 0.3
    elif kind == "linear":
        part.update(out=r.choice((1, 2, 3, 4, 5, 8)), bias=r.random() < 0.7)
    elif kind == "dropout":
        part["percent"] = r.choice((0, 10, 25, 50, 80))
    elif kind == "conv_transpose":
        if shape[1] * shape[2] > 36:
            return None
        part.update(random_window(r, "conv"))
        groups = r.choice([g for g in (1, 1, 2, 3) if shape[0] % g == 0])
        part.update(out=groups * r.randint(1, 4), groups=groups, bias=r.random() < 0.7,
                    output_padding=tuple(r.randint(0, s - 1) for s in part["stride"]))
    elif kind in ("group_norm", "instance_norm"):
        part["affine"] = r.random() < (0.7 if kind == "group_norm" else 0.5)
        if kind == "group_norm":
            part["groups"] = r.choice([g for g in (1, 1, 2, 3, shape[0]) if shape[0] % g == 0])
    elif kind == "pad":
        part.update(padding=(r.choice((0, 1, 1, 2)), r.choice((0, 1, 1, 2))),
                    mode=r.choice(("Zeros", "Reflect", "Replicate", "Circular")))
    elif kind == "upsample" and shape[1] * shape[2] <= 36:
        part.update(scale=r.choice((2, 2, 3)), mode=r.choice(("Nearest", "Bilinear")))
    elif kind == "upsample":
        return None
    elif kind == "subsample":
        part.update(out=shape[0] + r.choice((0, 1, 2)), step=r.choice((1, 2)))
    return part if shape_of(part, shape) is not None else None


def keeping_shape(r, shape):
    """A body whose output has the shape of its input, for a Residual."""
    if len(shape) == 1:
        parts = [{"kind": "linear", "out": shape[0], "bias": r.random() < 0.5}]
    else:
        kernel = (r.choice((1, 3)), r.choice((1, 3)))
        parts = [{"kind": "conv", "out": shape[0], "groups": 1, "bias": r.random() < 0.5, "kernel": kernel,
                  "stride": (1, 1), "padding": (kernel[0] // 2, kernel[1] // 2)}]
        if r.random() < 0.4:
            parts.append({"kind": "bn"})
    if r.random() < 0.3:
        parts.insert(0, {"kind": "relu"})
    if r.random() < 0.3:
        parts.append({"kind": "relu"})
    return parts[0] if len(parts) == 1 and r.random() < 0.5 else seq(parts)


def random_branch(r, shape, rest):
    """A branch of a Concat that keeps height and width."""
    if len(shape) == 1:
        branch = r.choice(({"kind": "linear", "out": r.randint(1, 4), "bias": True}, {"kind": "relu"}, seq([])))
    else:
        k = r.choice((1, 1, 3))
        same = {"kernel": (k, k), "stride": (1, 1), "padding": (k // 2, k // 2)}
        branch = r.choice(({"kind": "conv", "out": r.randint(1, 3), "groups": 1, "bias": r.random() < 0.6, **same},
                           {"kind": "conv", "out": r.randint(1, 3), "groups": 1, "bias": r.random() < 0.6, **same},
                           {"kind": r.choice(("maxpool", "avgpool")), "kernel": (3, 3), "stride": (1, 1),
                            "padding": (1, 1)}, {"kind": "bn"}, seq([])))
    if rest > 0 and r.random() < 0.4:
        between = shape_of(branch, shape)
        behind = r.choice(({"kind": "relu"}, {"kind": "dropout", "percent": 30}, keeping_shape(r, between),
                           {"kind": "bn" if len(shape) == 3 else "relu"}))
        nested = {"kind": "residual", "parts": [keeping_shape(r, between), seq([])]}
        return seq([branch, nested if r.random() < 0.4 else behind])
    return branch


def random_block(r, shape, depth):
    """A composite on `shape`; None where it came out wrong."""
    kind = r.choice(("concat", "residual", "residual", "multiply", "frozen", "seq"))
    if kind == "residual":
        body = keeping_shape(r, shape)
        if depth > 0 and r.random() < 0.3:
            body = seq([body, {"kind": "residual", "parts": [keeping_shape(r, shape), seq([])]}])
        shortcut = seq([])
        if r.random() < 0.3:
            out = {"kind": "linear", "out": r.randint(1, 4), "bias": False} if len(shape) == 1 else {
                "kind": "conv", "out": r.randint(1, 4), "groups": 1, "bias": False, "kernel": (1, 1),
                "stride": (1, 1), "padding": (0, 0)}
            body = seq([body, copy.deepcopy(out)])
            shortcut = out
        return {"kind": "residual", "parts": [body, shortcut]}
    if kind == "multiply":
        branches = [keeping_shape(r, shape) for _ in range(r.choice((1, 2, 2)))]
        return {"kind": "multiply", "parts": branches + [seq([])] * (2 if len(branches) == 1 and r.random() < 0.3
                                                                     else len(branches) == 1)}
    if kind == "concat":
        return {"kind": "concat", "parts": [random_branch(r, shape, depth) for _ in range(r.choice((2, 2, 3)))]}
    if kind == "frozen":
        inner = random_layer(r, shape) if r.random() < 0.6 else random_block(r, shape, 0)
        return inner and {"kind": "frozen", "parts": [inner]}
    parts = []
    for _ in range(r.choice((2, 3))):
        part = random_layer(r, shape) or {"kind": "relu"}
        parts.append(part)
        shape = shape_of(part, shape)
    return seq(parts)


def with_names(r, body, shape):
    """The same with values that are named, and read by top-level parts that come later: up to three each."""
    parts, shapes = list(body["parts"]), [shape]
    for part in parts:
        shapes.append(shape_of(part, shapes[-1]))
    for tag in range(r.choice((1, 1, 2))):
        at = r.randrange(len(parts) - 1)
        named = shapes[at + 1]
        places = [i for i in range(at + 1, len(parts) - 1)
                  if shapes[i + 1][1:] == named[1:] and len(shapes[i + 1]) == len(named) and shapes[i + 1][0] < 30]
        if not places:
            continue
        parts[at] = seq([parts[at], {"kind": "let", "tag": tag}])
        for i in sorted(r.sample(places, min(len(places), r.randint(1, 3)))):
            use = {"kind": "use", "tag": tag, "shape": named}
            kind = r.choice(("concat", "multiply", "residual")) if shapes[i + 1] == named else "concat"
            own = [seq([]), use] if kind != "residual" else [use, seq([])]
            kept = shape_of({"kind": kind, "parts": own}, shapes[i + 1]) == shapes[i + 1]
            join = {"kind": kind, "parts": own}
            if not kept:  # what follows wants the channels that it had
                narrow = {"kind": "linear", "out": shapes[i + 1][0], "bias": True} if len(named) == 1 else {
                    "kind": "conv", "out": shapes[i + 1][0], "groups": 1, "bias": True, "kernel": (1, 1),
                    "stride": (1, 1), "padding": (0, 0)}
                join = seq([join, narrow])
            parts[i] = seq([parts[i], join])
    return seq(parts)


def random_network(r, largest=20):
    """{"input": shape, "body": a seq, "classes": n}: 6 to 20 layers that end in a vector of 2 to 5."""
    while True:
        shape = (r.choice((1, 2, 3, 4)), r.randint(1, 9), r.randint(1, 9)) if r.random() < 0.8 else (r.randint(1, 9),)
        network = {"input": shape}
        wanted = r.randint(6, largest) - 2
        parts = []
        tries = 0
        while sum(count_layers(part) for part in parts) < wanted and tries < 200:
            tries += 1
            blocks = sum(1 for part in parts if "parts" in part)
            part = random_block(r, shape, 2) if r.random() < 0.22 and blocks < 4 else random_layer(r, shape)
            out = part and shape_of(part, shape)
            leaves_image = out and len(shape) == 3 and len(out) == 1
            if not out or (leaves_image and len(parts) < wanted // 2):
                continue
            if out[0] > 24 or (len(out) == 1 and out[0] > 300):
                continue
            parts.append(part)
            shape = out
            if part["kind"] == "conv" and r.random() < 0.3:  # a cut may come between
                parts.append({"kind": "bn"})
        if len(shape) == 3:
            parts.append({"kind": r.choice(("gap", "flatten"))})
        classes = r.randint(2, 5)
        parts.append({"kind": "linear", "out": classes, "bias": True})
        network.update(body=seq(parts), classes=classes)
        if r.random() < 0.3:
            network["body"] = with_names(r, network["body"], network["input"])
        layers = count_layers(network["body"])
        fits = shape_of(network["body"], network["input"]) == (classes,) and names_fit(network["body"], network["input"])
        if 6 <= layers <= largest and fits:
            return network


# ---- smaller ones ---------------------------------------------------------------------------------------------------


def smaller_parts(part):
    """Parts that say less, the smallest first."""
    kind = part["kind"]
    children = part.get("parts", [])
    if kind != "seq":
        yield from children
    for i, child in enumerate(children):
        if kind == "seq" or (kind == "concat" and len(children) > 2):
            yield {**part, "parts": children[:i] + children[i + 1:]}
        for less in smaller_parts(child):
            yield {**part, "parts": children[:i] + [less] + children[i + 1:]}
    if kind == "conv":
        for change in ({"groups": 1}, {"stride": (1, 1)}, {"dilation": (1, 1)},
                       {"kernel": (1, 1), "padding": (0, 0)}, {"out": 1}, {"out": 2},
                       {"out": 3}, {"bias": False}):
            if any(part.get(key, value) != value for key, value in change.items()):
                yield {**part, **change}
    if kind in ("maxpool", "avgpool") and part["padding"] != (0, 0):
        yield {**part, "padding": (0, 0)}
    if kind == "linear" and part["out"] > 2:
        yield {**part, "out": 2}


def is_of_tokens(network):
    return isinstance(network["input"], Rows)


def has_rows(network):
    """Whether each row of a sequence has a target; else each sample has a label."""
    return is_of_tokens(network) and not classifiers.is_one(network)


def result_of(network):
    """The shape that a network's last part must give."""
    return Rows(network["input"].time, 3) if has_rows(network) else (network["classes"],)


def smaller_networks(network):
    """Valid networks that say less, with the place of the top-level part that went, or None."""
    if is_of_tokens(network):
        yield from (classifiers if classifiers.is_one(network) else sequences).smaller_networks(network)
        return
    parts = network["body"]["parts"]
    candidates = [(i, parts[:i] + parts[i + 1:]) for i in range(len(parts) - 1)]
    for i, part in enumerate(parts):
        candidates += [(None, parts[:i] + [less] + parts[i + 1:]) for less in smaller_parts(part)]
    inputs = [network["input"]]
    for axis, extent in enumerate(network["input"]):
        for less in (1, 2, 4):
            if less < extent:
                inputs.append(tuple(less if a == axis else e for a, e in enumerate(network["input"])))
    for shape in inputs[1:]:
        candidates.append((None, parts))
        out = shape_of(seq(parts), shape)
        if out and names_fit(seq(parts), shape) and len(out) == 1 and out[0] >= 2:
            yield None, {"input": shape, "body": seq(parts), "classes": out[0]}
    for gone, fewer in candidates:
        out = fewer and shape_of(seq(fewer), network["input"])
        if out and names_fit(seq(fewer), network["input"]) and len(out) == 1 and out[0] >= 2:
            yield gone, {"input": network["input"], "body": seq(fewer), "classes": out[0]}
