#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/golden/gnmt*.safetensors with PyTorch, in double; or checks that they are up to date.

    python3 gnmt.py          # writes the files
    python3 gnmt.py check    # computes them again and compares

The committed files were written by torch 2.15.0 and numpy 2.4.6 (PyPI, CPU), on one thread.

GNMT v2 as NVIDIA has it (DeepLearningExamples, PyTorch/Translation/GNMT, seq2seq/models), of 11 words shared by both
sides, without dropout, under the names of tandem's models::Gnmt<11, H, N, 5>. Only the encoder's first layer knows
lengths: layers above run over the padding, and attention leaves it out.
    gnmt      N = 2, H = 5
    gnmt_3    N = 3, H = 4, whose third layers have residuals

    0.weight, …              initial values (float)
    x, second                (int32, B x T): the sentence, and what the decoder has said so far
    targets                  (int32, B x T); -1: none
    lengths, second_lengths  (int32, B)
    rows                     (B, T) 0.9 of the target's -log p and 0.1 of all words' mean; 0 where there is no target
    loss                     their sum divided by the sentences
    gradient.<parameter>     of that loss
    losses.adam              of five steps on this batch, before each: learning rate 0.02, all gradients times
                             min(1, 0.5 / norm); the source clips at 5.0, which networks as small as these are below
    norms                    of all gradients before clipping, of each step
All in double but what is marked.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from networks import f32, write_or_check

WORDS, TIME, STEPS, CLIP = 11, 5, 5, 0.5
LENGTHS, SECOND_LENGTHS = [5, 2, 4, 1], [3, 5, 1, 4]


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear_q = nn.Linear(size, size, bias=False)
        self.linear_k = nn.Linear(size, size, bias=False)
        self.linear_att = nn.Parameter(torch.empty(size))
        self.normalize_bias = nn.Parameter(torch.empty(size))
        self.normalize_scalar = nn.Parameter(torch.empty(1))

    def forward(self, query, memory, lengths):
        summed = self.linear_q(query).unsqueeze(2) + self.linear_k(memory).unsqueeze(1) + self.normalize_bias
        scores = torch.tanh(summed).matmul(self.linear_att / self.linear_att.norm() * self.normalize_scalar)
        behind = torch.arange(TIME)[None, :] >= lengths[:, None]
        scores = scores.masked_fill(behind[:, None, :], -65504.0)
        return torch.bmm(torch.softmax(scores, dim=-1), memory)


class Gnmt(nn.Module):
    def __init__(self, size, layers):
        super().__init__()
        deep = layers - 2
        one = dict(batch_first=True)
        # tandem's names: a part's place among all, of which Let is one and so is a Repeat
        self.words = nn.Embedding(WORDS, size)
        self.encoder = nn.ModuleList([nn.LSTM(size, size, bidirectional=True, **one), nn.LSTM(2 * size, size, **one)] +
                                     [nn.LSTM(size, size, **one) for _ in range(deep)])
        self.attention = Attention(size)
        self.decoder = nn.ModuleList([nn.LSTM(size, size, **one)] +
                                     [nn.LSTM(2 * size, size, **one) for _ in range(layers - 1)])
        self.classifier = nn.Linear(size, WORDS)
        shift = 1 if deep else 0
        self.names = {self.words: "0", self.attention: f"{7 + shift}", self.classifier: f"{10 + 2 * shift}",
                      self.encoder[0]: "1.1", self.encoder[1]: "2.1", self.decoder[0]: f"{5 + shift}.1",
                      self.decoder[1]: f"{9 + shift}.1.1"}
        for i in range(deep):
            self.names[self.encoder[2 + i]] = f"3.{i}.body.1"
            self.names[self.decoder[2 + i]] = f"11.{i}.body.1.1"

    def parameters_by_name(self):
        return {f"{path}.{name}": p for module, path in self.names.items() for name, p in module.named_parameters()}

    def encode(self, x, lengths):
        packed = pack_padded_sequence(self.words(x), lengths.long(), batch_first=True, enforce_sorted=False)
        rows, _ = pad_packed_sequence(self.encoder[0](packed)[0], batch_first=True, total_length=TIME)
        rows, _ = self.encoder[1](rows)
        for layer in self.encoder[2:]:
            rows = layer(rows)[0] + rows
        return rows

    def forward(self, x, lengths, second):
        memory = self.encode(x, lengths)
        rows, _ = self.decoder[0](self.words(second))
        context = self.attention(rows, memory, lengths)
        rows, _ = self.decoder[1](torch.cat((rows, context), dim=2))
        for layer in self.decoder[2:]:
            rows = layer(torch.cat((rows, context), dim=2))[0] + rows
        return self.classifier(rows)


CASES = {"gnmt": (5, 2, 1), "gnmt_3": (4, 3, 2)}


def smoothed_losses(logits, targets):
    log_p = functional.log_softmax(logits, dim=-1)
    nll = -log_p.gather(2, targets.clamp(min=0).long().unsqueeze(2)).squeeze(2)
    return torch.where(targets >= 0, 0.9 * nll - 0.1 * log_p.mean(dim=-1), 0.0)


def compute(case):
    size, layers, seed = CASES[case]
    random = torch.Generator().manual_seed(seed)
    net = Gnmt(size, layers).double()
    named = net.parameters_by_name()
    with torch.no_grad():
        for name, p in named.items():
            p.copy_((2 * torch.rand(p.shape, generator=random) - 1).mul(0.6).float())
        net.attention.normalize_scalar.fill_(f32(1 / math.sqrt(size)))
    lengths = torch.tensor(LENGTHS, dtype=torch.int32)
    second_lengths = torch.tensor(SECOND_LENGTHS, dtype=torch.int32)
    draw = dict(size=(len(lengths), TIME), generator=random, dtype=torch.int32)
    x, second, targets = (torch.randint(WORDS, **draw) for _ in range(3))
    targets[torch.arange(TIME) >= second_lengths[:, None]] = -1
    file = {name: p.detach().float().numpy().copy() for name, p in named.items()}
    file.update({"x": x.numpy(), "second": second.numpy(), "targets": targets.numpy(), "lengths": lengths.numpy(),
                 "second_lengths": second_lengths.numpy()})
    optimizer = torch.optim.Adam(named.values(), lr=f32(0.02), betas=(f32(0.9), f32(0.999)), eps=f32(1e-8))
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        rows = smoothed_losses(net(x, lengths, second), targets)
        loss = rows.sum() / len(targets)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            file.update({"rows": rows.detach().numpy(), "loss": np.array([loss.item()])})
            file.update({"gradient." + name: p.grad.numpy().copy() for name, p in named.items()})
        norms.append(math.sqrt(sum((p.grad ** 2).sum().item() for p in named.values())))
        for p in named.values():
            p.grad *= min(1.0, CLIP / norms[-1])
        optimizer.step()
    assert losses[-1] < losses[0], losses
    file["losses.adam"], file["norms"] = np.array(losses), np.array(norms)
    print(f"{case}: {sum(p.numel() for p in named.values())} parameters, losses {np.round(losses, 4)}, "
          f"norms {np.round(norms, 3)}")
    return file


if __name__ == "__main__":
    write_or_check((name, compute(name)) for name in CASES)
