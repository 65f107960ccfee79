#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/golden/lstm*.safetensors and gru*.safetensors with PyTorch, in double; or checks that they are up
to date.

    python3 recurrent.py          # writes the files
    python3 recurrent.py check    # computes them again and compares

The committed files were written by torch 2.15.0 and numpy 2.4.6 (PyPI, CPU), on one thread.

Networks of words: nn.Embedding (0), nn.LSTM or nn.GRU (1), nn.Linear to the words (2), under tandem's names.
    lstm            two biases
    lstm_one_bias   bias_hh 0 and fixed, which is not in the file
    lstm_projected  proj_size
    lstm_both       in two directions, on samples of lengths 9, 4 and 1
    gru             two biases, on samples of lengths 9, 4 and 1

    0.…, 1.…, 2.…            initial values (float)
    x, targets               (int32, B x T); target -1: none
    lengths                  (int32, B)
    hidden                   (B, T, C) what leaves the recurrent layer, 0 behind a sample's end
    loss                     mean over the targets >= 0
    gradient.<parameter>     of that loss
    losses.sgd               of five steps on this batch, before each: learning rate 0.5, momentum 0.9, as floats
All in double but what is marked.
"""


import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from networks import f32, write_or_check

WORDS, TIME, CHANNELS, HIDDEN, STEPS = 13, 9, 6, 7, 5


class Words(nn.Module):
    def __init__(self, cell, one_bias=False, **options):
        super().__init__()
        layer = cell(CHANNELS, HIDDEN, batch_first=True, **options)
        out = (options.get("proj_size", 0) or HIDDEN) * (2 if options.get("bidirectional") else 1)
        for name, module in (("0", nn.Embedding(WORDS, CHANNELS)), ("1", layer), ("2", nn.Linear(out, WORDS))):
            self.add_module(name, module)
        self.fixed = ("1.bias_hh_l0",) if one_bias else ()

    def draw(self, random):
        for name, p in self.named_parameters():
            p.data = torch.randn(p.shape, generator=random).mul(0.4).double()
            if name in self.fixed:
                p.data.zero_()
                p.requires_grad_(False)

    def trained(self):
        return {name: p for name, p in self.named_parameters() if name not in self.fixed}

    def forward(self, x, lengths):
        modules = dict(self.named_children())
        packed = pack_padded_sequence(modules["0"](x), lengths.long(), batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(modules["1"](packed)[0], batch_first=True, total_length=TIME)
        return hidden, modules["2"](hidden)


CASES = {"lstm": (lambda: Words(nn.LSTM), [9, 9, 9], 1),
         "lstm_one_bias": (lambda: Words(nn.LSTM, one_bias=True), [9, 9, 9], 2),
         "lstm_projected": (lambda: Words(nn.LSTM, proj_size=4), [9, 9, 9], 3),
         "lstm_both": (lambda: Words(nn.LSTM, bidirectional=True), [9, 4, 1], 4),
         "gru": (lambda: Words(nn.GRU), [9, 4, 1], 5)}


def compute(case):
    make, lengths, seed = CASES[case]
    random = torch.Generator().manual_seed(seed)
    net = make().double()
    net.draw(random)
    lengths = torch.tensor(lengths, dtype=torch.int32)
    x = torch.randint(WORDS, (len(lengths), TIME), generator=random, dtype=torch.int32)
    targets = torch.randint(WORDS, (len(lengths), TIME), generator=random, dtype=torch.int32)
    targets[torch.arange(TIME) >= lengths[:, None]] = -1
    file = {name: p.detach().float().numpy() for name, p in net.trained().items()}
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(p.float().double())
    file.update({"x": x.numpy(), "targets": targets.numpy(), "lengths": lengths.numpy()})
    optimizer = torch.optim.SGD(net.trained().values(), lr=f32(0.5), momentum=f32(0.9))
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        hidden, logits = net(x, lengths)
        loss = functional.cross_entropy(logits.reshape(-1, WORDS), targets.reshape(-1).long(), ignore_index=-1)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            file.update({"hidden": hidden.detach().numpy(), "loss": np.array([loss.item()])})
            file.update({"gradient." + name: p.grad.numpy().copy() for name, p in net.trained().items()})
        optimizer.step()
    assert losses[-1] < losses[0], losses
    file["losses.sgd"] = np.array(losses)
    print(f"{case}: {sum(p.numel() for p in net.trained().values())} parameters, losses {np.round(losses, 4)}")
    return file


if __name__ == "__main__":
    write_or_check((name, compute(name)) for name in CASES)
