# SPDX-License-Identifier: Apache-2.0
"""Shapes of random networks: the library's inference written again.

An image is (C, H, W), a vector (N,), a sequence Rows(time, channels, clock), of indices where there are 0 channels; the
clock is the number of the input whose time it is.
"""
import collections

Rows = collections.namedtuple("Rows", "time channels clock", defaults=(0,))

OF_EACH = ("relu", "dropout", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softmax", "layer_norm", "rms_norm")


def positions(extent, window):
    sizes = []
    for axis in (0, 1):
        reach = (window["kernel"][axis] - 1) * window.get("dilation", (1, 1))[axis] + 1
        room = extent[axis] + 2 * window["padding"][axis] - reach
        sizes.append(0 if room < 0 else room // window["stride"][axis] + 1)
    return tuple(sizes)


def heads_in(part):
    return part["heads"] + 2 * part["key_heads"]


def of_rows(part, shape):
    """What a layer makes of Rows."""
    kind, channels = part["kind"], shape.channels
    if kind == "embedding":
        return shape._replace(channels=part["out"]) if channels == 0 and part["of"] == shape.clock else None
    if channels == 0:
        return None
    if kind == "linear":
        return shape._replace(channels=part["out"])
    if kind == "swiglu":
        return shape._replace(channels=channels // 2) if channels % 2 == 0 else None
    if kind == "rotary":
        return shape if channels % (2 * heads_in(part)) == 0 else None
    if kind == "attention":
        heads = heads_in(part)
        return None if channels % heads else shape._replace(channels=part["heads"] * (channels // heads))
    if kind == "recurrent":
        return shape._replace(channels=(part["projection"] or part["hidden"]) * (2 if part["both"] else 1))
    if kind == "vocabulary":
        return shape._replace(channels=3)
    if kind in ("last_row", "mean_over_time"):
        return (channels,)
    return shape if kind in OF_EACH + ("positions",) else None


def of_vector(part, shape):
    kind = part["kind"]
    if kind == "linear":
        return (part["out"],)
    if kind == "swiglu":
        return (shape[0] // 2,) if shape[0] % 2 == 0 else None
    if kind == "group_norm":
        return shape if shape[0] % part["groups"] == 0 else None
    return shape if kind in OF_EACH + ("flatten",) else None


def of_image(part, shape):
    kind = part["kind"]
    if kind in ("relu", "dropout", "bn", "instance_norm"):
        return shape
    if kind == "group_norm":
        return shape if shape[0] % part["groups"] == 0 else None
    if kind == "flatten":
        return (shape[0] * shape[1] * shape[2],)
    if kind == "gap":
        return (shape[0],)
    if kind in ("conv", "maxpool", "avgpool"):
        rows, columns = positions(shape[1:], part)
        if rows < 1 or columns < 1:
            return None
        if kind == "conv":
            fits = shape[0] % part["groups"] == 0 and part["out"] % part["groups"] == 0
            return (part["out"], rows, columns) if fits else None
        halves = all(2 * p <= k for p, k in zip(part["padding"], part["kernel"]))
        return (shape[0], rows, columns) if halves else None
    if kind == "conv_transpose":
        reaches = [(k - 1) * d + 1 for k, d in zip(part["kernel"], part.get("dilation", (1, 1)))]
        out = tuple((extent - 1) * s + reach + o - 2 * p for extent, s, reach, o, p in
                    zip(shape[1:], part["stride"], reaches, part["output_padding"], part["padding"]))
        fits = shape[0] % part["groups"] == 0 and part["out"] % part["groups"] == 0
        return (part["out"],) + out if fits and min(out) >= 1 else None
    if kind == "pad":
        own = 1 if part["mode"] == "Reflect" else 0
        fits = all(p + own <= extent for p, extent in zip(part["padding"], shape[1:]))
        if part["mode"] in ("Reflect", "Circular") and not fits:
            return None
        return (shape[0],) + tuple(extent + 2 * p for p, extent in zip(part["padding"], shape[1:]))
    if kind == "upsample":
        return (shape[0], part["scale"] * shape[1], part["scale"] * shape[2])
    if kind == "subsample" and shape[0] <= part["out"]:
        step = part["step"]
        return (part["out"], (shape[1] + step - 1) // step, (shape[2] + step - 1) // step)
    return None


def joined(outs):
    """What a Concat makes of its branches."""
    first = outs[0]
    if isinstance(first, Rows):
        alike = all(isinstance(out, Rows) and out.channels and out._replace(channels=0) == first._replace(channels=0)
                    for out in outs)
        return first._replace(channels=sum(out.channels for out in outs)) if alike else None
    if any(isinstance(out, Rows) or out[1:] != first[1:] or len(out) != len(first) for out in outs):
        return None
    return (sum(out[0] for out in outs),) + tuple(first[1:])


def shape_of(part, shape):
    """What `part` makes of `shape`; None where it refuses."""
    kind = part["kind"]
    if kind == "input":
        return Rows(part["time"], 0, part["index"])
    if kind == "use":
        return part["shape"]
    if kind == "let":
        return shape
    if kind in ("seq", "frozen"):
        for child in part["parts"]:
            shape = shape_of(child, shape)
            if shape is None:
                return None
        return shape
    if kind in ("concat", "residual", "multiply"):
        outs = [shape_of(child, shape) for child in part["parts"]]
        if None in outs:
            return None
        if kind == "concat":
            return joined(outs)
        has_numbers = not isinstance(outs[0], Rows) or outs[0].channels > 0
        return outs[0] if all(out == outs[0] for out in outs) and has_numbers else None
    if kind == "bahdanau":
        query, memory = (shape_of(child, shape) for child in part["parts"])
        rows = all(isinstance(out, Rows) and out.channels for out in (query, memory))
        return query._replace(channels=memory.channels) if rows else None
    if isinstance(shape, Rows):
        return of_rows(part, shape)
    return of_image(part, shape) if len(shape) == 3 else of_vector(part, shape)


def names_fit(part, shape, named=None):
    """Whether each {"kind": "use", "tag", "shape"} reads what a {"kind": "let", "tag"} before it has named, once."""
    named = {} if named is None else named
    kind = part["kind"]
    if kind == "let":
        return shape is not None and named.setdefault(part["tag"], part) is part and not part.update(shape=shape)
    if kind == "use":
        return part["tag"] in named and named[part["tag"]]["shape"] == part["shape"]
    for child in part.get("parts", ()):
        if shape is None or not names_fit(child, shape, named):
            return False
        shape = shape_of(child, shape) if kind in ("seq", "frozen") else shape
    return True
