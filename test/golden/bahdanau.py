#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/golden/bahdanau.safetensors with PyTorch, in double; or checks that it is up to date.

    python3 bahdanau.py         # writes the file
    python3 bahdanau.py check   # computes it again and compares

Normalised additive attention as NVIDIA's GNMT v2 has it (seq2seq/models/attention.py): scores of tanh(W_q q + W_k m + b)
against g v / |v|, -65504 behind a sample's length, a softmax over the memory's rows, the mean of these. All initial
values are floats.

    query, memory, lengths      (3, 4, 3), (3, 6, 7), int32 (3)
    weights                     (3, 4, 7): the objective is the sum of weights times the output
    output                      (3, 4, 7)
    linear_q.weight, …          the parameters under the module's names
    gradient.<name>             of the objective, also of query and memory
"""

import math
import sys

import numpy as np
import torch

from networks import DATA, read_safetensors, write_safetensors

BATCH, QUERIES, KEYS, QUERY, MEMORY, HIDDEN = 3, 4, 6, 3, 7, 5


def attend(p, lengths):
    """The module's forward; each tensor is made as there, the scores' included."""
    q = torch.nn.functional.linear(p["query"], p["linear_q.weight"])
    k = torch.nn.functional.linear(p["memory"], p["linear_k.weight"])
    summed = q.unsqueeze(2) + k.unsqueeze(1) + p["normalize_bias"]
    unit = p["linear_att"] / p["linear_att"].norm() * p["normalize_scalar"]
    scores = torch.tanh(summed).matmul(unit)
    behind = torch.arange(KEYS)[None, :] >= lengths[:, None]
    scores = scores.masked_fill(behind[:, None, :], -65504.0)
    return torch.bmm(torch.softmax(scores, dim=-1), p["memory"])


def compute():
    random = torch.Generator().manual_seed(21)

    def uniform(*shape):
        return (2 * torch.rand(*shape, generator=random) - 1).float().double()

    p = {"query": uniform(BATCH, QUERIES, QUERY), "memory": uniform(BATCH, KEYS, MEMORY),
         "linear_q.weight": uniform(HIDDEN, QUERY), "linear_k.weight": uniform(HIDDEN, MEMORY),
         "linear_att": uniform(HIDDEN), "normalize_bias": uniform(HIDDEN),
         "normalize_scalar": torch.tensor([1 / math.sqrt(HIDDEN)]).float().double()}
    lengths, weights = torch.tensor([6, 2, 5]), uniform(BATCH, QUERIES, MEMORY)
    for value in p.values():
        value.requires_grad_()
    y = attend(p, lengths)
    (weights * y).sum().backward()
    file = {"lengths": lengths.int().numpy(), "weights": weights.numpy(), "output": y.detach().numpy()}
    for name, value in p.items():
        file[name] = value.detach().numpy()
        file["gradient." + name] = value.grad.numpy()
    return file


def main():
    torch.set_num_threads(1)
    file, path = compute(), DATA / "bahdanau.safetensors"
    if sys.argv[1:2] == ["check"]:
        arrays, _ = read_safetensors(path)
        assert set(arrays) == set(file), "other tensors"
        worst = max(float(np.abs(arrays[name] - file[name]).max()) for name in file)
        assert worst <= 1e-14, f"differs by {worst}"
        print("bahdanau: as it was")
    else:
        write_safetensors(path, file, {"torch": torch.__version__, "numpy": np.__version__})


if __name__ == "__main__":
    main()
