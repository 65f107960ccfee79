#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/train/run.py --network gpt: nanoGPT's model, a round of training steps at a time.

    pytorch_gpt.py --size gpt|gpt_small --batch 4 --precision fp32|bf16 --mode eager|compiled|master|compiled_master
                   [--threads 1] [--attention fused|products] [--no-bias] [--clip 1.0] [--profile STEPS]

Prints a line of JSON about itself; then, for each line "round N" on its input, trains N steps and prints
{"step_s": ..., "cpu_s": ...}, the second being the process's CPU time. In bf16 the first two modes are
PyTorch's autocast; in the last two all weights and activations are bf16, and the optimizer has a copy of the
weights in fp32. What is measured leaves to PyTorch what it is good at: attention is its fused kernel, no loss is
read, AdamW is fused, gradients are not cleared but dropped. With --profile it prints where STEPS steps spend
their time instead.
"""

import argparse
import dataclasses
import json
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclasses.dataclass
class Size:
    layers: int
    heads: int
    channels: int
    time: int
    vocabulary: int = 65

    def parameters(self, bias):
        c = self.channels
        return (self.vocabulary + self.time) * c + self.layers * (12 * c * c + (13 if bias else 2) * c) + (
            2 * c if bias else c)

    def flops(self, batch):
        """Of a step's products: 2 a weight and token, three times; scores and sums of values where j <= i."""
        tokens, c = batch * self.time, self.channels
        weights = self.layers * 12 * c * c + self.vocabulary * c
        return 3 * (2 * tokens * weights + self.layers * 2 * tokens * (self.time + 1) * c)


SIZES = {"gpt": Size(6, 6, 384, 256), "gpt_small": Size(4, 4, 128, 64)}


class Block(nn.Module):
    def __init__(self, size, bias, dropout=0.0):
        super().__init__()
        c, self.heads, self.dropout = size.channels, size.heads, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(c, bias=bias), nn.LayerNorm(c, bias=bias)
        self.c_attn, self.c_proj = nn.Linear(c, 3 * c, bias=bias), nn.Linear(c, c, bias=bias)
        self.mlp = nn.Sequential(nn.Linear(c, 4 * c, bias=bias), nn.GELU(), nn.Linear(4 * c, c, bias=bias))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(c, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                    dropout_p=self.dropout if self.training else 0.0)
        x = x + functional.dropout(self.c_proj(y.transpose(1, 2).reshape(b, t, c)), self.dropout, self.training)
        return x + functional.dropout(self.mlp(self.ln_2(x)), self.dropout, self.training)


class Gpt(nn.Module):
    """Head tied to the embedding; initial values as nanoGPT draws them."""

    def __init__(self, size, bias=True, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.wte, self.wpe = nn.Embedding(size.vocabulary, size.channels), nn.Embedding(size.time, size.channels)
        self.h = nn.Sequential(*(Block(size, bias, dropout) for _ in range(size.layers)))
        self.ln_f = nn.LayerNorm(size.channels, bias=bias)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                residual = name.endswith(("c_proj.weight", "mlp.2.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * size.layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, x):
        h = self.wte(x) + self.wpe.weight[:x.shape[1]]
        h = functional.dropout(h, self.dropout, self.training)
        return functional.linear(self.ln_f(self.h(h)), self.wte.weight)

    def loss(self, x, targets):
        logits = self(x)
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


def adamw(parameters, learning_rate, betas):
    """nanoGPT's: decay on two axes or more only."""
    parameters = list(parameters)
    return torch.optim.AdamW([{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
                              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
                             lr=learning_rate, betas=betas, fused=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(SIZES), required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--mode", choices=["eager", "compiled", "master", "compiled_master"], required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--attention", choices=["fused", "products"], default="fused",
                        help="PyTorch's kernel for a CPU, or products and softmax")
    parser.add_argument("--no-bias", action="store_true")
    parser.add_argument("--clip", type=float, default=0.0, help="largest norm of the gradient; 0: not clipped")
    parser.add_argument("--warm-up", type=int, default=3, help="steps")
    parser.add_argument("--profile", type=int, default=0, help="steps")
    options = parser.parse_args()
    if options.mode.endswith("master") and options.precision != "bf16":
        parser.error("--mode master is for --precision bf16")
    return options


def main():
    options = parse()
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    torch.set_num_threads(options.threads)
    size, bias = SIZES[options.size], not options.no_bias
    net = Gpt(size, bias)
    parameters = sum(p.numel() for p in net.parameters())
    assert parameters == size.parameters(bias), f"{parameters} parameters, not {size.parameters(bias)}"
    own_master = options.mode.endswith("master")
    masters = None
    if own_master:
        masters = [p.detach().clone() for p in net.parameters()]
        net.bfloat16()
    trained = list(net.parameters())
    optimizer = adamw(masters or trained, 1e-3, (0.9, 0.99))
    random = torch.Generator().manual_seed(1)
    x = torch.randint(size.vocabulary, (options.batch, size.time), generator=random)
    targets = torch.randint(size.vocabulary, (options.batch, size.time), generator=random)
    loss_at = torch.compile(net.loss) if options.mode.startswith("compiled") else net.loss
    autocast = options.precision == "bf16" and not own_master
    attention = SDPBackend.FLASH_ATTENTION if options.attention == "fused" else SDPBackend.MATH

    def step():
        for p in trained:
            p.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast), sdpa_kernel(attention):
            loss = loss_at(x, targets)
        loss.backward()
        if masters:
            for p, master in zip(trained, masters):
                master.grad = p.grad.float()
        if options.clip:
            nn.utils.clip_grad_norm_(masters or trained, options.clip)
        optimizer.step()
        if masters:
            with torch.no_grad():
                torch._foreach_copy_(trained, masters)
        return loss

    for _ in range(max(options.warm_up, 1)):
        loss = step()
    if options.profile:
        with torch.profiler.profile() as profile:
            for _ in range(options.profile):
                step()
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=30))
        return
    print(json.dumps({
        "parameters": parameters,
        "loss": loss.item(),
        "flops": size.flops(options.batch),
        "torch": torch.__version__,
        "onednn": next((part for part in torch.__config__.show().splitlines() if "MKL-DNN" in part), "").strip(" -"),
    }), flush=True)
    for line in sys.stdin:
        steps = int(line.split()[1])
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(steps):
            step()
        print(json.dumps({"step_s": (time.perf_counter() - begin) / steps,
                          "cpu_s": (time.process_time() - cpu) / steps}), flush=True)


if __name__ == "__main__":
    main()
