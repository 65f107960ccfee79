# SPDX-License-Identifier: Apache-2.0
"""The networks of include/tandem/models in PyTorch, and parameters that need no file.

The modules nest as the types do, so that state_dict() gives tandem's parameter names.
"""

import math

import numpy as np
import torch
from torch import nn

from networks import Concat, GlobalAvgPool, Residual, state


def mixed(x):
    """MurmurHash3's finalizer: 32 bits in, 32 well mixed bits out."""
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return x


def uniform(name, count):
    """Numbers in [0, 1) that depend on the name and the place only; test/unit/golden/formula.hpp."""
    offset = 0x811C9DC5  # FNV-1a
    for character in name.encode():
        offset = (offset ^ character) * 0x01000193 % 2**32
    words = mixed(np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(offset))
    return (words >> np.uint32(8)) * 2.0**-24


def formula(name, shape):
    """The values of a parameter, a statistic or the input "x".

    Weights as He et al. have them, so that outputs neither vanish nor explode; batch norms away from
    their defaults.
    """
    u = uniform(name, math.prod(shape)).reshape(shape)
    if name == "x":
        return 4.0 * u - 2.0
    if name.endswith("running_var") or (name.endswith("weight") and len(shape) == 1):
        return u + 0.5
    if name.endswith("weight"):
        return (2.0 * u - 1.0) * math.sqrt(6.0 / math.prod(shape[1:]))
    return u - 0.5


def fill(network):
    for name in state(network):
        tensor = network.state_dict()[name]
        tensor.copy_(torch.from_numpy(formula(name, tuple(tensor.shape))))


def vgg(norm):
    """Configuration D of the paper: the thirteen convolutions and five pools."""
    parts, channels = [], 3
    for width in (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"):
        if width == "M":
            parts.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        conv = nn.Conv2d(channels, width, kernel_size=3, padding=1)
        parts.append(nn.Sequential(conv, *([nn.BatchNorm2d(width)] if norm else []), nn.ReLU()))
        channels = width
    return parts


def vgg16_bn():
    return nn.Sequential(*vgg(norm=True), nn.Flatten(), nn.Linear(512, 10))


def vgg16():
    return nn.Sequential(*vgg(norm=False), nn.Flatten(), nn.Linear(512 * 7 * 7, 4096), nn.ReLU(),
                         nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
                         nn.Linear(4096, 1000))


def bottleneck(channels, width, stride):
    """Stride in the 3x3 convolution; a projection where the shape changes."""
    out = 4 * width
    body = nn.Sequential(
        nn.Conv2d(channels, width, kernel_size=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, width, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, out, kernel_size=1, bias=False), nn.BatchNorm2d(out))
    shortcut = None
    if stride != 1 or channels != out:
        shortcut = nn.Sequential(nn.Conv2d(channels, out, kernel_size=1, stride=stride, bias=False),
                                 nn.BatchNorm2d(out))
    return nn.Sequential(Residual(body, shortcut), nn.ReLU())


def resnet50():
    parts = [nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64),
             nn.ReLU(), nn.MaxPool2d(kernel_size=3, stride=2, padding=1)]
    channels = 64
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            parts.append(bottleneck(channels, width, first_stride if block == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*parts, GlobalAvgPool(), nn.Linear(2048, 1000))


def conv(channels, out, **options):
    """torchvision's BasicConv2d."""
    return nn.Sequential(nn.Conv2d(channels, out, bias=False, **options),
                         nn.BatchNorm2d(out, eps=0.001), nn.ReLU())


def pool_branch(channels, out):
    return nn.Sequential(nn.AvgPool2d(kernel_size=3, stride=1, padding=1, count_include_pad=True),
                         conv(channels, out, kernel_size=1))


def block_a(channels, pool):
    return Concat(
        conv(channels, 64, kernel_size=1),
        nn.Sequential(conv(channels, 48, kernel_size=1), conv(48, 64, kernel_size=5, padding=2)),
        nn.Sequential(conv(channels, 64, kernel_size=1), conv(64, 96, kernel_size=3, padding=1),
                      conv(96, 96, kernel_size=3, padding=1)),
        pool_branch(channels, pool))


def block_b(channels):
    return Concat(
        conv(channels, 384, kernel_size=3, stride=2),
        nn.Sequential(conv(channels, 64, kernel_size=1), conv(64, 96, kernel_size=3, padding=1),
                      conv(96, 96, kernel_size=3, stride=2)),
        nn.MaxPool2d(kernel_size=3, stride=2))


def block_c(channels, c7):
    return Concat(
        conv(channels, 192, kernel_size=1),
        nn.Sequential(conv(channels, c7, kernel_size=1),
                      conv(c7, c7, kernel_size=(1, 7), padding=(0, 3)),
                      conv(c7, 192, kernel_size=(7, 1), padding=(3, 0))),
        nn.Sequential(conv(channels, c7, kernel_size=1),
                      conv(c7, c7, kernel_size=(7, 1), padding=(3, 0)),
                      conv(c7, c7, kernel_size=(1, 7), padding=(0, 3)),
                      conv(c7, c7, kernel_size=(7, 1), padding=(3, 0)),
                      conv(c7, 192, kernel_size=(1, 7), padding=(0, 3))),
        pool_branch(channels, 192))


def block_d(channels):
    return Concat(
        nn.Sequential(conv(channels, 192, kernel_size=1), conv(192, 320, kernel_size=3, stride=2)),
        nn.Sequential(conv(channels, 192, kernel_size=1),
                      conv(192, 192, kernel_size=(1, 7), padding=(0, 3)),
                      conv(192, 192, kernel_size=(7, 1), padding=(3, 0)),
                      conv(192, 192, kernel_size=3, stride=2)),
        nn.MaxPool2d(kernel_size=3, stride=2))


def block_e(channels):
    def spread(inner):
        return Concat(conv(inner, 384, kernel_size=(1, 3), padding=(0, 1)),
                      conv(inner, 384, kernel_size=(3, 1), padding=(1, 0)))

    return Concat(
        conv(channels, 320, kernel_size=1),
        nn.Sequential(conv(channels, 384, kernel_size=1), spread(384)),
        nn.Sequential(conv(channels, 448, kernel_size=1), conv(448, 384, kernel_size=3, padding=1),
                      spread(384)),
        pool_branch(channels, 192))


def inception_v3():
    return nn.Sequential(
        conv(3, 32, kernel_size=3, stride=2), conv(32, 32, kernel_size=3),
        conv(32, 64, kernel_size=3, padding=1), nn.MaxPool2d(kernel_size=3, stride=2),
        conv(64, 80, kernel_size=1), conv(80, 192, kernel_size=3), nn.MaxPool2d(kernel_size=3, stride=2),
        block_a(192, 32), block_a(256, 64), block_a(288, 64), block_b(288),
        block_c(768, 128), block_c(768, 160), block_c(768, 160), block_c(768, 192), block_d(768),
        block_e(1280), block_e(2048), GlobalAvgPool(), nn.Dropout(), nn.Linear(2048, 1000))


# file: network, shape of the input with its samples, parameters as published
MODELS = {"vgg16_bn": (vgg16_bn, (4, 3, 32, 32), 14_728_266),
          "vgg16": (vgg16, (1, 3, 224, 224), 138_357_544),
          "resnet50": (resnet50, (1, 3, 224, 224), 25_557_032),
          "inception_v3": (inception_v3, (1, 3, 299, 299), 23_834_568)}
