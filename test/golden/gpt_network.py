# SPDX-License-Identifier: Apache-2.0
"""The language models of gpt.py in PyTorch, as functions of a dictionary of parameters.

Attention is written out, so that any version of PyTorch will do, and can be PyTorch's own.
"""

import dataclasses
import math

import torch
from torch.nn import functional


@dataclasses.dataclass
class Gpt:
    vocabulary: int = 65
    time: int = 16
    channels: int = 32
    heads: int = 4
    key_heads: int = 4
    mlps: tuple = ("gelu", "gelu")
    gated: int = 88  # channels inside of a SwiGLU
    norm: str = "layer"
    rotary: bool = False
    causal: bool = True
    tied: bool = True
    smoothing: float = 0.0

    def parameters(self):
        """Names and shapes, in the order of the network. Blocks with SwiGLU have no biases."""
        c, shapes = self.channels, {"transformer.wte.weight": (self.vocabulary, self.channels)}

        def norm(name):
            shapes[name + ".weight"] = (c,)
            if self.norm == "layer":
                shapes[name + ".bias"] = (c,)

        def linear(name, out, inputs, bias):
            shapes[name + ".weight"] = (out, inputs)
            if bias:
                shapes[name + ".bias"] = (out,)

        if not self.rotary:
            shapes["transformer.wpe.weight"] = (self.time, c)
        for i, mlp in enumerate(self.mlps):
            block, gated = f"transformer.h.{i}", mlp == "swiglu"
            inside = self.gated if gated else 4 * c
            norm(block + ".ln_1")
            linear(block + ".attn.c_attn", c + 2 * self.key_heads * c // self.heads, c, not gated)
            linear(block + ".attn.c_proj", c, c, not gated)
            norm(block + ".ln_2")
            linear(block + ".mlp.c_fc", 2 * inside if gated else inside, c, not gated)
            linear(block + ".mlp.c_proj", c, inside, not gated)
        norm("transformer.ln_f")
        if not self.tied:
            linear("lm_head", self.vocabulary, c, True)
        return shapes

    def initial(self, random):
        """Floats, none at its default, such that attention is far from uniform."""
        values = {}
        for name, shape in self.parameters().items():
            if len(shape) == 1:
                middle = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
                values[name] = middle + torch.rand(shape, generator=random) - 0.5
            else:
                embedding = name in ("transformer.wte.weight", "transformer.wpe.weight")
                scale = 0.25 if embedding else 1.5 / math.sqrt(shape[1])
                values[name] = scale * torch.randn(shape, generator=random)
        return values


def normalized(gpt, p, name, x):
    if gpt.norm == "layer":
        return functional.layer_norm(x, x.shape[-1:], p[name + ".weight"], p.get(name + ".bias"), 1e-5)
    return x / torch.sqrt(torch.mean(x * x, -1, keepdim=True) + 1e-5) * p[name + ".weight"]


def linear(p, name, x):
    return functional.linear(x, p[name + ".weight"], p.get(name + ".bias"))


def rotated(x):
    """Channel i < D/2 and channel i + D/2 of each head turn by position * 10000^(-2i/D)."""
    half, time = x.shape[-1] // 2, x.shape[-2]
    speeds = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(time, dtype=torch.float64)[:, None] * speeds
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def attention(gpt, qkv, lengths, own=True):
    batch, time, _ = qkv.shape
    d = gpt.channels // gpt.heads
    parts = qkv.split([gpt.channels, gpt.key_heads * d, gpt.key_heads * d], -1)
    q, k, v = (part.view(batch, time, -1, d).transpose(1, 2) for part in parts)
    if gpt.rotary:
        q, k = rotated(q), rotated(k)
    k, v = (part.repeat_interleave(gpt.heads // gpt.key_heads, 1) for part in (k, v))
    seen = torch.arange(time) < lengths[:, None, None, None]  # (B, 1, 1, T): keys of the sample
    if gpt.causal:
        seen = seen & torch.ones(time, time, dtype=torch.bool).tril()
    if own:
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(d)
        y = torch.softmax(scores.masked_fill(~seen, -math.inf), -1) @ v
    else:
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return y.transpose(1, 2).reshape(batch, time, gpt.channels)


def mlp(p, name, kind, x):
    x = linear(p, name + ".c_fc", x)
    if kind == "swiglu":
        gate, up = x.chunk(2, -1)
        x = functional.silu(gate) * up
    else:
        x = functional.gelu(x, approximate="tanh" if kind == "gelu_tanh" else "none")
    return linear(p, name + ".c_proj", x)


def forward(gpt, p, x, lengths, own=True):
    """What enters the first block, what leaves each block, what enters the head; the logits."""
    h = functional.embedding(x, p["transformer.wte.weight"])
    if not gpt.rotary:
        h = h + p["transformer.wpe.weight"][:x.shape[1]]
    states = [h]
    for i, kind in enumerate(gpt.mlps):
        block = f"transformer.h.{i}"
        qkv = linear(p, block + ".attn.c_attn", normalized(gpt, p, block + ".ln_1", h))
        h = h + linear(p, block + ".attn.c_proj", attention(gpt, qkv, lengths, own))
        h = h + mlp(p, block + ".mlp", kind, normalized(gpt, p, block + ".ln_2", h))
        states.append(h)
    states.append(normalized(gpt, p, "transformer.ln_f", h))
    if gpt.tied:
        return states, functional.linear(states[-1], p["transformer.wte.weight"])
    return states, linear(p, "lm_head", states[-1])
