#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mean loss, perplexity and bits a character of a saved GPT on the last tenth of a text, in PyTorch.

    perplexity.py MODEL.safetensors TEXT [--heads 4] [--gelu erf|tanh] [--share 10] [--time T] [--threads 1]
    perplexity.py sizes

For a model of characters: token i is the i-th character of the text in the order of code points. Parameters are
found under nanoGPT's or Hugging Face's names, with "transformer." or without, Linear weights (out, in) or, as
Hugging Face's GPT-2 has them, (in, out): attn.c_attn.weight's shape tells which. Sizes are those of the tensors.
The text is predicted window after window of T characters, each from those of its window before it; what is
left over at the end is not. `sizes` prints the parameters of the four sizes of GPT-2, by the formula and as the sum
over the tensors of gpt_network.py; they must be those published.
"""

import argparse
import math
import pathlib
import re
import sys

import torch
from torch.nn import functional

from gpt_network import Gpt, forward
from networks import read_safetensors

# layers, heads, channels: parameters, of 50,257 tokens and 1,024 positions
SIZES = {"gpt2": (12, 12, 768, 124439808), "gpt2-medium": (24, 16, 1024, 354823168),
         "gpt2-large": (36, 20, 1280, 774030080), "gpt2-xl": (48, 25, 1600, 1557611200)}
LINEAR = re.compile(r"\.(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight$")


def print_sizes():
    for name, (layers, heads, c, published) in SIZES.items():
        v, t = 50257, 1024
        gpt = Gpt(vocabulary=v, time=t, channels=c, heads=heads, key_heads=heads, mlps=("gelu_tanh",) * layers)
        listed = sum(math.prod(shape) for shape in gpt.parameters().values())
        formula = v * c + t * c + layers * (12 * c * c + 13 * c) + 2 * c
        print(f"{name:12} {layers} layers, {heads} heads, {c} channels: {formula:13,} parameters")
        assert formula == listed == published, name


def load(path, heads, gelu):
    """The network and its parameters, in float."""
    arrays, _ = read_safetensors(path)
    p = {}
    for name, array in arrays.items():
        name = name if name.startswith(("transformer.", "lm_head.")) else "transformer." + name
        if not name.endswith((".attn.bias", ".attn.masked_bias")):  # masks of older files
            p[name] = torch.tensor(array).float()
    (v, c), (out, _) = p["transformer.wte.weight"].shape, p["transformer.h.0.attn.c_attn.weight"].shape
    if out == c:
        p = {name: value.T.contiguous() if LINEAR.search(name) else value for name, value in p.items()}
    layers = 1 + max(int(name.split(".")[2]) for name in p if name.startswith("transformer.h."))
    gpt = Gpt(vocabulary=v, time=len(p["transformer.wpe.weight"]), channels=c, heads=heads, key_heads=heads,
              mlps=(gelu,) * layers)
    unknown = set(p) - set(gpt.parameters()) - {"lm_head.weight"}
    assert not unknown, f"not of a GPT: {unknown}"
    tied = p.get("lm_head.weight", p["transformer.wte.weight"])
    assert torch.equal(tied, p["transformer.wte.weight"]), "lm_head.weight is not tied"
    return gpt, p


@torch.no_grad()
def mean_loss(gpt, p, data, time):
    windows = (len(data) - 1) // time
    x, targets = (data[i:i + windows * time].view(windows, time) for i in (0, 1))
    total = 0.0
    for a, b in zip(x.split(128), targets.split(128)):
        logits = forward(gpt, p, a, torch.full((len(a),), time), own=False)[1]
        total += functional.cross_entropy(logits.flatten(0, 1), b.flatten(), reduction="sum").item()
    return total / (windows * time)


def main():
    if sys.argv[1:] == ["sizes"]:
        print_sizes()
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--gelu", choices=["erf", "tanh"], default="erf")
    parser.add_argument("--share", type=int, default=10, help="one part of so many at the end; 1: all")
    parser.add_argument("--time", type=int, help="default: the model's positions")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    gpt, p = load(options.model, options.heads, {"erf": "gelu", "tanh": "gelu_tanh"}[options.gelu])
    text = options.text.read_text(encoding="utf-8")
    place = {character: i for i, character in enumerate(sorted(set(text)))}
    assert len(place) == gpt.vocabulary, f"the text has {len(place)} characters, the model {gpt.vocabulary}"
    begin = len(text) * (options.share - 1) // options.share
    data = torch.tensor([place[character] for character in text[begin:]])
    loss = mean_loss(gpt, p, data, options.time or gpt.time)
    print(f"{len(data)} characters: {loss:.4f} nats, perplexity {math.exp(loss):.3f}, {loss / math.log(2):.4f} bits "
          f"a character")


if __name__ == "__main__":
    main()
