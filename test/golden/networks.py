# SPDX-License-Identifier: Apache-2.0
"""The networks of test/unit/golden in PyTorch, and safetensors files without a package for them.

The modules nest as the types of the tests do, so that state_dict() gives tandem's parameter names.
"""

import json
import pathlib
import struct
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden"
DTYPES = {"F64": "<f8", "F32": "<f4", "I32": "<i4", "I64": "<i8"}


def write_safetensors(path, tensors, metadata):
    """An 8-byte length, a JSON header, then the arrays end to end."""
    names = {np.dtype(text): name for name, text in DTYPES.items()}
    header, data, at = {"__metadata__": metadata}, [], 0
    for name, array in tensors.items():
        array = np.asarray(array, order="C")
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        data.append(array.tobytes())
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def read_safetensors(path):
    """The arrays by name, and the metadata."""
    content = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    data = content[8 + length:]
    metadata = header.pop("__metadata__", {})
    arrays, covered = {}, 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
        covered += end - begin
    assert covered == len(data)
    return arrays, metadata


def largest_difference(committed, file):
    return max(float(np.max(np.abs(committed[key] - value))) for key, value in file.items())


def write_or_check(files, difference=largest_difference):
    """Writes each (name, arrays) of files; or, where the program's argument is `check`, compares: only rounding may
    differ. files is iterated, and so computed, on one thread."""
    torch.set_num_threads(1)
    metadata = {"torch": torch.__version__, "numpy": np.__version__}
    for name, file in files:
        path = DATA / f"{name}.safetensors"
        if sys.argv[1:2] != ["check"]:
            write_safetensors(path, file, metadata)
            continue
        committed, _ = read_safetensors(path)
        assert committed.keys() == file.keys(), path
        worst = difference(committed, file)
        print(f"{name}: committed file differs by at most {worst:.1e}")
        assert worst < 1e-12, path


def f32(value):
    """What tandem computes with: its options are floats, also where the network is in double."""
    return float(np.float32(value))


class Concat(nn.Sequential):
    def forward(self, x):
        return torch.cat([branch(x) for branch in self], dim=1)


class Multiply(nn.Sequential):
    def forward(self, x):
        product = 1
        for branch in self:
            product = product * branch(x)
        return product


class Residual(nn.Module):
    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body = body
        self.shortcut = shortcut or nn.Sequential()

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class Frozen(nn.Sequential):
    """Its parameters are constants, and its batch norms always use their running statistics."""

    def __init__(self, *parts):
        super().__init__(*parts)
        for parameter in self.parameters():
            parameter.requires_grad_(False)

    def train(self, mode=True):
        return super().train(False)


class Subsample(nn.Module):
    """Every step-th row and column, zeros for the added channels, half before and half after."""

    def __init__(self, out, step):
        super().__init__()
        self.out, self.step = out, step

    def forward(self, x):
        added = self.out - x.shape[1]
        return functional.pad(x[:, :, ::self.step, ::self.step],
                              (0, 0, 0, 0, added // 2, added - added // 2))


class Pad(nn.Module):
    def __init__(self, rows, columns, mode):
        super().__init__()
        self.sides, self.mode = (columns, columns, rows, rows), mode

    def forward(self, x):
        return functional.pad(x, self.sides, self.mode)


class GlobalAvgPool(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3))


def norm(channels, **options):
    return nn.BatchNorm2d(channels, **{"momentum": f32(0.1), **options})


def residual():
    """test/unit/golden/residual_test.cpp"""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), norm(4), nn.ReLU(),
        Residual(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), norm(4), nn.ReLU(),
                               nn.Conv2d(4, 4, 3, padding=1, bias=False), norm(4))),
        nn.ReLU(),
        Residual(nn.Sequential(nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), norm(6), nn.ReLU(),
                               nn.Conv2d(6, 6, 3, padding=1), norm(6)),
                 nn.Sequential(nn.Conv2d(4, 6, 1, stride=2, bias=False), norm(6))),
        nn.ReLU(), nn.MaxPool2d(2), GlobalAvgPool(), nn.Linear(6, 5))


def conv_norm_relu(channels, out, kernel=1):
    return nn.Sequential(nn.Conv2d(channels, out, kernel, padding=kernel // 2), norm(out), nn.ReLU())


def inception_block(channels, one, three_reduce, three, five_reduce, five, pool):
    return Concat(
        conv_norm_relu(channels, one),
        nn.Sequential(conv_norm_relu(channels, three_reduce), conv_norm_relu(three_reduce, three, 3)),
        nn.Sequential(conv_norm_relu(channels, five_reduce), conv_norm_relu(five_reduce, five, 3),
                      conv_norm_relu(five, five, 3)),
        nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), conv_norm_relu(channels, pool)))


def inception():
    """test/unit/golden/inception_test.cpp"""
    return nn.Sequential(conv_norm_relu(3, 4, 3), inception_block(4, 2, 2, 3, 2, 3, 2),
                         nn.MaxPool2d(3, stride=2, padding=1),
                         inception_block(10, 3, 2, 2, 2, 2, 2), GlobalAvgPool(), nn.Linear(9, 4))


def variety():
    """test/unit/golden/variety_test.cpp"""
    return nn.Sequential(
        nn.Conv2d(3, 6, (1, 3), padding=(0, 1), groups=3), nn.ReLU(),
        Frozen(nn.Conv2d(6, 6, 1), norm(6)),
        nn.AvgPool2d(3, stride=2, padding=1),
        Residual(nn.Sequential(nn.Conv2d(6, 9, (3, 1), stride=2, padding=(1, 0), groups=3, bias=False),
                               norm(9, eps=1e-3, momentum=f32(0.3))),
                 Subsample(9, 2)),
        nn.AvgPool2d((2, 3), stride=(1, 2), padding=1, count_include_pad=False),
        nn.Flatten(), nn.Linear(27, 4), nn.ReLU(), nn.Linear(4, 3, bias=False))


def gated():
    """test/unit/golden/variety_test.cpp"""
    return nn.Sequential(
        Pad(1, 1, "reflect"), nn.Conv2d(3, 8, 3, padding=2, dilation=2), nn.GroupNorm(2, 8), nn.ReLU(),
        nn.Conv2d(8, 6, 3, stride=2, padding=1, bias=False), nn.InstanceNorm2d(6),
        Multiply(nn.Conv2d(6, 6, 1), nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.Sigmoid()),
                 nn.Sequential()),
        nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        nn.GroupNorm(4, 4, eps=1e-3), nn.ReLU(), Pad(0, 1, "replicate"),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Conv2d(4, 5, (3, 2), stride=3, dilation=(1, 3)), nn.Upsample(scale_factor=2),
        Pad(1, 2, "circular"), nn.InstanceNorm2d(5, affine=True), nn.AvgPool2d(4), nn.Flatten(),
        nn.GroupNorm(5, 60), nn.Linear(60, 4))


class CrossEntropy:
    def __init__(self, classes, smoothing=0.0):
        self.classes, self.smoothing = classes, smoothing

    def targets(self, random, samples):
        return torch.randint(self.classes, (samples,), generator=random, dtype=torch.int32)

    def sum(self, outputs, targets):
        return functional.cross_entropy(outputs, targets.long(), reduction="sum",
                                        label_smoothing=self.smoothing)


class MeanSquaredError:
    def __init__(self, elements):
        self.elements = elements

    def targets(self, random, samples):
        return torch.randn(samples, self.elements, generator=random)

    def sum(self, outputs, targets):
        return functional.mse_loss(outputs, targets.to(outputs.dtype),
                                   reduction="sum") / self.elements


NETWORKS = {"residual": (residual, CrossEntropy(5)),
            "inception": (inception, CrossEntropy(4, smoothing=0.1)),
            "variety": (variety, MeanSquaredError(3)), "gated": (gated, CrossEntropy(4))}

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=f32(0.05), momentum=f32(0.9), weight_decay=f32(5e-4)),
    "nesterov": lambda p: torch.optim.SGD(p, lr=f32(0.05), momentum=f32(0.9), weight_decay=f32(5e-4),
                                          nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=f32(0.01), betas=(f32(0.9), f32(0.999)), eps=f32(1e-8),
                                       weight_decay=f32(5e-4)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=f32(0.01), betas=(f32(0.9), f32(0.999)), eps=f32(1e-8),
                                         weight_decay=f32(0.02)),
}


def trained_norms(network):
    return [m for m in network.modules() if isinstance(m, nn.BatchNorm2d) and m.weight.requires_grad]


def parts(samples, microbatches):
    """tandem's microbatches: number i begins at sample i samples / microbatches, rounded up."""
    begins = [-(-i * samples // microbatches) for i in range(microbatches + 1)]
    return [slice(begin, end) for begin, end in zip(begins, begins[1:])]


def backward(network, loss, x, targets, microbatches):
    """Gradients and running statistics of one step; returns outputs and loss.

    One microbatch leaves the running statistics to PyTorch. With more, they move once, towards the
    average over the microbatches, each weighted by its samples.
    """
    network.train()
    norms = trained_norms(network)
    before = [(n.running_mean.clone(), n.running_var.clone(), n.momentum) for n in norms]
    averages = [[0.0, 0.0] for _ in norms]
    outputs, total = [], 0.0
    for part in parts(len(x), microbatches):
        if microbatches > 1:
            for n in norms:
                n.momentum = 1.0  # running statistics become those of the microbatch
        y = network(x[part])
        part_loss = loss.sum(y, targets[part]) / len(x)
        part_loss.backward()
        outputs.append(y.detach())
        total += part_loss.item()
        for n, average in zip(norms, averages):
            average[0] += n.running_mean * (len(y) / len(x))
            average[1] += n.running_var * (len(y) / len(x))
    if microbatches > 1:
        for n, (mean, variance, rate), average in zip(norms, before, averages):
            n.momentum = rate
            n.running_mean.copy_((1 - rate) * mean + rate * average[0])
            n.running_var.copy_((1 - rate) * variance + rate * average[1])
    return torch.cat(outputs), total


def step(network, loss, optimizer, x, targets, microbatches):
    optimizer.zero_grad()
    outputs, total = backward(network, loss, x, targets, microbatches)
    optimizer.step()
    return outputs, total


def state(network):
    """Parameters and statistics under tandem's names, as arrays."""
    return {name: value.detach().numpy().copy() for name, value in network.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def load(network, arrays):
    """Sets parameters and statistics; every name must be there, in the right shape."""
    own = {name: torch.tensor(arrays[name]) for name in state(network)}
    missing, unexpected = network.load_state_dict(own, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing)
