# SPDX-License-Identifier: Apache-2.0
"""The networks of bench_parity written in PyTorch: parity.py compares the two.

Parts are nested as in tandem's types, so that parameters have the same names. tandem's rates are floats,
also where all else is double: hence the momentum of batch norms.
"""

import numpy
import torch
from torch import nn
from torch.nn import functional

TENTH = float(numpy.float32(0.1))


class Concat(nn.ModuleList):
    def forward(self, x):
        return torch.cat([branch(x) for branch in self], 1)


class Residual(nn.Module):
    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body = body
        self.shortcut = shortcut if shortcut is not None else nn.Identity()

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class GlobalAvgPool(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


class Subsample(nn.Module):
    """Every step-th pixel; half of the new channels before the old ones, half behind."""

    def __init__(self, outputs, step):
        super().__init__()
        self.outputs, self.step = outputs, step

    def forward(self, x):
        more = self.outputs - x.shape[1]
        return functional.pad(x[:, :, ::self.step, ::self.step], (0, 0, 0, 0, more // 2, more - more // 2))


def philox(key, counter):
    """Philox4x32-10: key of two words, counter (…, 4), all below 2^32 in int64."""
    low = 0xFFFFFFFF

    def product(a, b):
        high = ((a >> 16) * b + ((a & 0xFFFF) * b >> 16)) >> 16
        return high, ((((a >> 16) * b) & 0xFFFF) << 16) + (a & 0xFFFF) * b & low

    c = list(counter.unbind(-1))
    k0, k1 = key
    for _ in range(10):
        (a_high, a_low), (b_high, b_low) = product(0xD2511F53, c[0]), product(0xCD9E8D57, c[2])
        c = [b_high ^ c[1] ^ k0, b_low, a_high ^ c[3] ^ k1, a_low]
        k0, k1 = k0 + 0x9E3779B9 & low, k1 + 0xBB67AE85 & low
    return torch.stack(c, -1)


class Dropout(nn.Module):
    """With tandem's masks: of seed 0, by step, place in the network, sample and element."""

    def __init__(self, rate=0.5):
        super().__init__()
        self.rate, self.step, self.place = rate, 0, None

    def forward(self, x):
        if not self.training:
            return x
        each = x[0].numel()
        counter = torch.empty(x.shape[0], (each + 3) // 4, 4, dtype=torch.int64)
        counter[..., 0], counter[..., 1] = self.place, self.step
        counter[..., 2] = torch.arange(counter.shape[1])
        counter[..., 3] = torch.arange(x.shape[0])[:, None]
        words = philox((2 << 24, 0), counter).reshape(x.shape[0], -1)[:, :each].reshape(x.shape)
        rate = float(numpy.float32(self.rate))
        return x * ((words >> 8).double() / 2**24 >= rate) / (1 - rate)


class Halves(nn.Module):
    """What SingleDevice<Microbatches<2>> means by a batch norm: the halves of a batch have statistics of their
    own, and the running ones move once, towards their mean."""

    def __init__(self, channels):
        super().__init__()
        for name, value in [("weight", 1.0), ("bias", 0.0)]:
            setattr(self, name, nn.Parameter(torch.full((channels,), value)))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        if not self.training:
            return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias)
        halves = x.chunk(2)
        with torch.no_grad():
            self.running_mean.lerp_(sum(half.mean((0, 2, 3)) for half in halves) / 2, TENTH)
            self.running_var.lerp_(sum(half.var((0, 2, 3)) for half in halves) / 2, TENTH)
        return torch.cat([functional.batch_norm(h, None, None, self.weight, self.bias, training=True) for h in halves])


def seq(*parts):
    return nn.Sequential(*parts)


def conv(inputs, outputs, kernel=1, stride=1, padding=0, **options):
    return nn.Conv2d(inputs, outputs, kernel, stride, padding, **options)


def norm(channels, momentum=TENTH, **options):
    return nn.BatchNorm2d(channels, momentum=momentum, **options)


def relu():
    return nn.ReLU()


# Networks of bench/peers/parity.


def layers():
    return seq(
        conv(3, 16, (3, 2), (2, 1), (1, 0)), relu(),
        conv(16, 16, 3, padding=1, groups=2, bias=False), norm(16, 0.25, eps=1e-3), relu(),
        Concat([seq(conv(16, 8), norm(8), relu()),
                seq(conv(16, 8), relu(), conv(8, 16, 3, padding=1)),
                seq(nn.MaxPool2d(3, 1, 1), conv(16, 4)),
                nn.AvgPool2d(3, 1, 1)]),
        Residual(seq(norm(44), relu(), conv(44, 44, 3, padding=1))),
        Residual(conv(44, 48, 3, 2, 1), Subsample(48, 2)),
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        Residual(conv(48, 20, bias=False), conv(48, 20, 3, padding=1)),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(40, 24), relu(), nn.Linear(24, 7, bias=False))


def regression():
    return seq(conv(4, 16, 5, padding=2), relu(), GlobalAvgPool(), nn.Linear(16, 5))


def dropout():
    return seq(conv(2, 8, 3), Dropout(0.2), relu(), nn.Flatten(), nn.Linear(96, 17), Dropout(), relu(), Dropout(0.3),
               nn.Linear(17, 4))


class Fixed(nn.Sequential):
    """Parts 1 and 3 are frozen: constants, and their batch norms use the running statistics."""

    def train(self, mode=True):
        super().train(mode)
        for part in (self[1], self[3]):
            part.requires_grad_(False).eval()
        return self


def frozen():
    return Fixed(conv(2, 8, 3), norm(8), relu(), seq(conv(8, 8, 3), norm(8), relu()), conv(8, 8, 3), norm(8),
                 GlobalAvgPool(), nn.Linear(8, 4))


def normed(of):
    return lambda: seq(conv(2, 8, 3), of(8), relu(), GlobalAvgPool(), nn.Linear(8, 4))


# The library's models.


def small_cnn():
    parts, inputs = [], 1
    for outputs, pool in [(16, True), (32, True), (48, False)]:
        parts += [conv(inputs, outputs, 3, padding=1, bias=False), norm(outputs), relu()]
        parts += [nn.MaxPool2d(2)] if pool else []
        inputs = outputs
    return seq(*parts, nn.Flatten(), nn.Linear(48 * 49, 10))


def conv_norm_relu(inputs, outputs, kernel=1, **options):
    return seq(conv(inputs, outputs, kernel, padding=kernel // 2, **options), norm(outputs), relu())


def googlenet():
    parts, channels = [conv_norm_relu(3, 192, 3)], 192
    for widths in [(64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None, (192, 96, 208, 16, 48, 64),
                   (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
                   (256, 160, 320, 32, 128, 128), None, (256, 160, 320, 32, 128, 128),
                   (384, 192, 384, 48, 128, 128)]:
        if widths is None:
            parts.append(nn.MaxPool2d(3, 2, 1))
            continue
        one, three_reduce, three, five_reduce, five, pool = widths
        parts.append(Concat([
            conv_norm_relu(channels, one),
            seq(conv_norm_relu(channels, three_reduce), conv_norm_relu(three_reduce, three, 3)),
            seq(conv_norm_relu(channels, five_reduce), conv_norm_relu(five_reduce, five, 3),
                conv_norm_relu(five, five, 3)),
            seq(nn.MaxPool2d(3, 1, 1), conv_norm_relu(channels, pool))]))
        channels = one + three + five + pool
    return seq(*parts, GlobalAvgPool(), nn.Linear(channels, 10))


VGG = [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]


def vgg16_bn():
    parts, inputs = [], 3
    for outputs, times in VGG:
        for _ in range(times):
            parts.append(conv_norm_relu(inputs, outputs, 3))
            inputs = outputs
        parts.append(nn.MaxPool2d(2))
    return seq(*parts, nn.Flatten(), nn.Linear(512, 10))


def vgg16():
    parts, inputs = [], 3
    for outputs, times in VGG:
        for _ in range(times):
            parts.append(seq(conv(inputs, outputs, 3, padding=1), relu()))
            inputs = outputs
        parts.append(nn.MaxPool2d(2))
    return seq(*parts, nn.Flatten(), nn.Linear(512, 4096), relu(), Dropout(), nn.Linear(4096, 4096), relu(), Dropout(),
               nn.Linear(4096, 10))


def projection(inputs, outputs, step):
    return seq(conv(inputs, outputs, 1, step, bias=False), norm(outputs))


def basic_block(inputs, outputs, step, shortcut):
    body = seq(conv(inputs, outputs, 3, step, 1, bias=False), norm(outputs), relu(),
               conv(outputs, outputs, 3, 1, 1, bias=False), norm(outputs))
    return seq(Residual(body, shortcut(inputs, outputs, step) if inputs != outputs else None), relu())


def resnet_cifar(widths, blocks, shortcut):
    parts, inputs = [conv(3, widths[0], 3, padding=1, bias=False), norm(widths[0]), relu()], widths[0]
    for outputs in widths:
        for block in range(blocks):
            parts.append(basic_block(inputs, outputs, 2 if inputs != outputs else 1, shortcut))
            inputs = outputs
    return seq(*parts, GlobalAvgPool(), nn.Linear(inputs, 10))


def resnet50():
    parts, inputs = [conv(3, 64, 7, 2, 3, bias=False), norm(64), relu(), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks in [(64, 3), (128, 4), (256, 6), (512, 3)]:
        for block in range(blocks):
            step = 2 if block == 0 and width > 64 else 1
            body = seq(conv(inputs, width, bias=False), norm(width), relu(),
                       conv(width, width, 3, step, 1, bias=False), norm(width), relu(),
                       conv(width, 4 * width, bias=False), norm(4 * width))
            parts.append(seq(Residual(body, projection(inputs, 4 * width, step) if block == 0 else None), relu()))
            inputs = 4 * width
    return seq(*parts, GlobalAvgPool(), nn.Linear(inputs, 10))


def inception_v3():
    def cnr(inputs, outputs, kernel=(1, 1), stride=1, padding=None):
        kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        same = (kernel[0] // 2, kernel[1] // 2) if padding is None else padding
        return seq(conv(inputs, outputs, kernel, stride, same, bias=False), norm(outputs, eps=1e-3), relu())

    def chain(inputs, *steps):
        parts = []
        for outputs, kernel in steps:
            parts.append(cnr(inputs, outputs, 3, 2, 0) if kernel == "halve" else cnr(inputs, outputs, kernel))
            inputs = outputs
        return seq(*parts)

    def pool(inputs, outputs):
        return seq(nn.AvgPool2d(3, 1, 1), cnr(inputs, outputs))

    def spread(inputs):
        return Concat([cnr(inputs, 384, (1, 3)), cnr(inputs, 384, (3, 1))])

    wide, tall = (1, 7), (7, 1)
    parts = [cnr(3, 32, 3, 2, 0), cnr(32, 32, 3, 1, 0), cnr(32, 64, 3), nn.MaxPool2d(3, 2), cnr(64, 80),
             cnr(80, 192, 3, 1, 0), nn.MaxPool2d(3, 2)]
    for inputs, last in [(192, 32), (256, 64), (288, 64)]:
        parts.append(Concat([cnr(inputs, 64), chain(inputs, (48, 1), (64, 5)),
                             chain(inputs, (64, 1), (96, 3), (96, 3)), pool(inputs, last)]))
    parts.append(Concat([cnr(288, 384, 3, 2, 0), chain(288, (64, 1), (96, 3), (96, "halve")), nn.MaxPool2d(3, 2)]))
    for width in (128, 160, 160, 192):
        parts.append(Concat([cnr(768, 192), chain(768, (width, 1), (width, wide), (192, tall)),
                             chain(768, (width, 1), (width, tall), (width, wide), (width, tall), (192, wide)),
                             pool(768, 192)]))
    parts.append(Concat([chain(768, (192, 1), (320, "halve")),
                         chain(768, (192, 1), (192, wide), (192, tall), (192, "halve")), nn.MaxPool2d(3, 2)]))
    for inputs in (1280, 2048):
        parts.append(Concat([cnr(inputs, 320), seq(cnr(inputs, 384), spread(384)),
                             seq(cnr(inputs, 448), cnr(448, 384, 3), spread(384)), pool(inputs, 192)]))
    return seq(*parts, GlobalAvgPool(), Dropout(), nn.Linear(2048, 10))


NETWORKS = {
    "layers": layers,
    "smoothed": regression,
    "regression": regression,
    "dropout": dropout,
    "frozen": frozen,
    "synchronized": normed(norm),
    "microbatches": normed(Halves),
    "small_cnn": small_cnn,
    "googlenet": googlenet,
    "vgg16_bn": vgg16_bn,
    "resnet20": lambda: resnet_cifar((16, 32, 64), 3, lambda inputs, outputs, step: Subsample(outputs, step)),
    "resnet18": lambda: resnet_cifar((64, 128, 256, 512), 2, projection),
    "vgg16": vgg16,
    "resnet50": resnet50,
    "inception_v3": inception_v3,
}
