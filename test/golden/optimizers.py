#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/golden/optimizers.safetensors, in double; or checks that it is up to date.

    python3 optimizers.py          # writes the file
    python3 optimizers.py check    # computes it again and compares

The committed file was written by torch 2.15.0 and numpy 2.4.6 (PyPI, CPU), on one thread.

Two parameters, `a` (5, 7) and `b` (4), meet six gradients each:
    a, b                        before the first step (float)
    gradient.a, gradient.b      (6, ...) (float)
    <case>.a, <case>.b          after each step, (6, ...)
    <case>.<state>.a, ...       the optimizer's states after the last one, under PyTorch's names
Cases of RMSprop, Adagrad and of clipping by value are PyTorch's own. PyTorch has no Lion and no Lamb: these are
written here from the equations of their papers, a number at a time.
"""

import math
import sys

import numpy as np
import torch

from networks import DATA, f32, read_safetensors, write_safetensors

STEPS = 6
PATH = DATA / "optimizers.safetensors"


def by_torch(make, start, gradients, clip=lambda p: None):
    """make(parameters) is an optimizer; clip(parameters) changes their gradients before each step."""
    parameters = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    optimizer = make(list(parameters.values()))
    run = {name: [] for name in start}
    for step in range(STEPS):
        for name, p in parameters.items():
            p.grad = gradients[name][step].clone()
        clip(parameters.values())
        optimizer.step()
        for name, p in parameters.items():
            run[name].append(p.detach().numpy().copy())
    found = {name: np.stack(values) for name, values in run.items()}
    for name, p in parameters.items():
        for state, value in optimizer.state[p].items():
            if state != "step" and value is not None:
                found[f"{state}.{name}"] = value.numpy()
    return found


def by_equations(update, states, start, gradients):
    """update(p, g, states, t) gives p after step t, counted from 1; all are lists of a whole parameter's numbers."""
    found = {}
    for name, value in start.items():
        p = value.flatten().tolist()
        own = {state: [0.0] * len(p) for state in states}
        after = []
        for step in range(STEPS):
            p = update(p, gradients[name][step].flatten().tolist(), own, step + 1)
            after.append(np.array(p).reshape(value.shape))
        found[name] = np.stack(after)
        for state in states:
            found[f"{state}.{name}"] = np.array(own[state]).reshape(value.shape)
    return found


def lion(rate, beta1, beta2, decay):
    """Chen et al., arXiv:2302.06675, algorithm 2."""
    def update(theta, g, state, _):
        m = state["exp_avg"]
        for i, own in enumerate(theta):
            c = beta1 * m[i] + (1 - beta1) * g[i]
            sign = 1.0 if c > 0 else -1.0 if c < 0 else 0.0
            theta[i] = own - rate * (sign + decay * own)
            m[i] = beta2 * m[i] + (1 - beta2) * g[i]
        return theta
    return update


def lamb(rate, beta1, beta2, epsilon, decay):
    """You et al., arXiv:1904.00962, algorithm 2, with phi(z) = z; a ratio with a norm of 0 is 1."""
    def update(x, g, state, t):
        m, v = state["exp_avg"], state["exp_avg_sq"]
        u = []
        for i, own in enumerate(x):
            m[i] = beta1 * m[i] + (1 - beta1) * g[i]
            v[i] = beta2 * v[i] + (1 - beta2) * g[i] ** 2
            r = m[i] / (1 - beta1 ** t) / (math.sqrt(v[i] / (1 - beta2 ** t)) + epsilon)
            u.append(r + decay * own)
        norm_x, norm_u = (math.sqrt(math.fsum(n * n for n in of)) for of in (x, u))
        ratio = norm_x / norm_u if norm_x > 0 and norm_u > 0 else 1.0
        return [own - rate * ratio * step for own, step in zip(x, u)]
    return update


def clip_norm_and_value(parameters):
    """As tandem: times largest / norm, without PyTorch's 1e-6."""
    parameters = list(parameters)
    norm = math.sqrt(math.fsum(float((p.grad ** 2).sum()) for p in parameters))
    for p in parameters:
        p.grad *= min(1.0, f32(2.0) / norm)
    torch.nn.utils.clip_grad_value_(parameters, f32(0.25))


def compute():
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(17)
    shapes = {"a": (5, 7), "b": (4,)}
    start = {name: torch.randn(shape, generator=random).double() for name, shape in shapes.items()}
    gradients = {name: torch.randn((STEPS, *shape), generator=random).double() for name, shape in shapes.items()}
    start["b"][2:] = 0.0
    gradients["b"][:2] = 0.0  # Lion's sign of 0; Adagrad's root of its beginning
    optim = torch.optim
    runs = {
        "rmsprop": by_torch(lambda p: optim.RMSprop(p, lr=f32(0.01), alpha=f32(0.99), eps=f32(1e-8)), start, gradients),
        "rmsprop_momentum": by_torch(lambda p: optim.RMSprop(p, lr=f32(0.02), alpha=f32(0.9), eps=f32(1e-3),
                                                             weight_decay=f32(0.1), momentum=f32(0.8)),
                                     start, gradients),
        "rmsprop_centered": by_torch(lambda p: optim.RMSprop(p, lr=f32(0.02), alpha=f32(0.9), eps=f32(1e-3),
                                                             momentum=f32(0.8), centered=True), start, gradients),
        "adagrad": by_torch(lambda p: optim.Adagrad(p, lr=f32(0.1), eps=f32(1e-10)), start, gradients),
        "adagrad_decay": by_torch(lambda p: optim.Adagrad(p, lr=f32(0.1), lr_decay=f32(0.25), weight_decay=f32(0.1),
                                                          initial_accumulator_value=f32(0.5), eps=f32(1e-3)),
                                  start, gradients),
        "clip_value": by_torch(lambda p: optim.SGD(p, lr=f32(0.1), momentum=f32(0.9)), start, gradients,
                               lambda p: torch.nn.utils.clip_grad_value_(p, f32(0.5))),
        "clip_both": by_torch(lambda p: optim.SGD(p, lr=f32(0.1), momentum=f32(0.9)), start, gradients,
                              clip_norm_and_value),
        "lion": by_equations(lion(f32(0.01), f32(0.9), f32(0.99), f32(0.1)), ["exp_avg"], start, gradients),
        "lamb": by_equations(lamb(f32(0.01), f32(0.9), f32(0.999), f32(1e-6), f32(0.01)), ["exp_avg", "exp_avg_sq"],
                             start, gradients),
    }
    tensors = {name: value.float().numpy() for name, value in start.items()}
    tensors |= {f"gradient.{name}": value.float().numpy() for name, value in gradients.items()}
    for case, run in runs.items():
        tensors |= {f"{case}.{name}": value for name, value in run.items()}
    return tensors


def main():
    tensors = compute()
    if sys.argv[1:] != ["check"]:
        write_safetensors(PATH, tensors, {"torch": torch.__version__.split("+")[0]})
        return 0
    committed, _ = read_safetensors(PATH)
    assert committed.keys() == tensors.keys(), committed.keys() ^ tensors.keys()
    for name, value in tensors.items():
        error = float(np.max(np.abs(value - committed[name])))
        assert error <= 1e-14, f"{name} is off by {error}"
    print(f"{PATH.name} is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
