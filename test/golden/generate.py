#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/golden/*.safetensors, but gpt* and optimizers, with PyTorch, in double; or checks that they are
up to date.

    python3 generate.py         # writes the files
    python3 generate.py write NAME …    # writes some
    python3 generate.py check   # computes them again and compares; reads tandem's checkpoint

The committed files were written by torch 1.13.0a0 and numpy 1.24.2 (Debian 12: python3-torch), gated by
torch 2.15.0, on one thread. Another version may differ in the last digits, and in the initial values it draws.

A network's file holds, in double unless noted:
    <parameter>, <statistic>        initial values, all of them floats, none at its default
    x, targets                      a batch (float; int32 labels or float targets)
    train.outputs, train.loss       of the first step, in training mode
    gradient.<parameter>            of the first step
    terms.<parameter>               (float) sum of |terms| of that gradient's last contraction
    statistic.<statistic>           after the first step
    chain                           additions on the longest path there and back, for error bounds
    losses.<optimizer>              of five steps, each on the same batch
    sgd.<name>                      parameters and statistics after these five steps of sgd
    eval.x, eval.targets            other samples (float)
    eval.outputs, eval.loss         in evaluation mode, initial parameters
    sgd.outputs                     of eval.x in evaluation mode, after the five steps of sgd
    terms.outputs                   (float) sum of |terms| of the outputs eval.outputs
initial.safetensors holds quantiles of PyTorch's default initial values of some layers, losses.safetensors cross
entropies (losses.py; written by torch 2.15.0).

A model's file (models.py) holds its outputs in evaluation mode only: parameters, statistics and input come
from a formula that both sides evaluate.
    outputs, terms.outputs, chain   as eval.outputs and so on above
"""

import copy
import math
import sys

import numpy as np
import torch
from torch import nn

import losses
import models
import networks
from networks import DATA, NETWORKS, OPTIMIZERS

# file: network, samples in the batch, microbatches, seed
CASES = {"residual": ("residual", 6, 1, 1), "residual_2": ("residual", 7, 2, 2),
         "inception": ("inception", 6, 1, 3), "inception_2": ("inception", 5, 2, 4),
         "variety": ("variety", 6, 1, 15), "gated": ("gated", 5, 1, 16)}
STEPS = 5


def randomize(network, random):
    """PyTorch's default laws for weights; batch norms away from their defaults. All are floats."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            n = module.num_features
            module.weight.data = 0.5 + torch.rand(n, generator=random)
            module.bias.data = torch.rand(n, generator=random) - 0.5
            module.running_mean.copy_(0.3 * torch.randn(n, generator=random))
            module.running_var.copy_(0.5 + torch.rand(n, generator=random))
        elif isinstance(module, (nn.GroupNorm, nn.InstanceNorm2d)):
            if module.weight is not None:
                module.weight.data = 0.5 + torch.rand(module.weight.shape, generator=random)
                module.bias.data = torch.rand(module.bias.shape, generator=random) - 0.5
        elif isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            bound = 1 / math.sqrt(module.weight[0].numel())
            for p in module.parameters(recurse=False):
                p.data = bound * (2 * torch.rand(p.shape, generator=random) - 1)


class Terms:
    """Records what each layer sees in a step, for the sums of |terms| and the longest chain."""

    def __init__(self, network):
        self.sums, self.length = {}, {}
        for name, module in network.named_modules():
            if not list(module.children()):
                module.register_forward_hook(self.hook(name))

    def hook(self, name):
        def forward(module, inputs, y):
            x = inputs[0].detach()
            self.length[module] = self.additions(module, x)
            if y.requires_grad and any(p.requires_grad for p in module.parameters()):
                y.register_hook(lambda dy: self.add(name, module, x, dy))
        return forward

    @staticmethod
    def additions(module, x):
        """Of one element of the output and of one of the input's gradient."""
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            k = module.weight[0, 0].numel()
            return (module.in_channels + module.out_channels) // module.groups * k
        if isinstance(module, nn.Linear):
            return module.in_features + module.out_features
        if isinstance(module, nn.BatchNorm2d):
            return 4 * x[:, 0].numel() if module.training else 2  # two sums each way
        if isinstance(module, nn.GroupNorm):
            return 4 * x[0].numel() // module.num_groups
        if isinstance(module, nn.InstanceNorm2d):
            return 4 * x[0, 0].numel()
        if isinstance(module, nn.Upsample):
            return 4 + (2 * int(module.scale_factor)) ** 2
        if isinstance(module, networks.Pad):
            return 9
        if isinstance(module, networks.GlobalAvgPool):
            return x[0, 0].numel()
        if isinstance(module, (nn.MaxPool2d, nn.AvgPool2d)):
            k = module.kernel_size
            return k * k if isinstance(k, int) else k[0] * k[1]
        return 1

    def add(self, name, module, x, dy):
        parameters = {}
        if isinstance(module, nn.Conv2d):
            parameters["weight"] = nn.grad.conv2d_weight(
                x.abs(), module.weight.shape, dy.abs(), module.stride, module.padding,
                module.dilation, module.groups)
            parameters["bias"] = dy.abs().sum((0, 2, 3))
        elif isinstance(module, nn.ConvTranspose2d):
            parameters["weight"] = nn.grad.conv2d_weight(
                dy.abs(), module.weight.shape, x.abs(), module.stride, module.padding,
                module.dilation, module.groups)
            parameters["bias"] = dy.abs().sum((0, 2, 3))
        elif isinstance(module, (nn.GroupNorm, nn.InstanceNorm2d)):
            groups = getattr(module, "num_groups", x.shape[1])
            over = (0, *range(2, x.dim()))
            distance = nn.functional.group_norm(x, groups, eps=module.eps)
            parameters["weight"] = (distance * dy).abs().sum(over)
            parameters["bias"] = dy.abs().sum(over)
        elif isinstance(module, nn.Linear):
            parameters["weight"] = dy.abs().T @ x.abs()
            parameters["bias"] = dy.abs().sum(0)
        else:
            deviation = (x.var((0, 2, 3), unbiased=False) + module.eps).sqrt()
            distance = (x - x.mean((0, 2, 3), keepdim=True)) / deviation.view(1, -1, 1, 1)
            parameters["weight"] = (distance * dy).abs().sum((0, 2, 3))
            parameters["bias"] = dy.abs().sum((0, 2, 3))
        for own, sums in parameters.items():
            key = f"{name}.{own}"
            self.sums[key] = self.sums.get(key, 0) + sums

    def chain(self, part):
        if isinstance(part, networks.Multiply):
            return len(part) + max(self.chain(branch) for branch in part)
        if isinstance(part, networks.Concat):
            return max(self.chain(branch) for branch in part)
        if isinstance(part, networks.Residual):
            return 1 + max(self.chain(part.body), self.chain(part.shortcut))
        if isinstance(part, nn.Sequential):
            return sum(self.chain(child) for child in part)
        return self.length[part]


def gradients(network):
    return {name: p.grad.numpy().copy() for name, p in network.named_parameters() if p.requires_grad}


def compute(case):
    kind, samples, microbatches, seed = CASES[case]
    make, loss = NETWORKS[kind]
    random = torch.Generator().manual_seed(seed)
    network = make()
    randomize(network, random)
    single = copy.deepcopy(network)
    network.double()
    x = torch.randn(samples, 3, 8, 8, generator=random)
    targets = loss.targets(random, samples)
    eval_x = torch.randn(4, 3, 8, 8, generator=random)
    eval_targets = loss.targets(random, 4)
    file = networks.state(network)
    file.update({"x": x.numpy(), "targets": targets.numpy(), "eval.x": eval_x.numpy(),
                 "eval.targets": eval_targets.numpy()})

    def evaluate(model):
        model.eval()
        with torch.no_grad():
            return model(eval_x.double())

    outputs = evaluate(network)
    file["eval.outputs"] = outputs.numpy()
    file["eval.loss"] = np.array([loss.sum(outputs, eval_targets).item() / 4])

    first = copy.deepcopy(network)
    terms = Terms(first)
    last = {}
    first[-1].register_forward_hook(lambda module, inputs, y: last.update(x=inputs[0].detach()))
    with torch.no_grad():
        evaluate(first)
    sums = last["x"].abs() @ first[-1].weight.detach().abs().T
    if first[-1].bias is not None:
        sums = sums + first[-1].bias.detach().abs()
    outputs, total = networks.backward(first, loss, x.double(), targets, microbatches)
    file.update({"train.outputs": outputs.numpy(), "train.loss": np.array([total]),
                 "terms.outputs": sums.numpy().astype(np.float32)})
    chain = float(terms.chain(first))
    file["chain"] = np.array([chain])
    exact = gradients(first)
    for name, gradient in exact.items():
        file["gradient." + name] = gradient
        file["terms." + name] = terms.sums[name].numpy().astype(np.float32)
        assert np.all(file["terms." + name] > 0), f"{name}: a dead unit, take another seed"
    for name, value in networks.state(first).items():
        if "running" in name:
            file["statistic." + name] = value

    # PyTorch's own floats within the bound of the tests: else a ReLU or a max pool is at a tie.
    networks.backward(single, loss, x, targets, microbatches)
    error = np.max([np.max(np.abs(g - exact[name]) / file["terms." + name])
                    for name, g in gradients(single).items()])
    print(f"{case}: chain {chain:.0f}; PyTorch's floats are off by at most {error / 2**-23:.1f} "
          f"eps of the sums of |terms|")
    assert error < 8 * math.sqrt(chain) * 2**-23

    for name, optimizer in OPTIMIZERS.items():
        model = copy.deepcopy(network)
        trained = optimizer([p for p in model.parameters() if p.requires_grad])
        losses = [networks.step(model, loss, trained, x.double(), targets, microbatches)[1]
                  for _ in range(STEPS)]
        assert losses[-1] < losses[0] and np.all(np.isfinite(losses))
        file["losses." + name] = np.array(losses)
        if name == "sgd":
            file.update({"sgd." + key: value for key, value in networks.state(model).items()})
            file["sgd.outputs"] = evaluate(model).numpy()
    return file


def compute_model(name):
    make, shape, parameters = models.MODELS[name]
    network = make().double().eval()
    assert sum(p.numel() for p in network.parameters()) == parameters, name
    x = torch.from_numpy(models.formula("x", shape))
    terms = Terms(network)
    last = {}
    network[-1].register_forward_hook(lambda module, inputs, y: last.update(x=inputs[0]))
    with torch.no_grad():
        models.fill(network)
        outputs = network(x)
        sums = last["x"].abs() @ network[-1].weight.abs().T + network[-1].bias.abs()
    chain = float(terms.chain(network))
    print(f"{name}: chain {chain:.0f}; outputs spread by {(outputs / sums).std():.1e} of the sums of "
          f"|terms|")
    return {"outputs": outputs.numpy(), "terms.outputs": sums.numpy().astype(np.float32),
            "chain": np.array([chain])}


def initial():
    """Quantiles 0, 1/16, …, 1 of 30,000 or more of PyTorch's initial values of a parameter."""
    torch.manual_seed(7)
    layers = {"conv": lambda: nn.Conv2d(5, 7, (3, 2)), "grouped": lambda: nn.Conv2d(6, 4, 3, groups=2),
              "linear": lambda: nn.Linear(11, 4)}
    file = {}
    for name, make in layers.items():
        drawn = {"weight": [], "bias": []}
        for _ in range(8000):
            for own, p in make().named_parameters():
                drawn[own].append(p.detach().numpy().ravel().copy())
        for own, values in drawn.items():
            values = np.concatenate(values).astype(np.float64)
            file[f"{name}.{own}"] = np.quantile(values, np.arange(17) / 16)
    return file


def check(name, file, path):
    committed, _ = networks.read_safetensors(path)
    assert committed.keys() == file.keys(), path
    errors = []
    for key, value in file.items():
        scale = np.max(np.abs(file.get("terms." + key.replace("gradient.", ""), value)))
        errors.append(np.max(np.abs(committed[key] - value)) / max(scale, 1e-300))
    worst = np.max(errors)
    print(f"{name}: committed file differs by at most {worst:.1e}")
    assert worst < 1e-10, path


def main():
    torch.set_num_threads(1)
    checking = sys.argv[1:2] == ["check"]
    metadata = {"torch": torch.__version__, "numpy": np.__version__}
    files = {case: compute for case in CASES} | {model: compute_model for model in models.MODELS}
    alone = {"initial": initial, "losses": losses.losses}
    for name in sys.argv[2:] or [*files, *alone]:
        file = files[name](name) if name in files else alone[name]()
        path = DATA / f"{name}.safetensors"
        if checking:
            check(name, file, path)
        else:
            networks.write_safetensors(path, file, metadata)
    if checking:
        import read_checkpoint
        read_checkpoint.check(DATA / "residual_checkpoint.safetensors")


if __name__ == "__main__":
    main()
