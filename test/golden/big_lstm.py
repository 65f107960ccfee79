#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/golden/big_lstm.safetensors and big_lstm_sampled.safetensors with PyTorch, in double; or checks that
they are up to date.

    python3 big_lstm.py          # writes the files
    python3 big_lstm.py check    # computes them again and compares

The committed files were written by torch 2.15.0 and numpy 2.4.6 (PyPI, CPU), on one thread.

models::BigLstm<31, 7, 4, 2> without dropout: nn.Embedding, two nn.LSTM with proj_size, whose bias_hh is 1 for the forget
gate and fixed, and the words' matrix and bias. big_lstm has the softmax of all words, big_lstm_sampled TensorFlow's
sampled_softmax_loss of 6 words, written here from its formula: a sample for each step, drawn here by Philox4x32-10 from
(seed 0, use 7, step, layer 7).

    0.weight, 2.0.0.…, 2.1.0.…, 3.…  initial values (float)
    x, targets               (int32, B x 20); target -1: none
    hidden                   (B, 20, P) what the last LSTM gives, by the initial values
    evaluation               loss of all words, by the initial values
    loss                     sum over the rows, divided by B
    gradient.<parameter>     of that loss
    losses.adagrad           of five steps on this batch, before each: Adagrad of 0.2, from an accumulator of 1, without
                             epsilon; the gradient of 0.weight times B, those of 2.… clipped at a norm of 0.25, as floats
    sample, tries            (int32, 5 x 6), (int32, 5) of each step
All in double but what is marked.
"""

import math

import numpy as np
import torch
from torch import nn

from networks import f32, write_or_check

WORDS, TIME, UNITS, PROJECTED, LAYERS, BATCH, DRAWN, STEPS = 31, 20, 7, 4, 2, 3, 6, 5
SAMPLING, VOCABULARY_LAYER, CLIP = 7, 7, 0.25


def philox(seed, use, low, high):
    mask = 0xFFFFFFFF
    key = [(seed & mask) ^ (use << 24), seed >> 32]
    r = [low & mask, low >> 32, high & mask, high >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * r[0], 0xCD9E8D57 * r[2]
        r = [(b >> 32) ^ r[1] ^ key[0], b & mask, (a >> 32) ^ r[3] ^ key[1], a & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return r


def draw(step):
    """DRAWN different words, in the order in which they came first, and how many draws they took."""
    words, tries = [], 0
    while len(words) < DRAWN:
        r = philox(0, SAMPLING, step << 32 | VOCABULARY_LAYER, tries // 2)[tries % 2 * 2:]
        u = ((r[0] << 32 | r[1]) >> 11) * 2.0**-53
        word = min(int(math.exp(u * math.log(WORDS + 1.0))) - 1, WORDS - 1)
        tries += 1
        if word not in words:
            words.append(word)
    return words, tries


class BigLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, PROJECTED)
        self.cells = nn.ModuleList(nn.LSTM(PROJECTED, UNITS, batch_first=True, proj_size=PROJECTED)
                                   for _ in range(LAYERS))
        self.guess = nn.Linear(PROJECTED, WORDS)

    def trained(self):
        named = {"0.weight": self.words.weight}
        for i, cell in enumerate(self.cells):
            named.update({f"2.{i}.0.{name}": p for name, p in cell.named_parameters() if name != "bias_hh_l0"})
        return {**named, "3.weight": self.guess.weight, "3.bias": self.guess.bias}

    def draw(self, random):
        for p in self.trained().values():
            p.data = torch.randn(p.shape, generator=random).mul(0.5).double()
        for cell in self.cells:
            cell.bias_hh_l0.data.zero_()
            cell.bias_hh_l0.data[UNITS:2 * UNITS] = 1.0
            cell.bias_hh_l0.requires_grad_(False)

    def forward(self, x):
        h = self.words(x)
        for cell in self.cells:
            h, _ = cell(h)
        return h


def full_loss(net, h, targets, _step):
    rows = targets >= 0
    logits = net.guess(h[rows])
    return nn.functional.cross_entropy(logits, targets[rows].long(), reduction="sum")


def sampled_loss(net, h, targets, step):
    words, tries = draw(step)
    words = torch.tensor(words)
    number = torch.arange(WORDS, dtype=torch.float64)
    chance = torch.log((number + 2) / (number + 1)) / math.log(WORDS + 1)
    expected = -torch.expm1(tries * torch.log1p(-chance))
    rows = targets >= 0
    h, wanted = h[rows], targets[rows].long()
    weight, bias = net.guess.weight, net.guess.bias
    own = (h * weight[wanted]).sum(1) + bias[wanted] - expected[wanted].log()
    others = h @ weight[words].T + bias[words] - expected[words].log()
    others = others.masked_fill(words[None, :] == wanted[:, None], -math.inf)
    return (torch.logsumexp(torch.cat([own[:, None], others], 1), 1) - own).sum()


def compute(loss_of, seed):
    random = torch.Generator().manual_seed(seed)
    net = BigLstm().double()
    net.draw(random)
    x = torch.randint(WORDS, (BATCH, TIME), generator=random, dtype=torch.int32)
    targets = torch.randint(WORDS, (BATCH, TIME), generator=random, dtype=torch.int32)
    targets[1, 4:7] = -1
    trained = net.trained()
    file = {name: p.detach().float().numpy() for name, p in trained.items()}
    with torch.no_grad():
        for p in trained.values():
            p.copy_(p.float().double())
        hidden = net(x)
        file.update({"x": x.numpy(), "targets": targets.numpy(), "hidden": hidden.numpy(),
                     "evaluation": np.array([full_loss(net, hidden, targets, 0).item() / BATCH])})
    optimizer = torch.optim.Adagrad(trained.values(), lr=f32(0.2), initial_accumulator_value=1.0, eps=0.0)
    losses, clipped = [], 0
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(net, net(x), targets, step) / BATCH
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            file["loss"] = np.array([loss.item()])
            file.update({"gradient." + name: p.grad.numpy().copy() for name, p in trained.items()})
        trained["0.weight"].grad *= BATCH
        cells = [p.grad for name, p in trained.items() if name.startswith("2.")]
        norm = math.sqrt(sum(g.square().sum().item() for g in cells))
        clipped += norm > CLIP
        for g in cells:
            g *= min(1.0, CLIP / norm)
        optimizer.step()
    assert clipped and (loss_of is sampled_loss or losses[-1] < losses[0]), (losses, clipped)
    file["losses.adagrad"] = np.array(losses)
    samples = [draw(step) for step in range(STEPS)]
    file["sample"] = np.array([words for words, _ in samples], dtype=np.int32)
    file["tries"] = np.array([tries for _, tries in samples], dtype=np.int32)
    print(f"losses {np.round(losses, 4)}, {clipped} steps clipped")
    return file


if __name__ == "__main__":
    write_or_check((name, compute(loss_of, seed)) for name, loss_of, seed in
                   (("big_lstm", full_loss, 1), ("big_lstm_sampled", sampled_loss, 2)))
