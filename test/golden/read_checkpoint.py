#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint that tandem wrote after three steps of sgd, goes on with PyTorch, and compares.

    python3 read_checkpoint.py [FILE]   # default: test/data/golden/residual_checkpoint.safetensors

FILE is what test/unit/golden/checkpoint_test.cpp saves: the network and the batch of
residual.safetensors. Parameters, statistics and momentum are taken from it, PyTorch takes two steps,
and losses, parameters and outputs must be those of five steps of PyTorch alone.
"""

import pathlib
import sys

import numpy as np
import torch

import networks
from networks import DATA, NETWORKS, OPTIMIZERS


def check(path):
    arrays, metadata = networks.read_safetensors(path)
    golden, _ = networks.read_safetensors(DATA / "residual.safetensors")
    own = {key: value for key, value in metadata.items() if not key.startswith("xxh64")}
    assert own == {"format": "tandem", "version": "1", "optimizer": "Sgd"}, metadata
    assert arrays["tandem.step"].tolist() == [3]

    make, loss = NETWORKS["residual"]
    network = make().double()
    expected = set(networks.state(network)) | {"tandem." + field for field in
                                               ("step", "epoch", "position", "seed")}
    expected |= {"optimizer.momentum_buffer." + name for name, _ in network.named_parameters()}
    assert set(arrays) == expected, set(arrays) ^ expected
    networks.load(network, arrays)
    optimizer = OPTIMIZERS["sgd"](network.parameters())
    for name, p in network.named_parameters():
        optimizer.state[p]["momentum_buffer"] = torch.tensor(
            arrays["optimizer.momentum_buffer." + name])

    x, targets = torch.tensor(golden["x"]).double(), torch.tensor(golden["targets"])
    losses = [networks.step(network, loss, optimizer, x, targets, 1)[1] for _ in range(2)]
    errors = [np.max(np.abs(losses - golden["losses.sgd"][3:]))]
    for name, value in networks.state(network).items():
        errors.append(np.max(np.abs(value - golden["sgd." + name])))
    network.eval()
    with torch.no_grad():
        outputs = network(torch.tensor(golden["eval.x"]).double()).numpy()
    errors.append(np.max(np.abs(outputs - golden["sgd.outputs"])))
    worst = np.max(errors)
    print(f"{path.name}: PyTorch goes on from it with differences of at most {worst:.1e}")
    assert worst < 1e-10


if __name__ == "__main__":
    check(pathlib.Path(sys.argv[1]) if sys.argv[1:] else DATA / "residual_checkpoint.safetensors")
