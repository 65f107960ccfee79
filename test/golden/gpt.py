#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/golden/gpt*.safetensors with PyTorch, in double; or checks that they are up to date.

    python3 gpt.py          # writes the files
    python3 gpt.py check    # computes them again and compares

The committed files were written by torch 2.15.0 and numpy 2.4.6 (PyPI, CPU), on one thread.

Small language models, dropout off: token + position embedding, pre-norm blocks, final norm, head.
    gpt             nanoGPT's: LayerNorm, one Linear C -> 3C, erf GELU, head tied to wte and without bias
    gpt_lengths     the same, smaller, on samples of lengths 16, 11 and 5
    gpt_encoder     the same again, each row attends to all keys of its sample
    gpt_llama       RmsNorm, rotary positions (half rotated), 4 heads share 2 keys, an MLP with tanh GELU and
                    one with SwiGLU, head of its own with bias, label smoothing 0.1, some targets -1

Shapes: B samples, T positions, C channels, V tokens, D = C / heads. Linear weights are (out, in), as PyTorch
has them; Hugging Face's GPT-2 files have them transposed (gpt2_checkpoint.py). c_attn's rows are all heads of
the queries, then of the keys, then of the values; SwiGLU's c_fc has the rows of the gate, then those of what is
gated: silu(gate) * up. Query head h uses key head h * key heads / heads.

    transformer.…, lm_head.…    initial values (float), in the order of the network, under nanoGPT's names
    x, targets                  (int32, B x T); target -1: none
    lengths                     (int32, B)
    hidden.0, …, hidden.L       (B, T, C) what enters the first block, what leaves each block
    hidden                      (B, T, C) what enters the head
    logits                      (B, T, V)
    loss                        mean over the targets >= 0 of all samples
    gradient.<parameter>        of that loss; tied: the sum over both uses
    fp32.<parameter>            PyTorch's own largest error of that gradient in fp32, relative to its largest
    fp32.loss                   in fp32
    losses.adamw                of five steps on this batch, before each: AdamW of learning rate 0.01, betas
                                0.9 and 0.95, eps 1e-8, decay 0.1 on two axes or more; gradients times
                                min(1, 1 / norm); options rounded to float
    norms.adamw                 of the gradients of these steps, before clipping
    losses.adamw.torch_clip     the same with clip_grad_norm_: times min(1, 1 / (norm + 1e-6))
    losses.adamw.fp32           losses.adamw in fp32
    adamw.<parameter>           (gpt_lengths only) after the five steps
All in double but what is marked. Rows beyond a sample's length have tokens in x that must not matter, and zeros
in hidden and logits. The generator computes each sample alone, without padding, too, and with PyTorch's own
attention, and wants the same loss and gradients.

A bias of the keys has no influence: its gradient is rounding alone, and AdamW makes 1e-11 of that in five
steps, so that adamw.….c_attn.bias differs as much.
"""

import math

import numpy as np
import torch
from torch.nn import functional

from gpt_network import Gpt, forward
from networks import f32, write_or_check

STEPS = 5


def loss_sum(gpt, logits, targets):
    return functional.cross_entropy(logits.reshape(-1, gpt.vocabulary), targets.reshape(-1).long(),
                                    ignore_index=-1, reduction="sum", label_smoothing=gpt.smoothing)


def trainable(initial, dtype):
    return {name: value.to(dtype).clone().requires_grad_() for name, value in initial.items()}


def backward(gpt, p, batch, own=True):
    """Fills in the gradients; returns states, logits and loss."""
    states, logits = forward(gpt, p, batch["x"], batch["lengths"], own)
    loss = loss_sum(gpt, logits, batch["targets"]) / int((batch["targets"] >= 0).sum())
    loss.backward()
    return states, logits, loss.item()


def backward_alone(gpt, p, batch):
    """The same a sample at a time, without padding."""
    total, count = 0.0, int((batch["targets"] >= 0).sum())
    for x, targets, length in zip(batch["x"], batch["targets"], batch["lengths"]):
        _, logits = forward(gpt, p, x[None, :length], length[None])
        loss = loss_sum(gpt, logits, targets[:length]) / count
        loss.backward()
        total += loss.item()
    return total


def train(gpt, initial, batch, dtype=torch.float64, clip_offset=0.0):
    """Losses and norms of five steps, parameters after them."""
    p = trainable(initial, dtype)
    groups = [{"params": [v for v in p.values() if v.dim() >= 2], "weight_decay": f32(0.1)},
              {"params": [v for v in p.values() if v.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=f32(0.01), betas=(f32(0.9), f32(0.95)), eps=f32(1e-8))
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses.append(backward(gpt, p, batch)[2])
        norms.append(math.sqrt(sum(float((v.grad.double() ** 2).sum()) for v in p.values())))
        for value in p.values():
            value.grad *= min(1.0, 1.0 / (norms[-1] + clip_offset))
        optimizer.step()
    return np.array(losses), np.array(norms), {name: v.detach().numpy() for name, v in p.items()}


def relative(value, reference):
    value, reference = np.asarray(value, np.float64), np.asarray(reference, np.float64)
    return float(np.max(np.abs(value - reference)) / np.max(np.abs(reference)))


def draw(gpt, random, lengths, without_target):
    """A batch whose rows beyond the lengths hold tokens that must not matter."""
    shape = (len(lengths), gpt.time)
    lengths = torch.tensor(lengths, dtype=torch.int32)
    x = torch.randint(gpt.vocabulary, shape, generator=random, dtype=torch.int32)
    targets = torch.randint(gpt.vocabulary, shape, generator=random, dtype=torch.int32)
    targets[torch.arange(gpt.time) >= lengths[:, None]] = -1
    targets[torch.rand(shape, generator=random) < without_target] = -1
    return {"x": x, "targets": targets, "lengths": lengths}


# file: network, lengths, share of the targets that are -1, seed
SMALL = {"channels": 16, "heads": 2, "key_heads": 2}
CASES = {"gpt": (Gpt(), [16, 16, 16], 0.0, 1),
         "gpt_lengths": (Gpt(**SMALL), [16, 11, 5], 0.0, 2),
         "gpt_encoder": (Gpt(**SMALL, causal=False), [16, 11, 5], 0.0, 3),
         "gpt_llama": (Gpt(key_heads=2, mlps=("gelu_tanh", "swiglu"), norm="rms", rotary=True, tied=False,
                           smoothing=f32(0.1)), [16, 16, 16], 0.2, 4)}


def compute(case):
    gpt, lengths, without_target, seed = CASES[case]
    random = torch.Generator().manual_seed(seed)
    initial = gpt.initial(random)
    batch = draw(gpt, random, lengths, without_target)
    file = {name: value.numpy() for name, value in initial.items()}
    file.update({name: value.numpy() for name, value in batch.items()})

    p = trainable(initial, torch.float64)
    states, logits, loss = backward(gpt, p, batch)
    beyond = torch.arange(gpt.time) >= batch["lengths"][:, None]
    names = [*(f"hidden.{i}" for i in range(len(states) - 1)), "hidden", "logits"]
    for name, value in zip(names, [*states, logits]):
        file[name] = value.detach().masked_fill(beyond[..., None], 0.0).numpy()
    file["loss"] = np.array([loss])
    exact = {name: value.grad.numpy() for name, value in p.items()}

    # PyTorch's own attention, and each sample without padding, say the same.
    other, alone = trainable(initial, torch.float64), trainable(initial, torch.float64)
    differences = [abs(backward(gpt, other, batch, own=False)[2] - loss),
                   abs(backward_alone(gpt, alone, batch) - loss)]
    for name in exact:
        differences += [relative(q[name].grad, exact[name]) for q in (other, alone)]
    assert max(differences) < 1e-13, differences

    single = trainable(initial, torch.float32)
    file["fp32.loss"] = np.array([backward(gpt, single, batch)[2]])
    for name, gradient in exact.items():
        assert np.max(np.abs(gradient)) > 1e-3, f"{name}: next to no gradient, take another seed"
        file["gradient." + name] = gradient
        file["fp32." + name] = np.array([relative(single[name].grad, gradient)])
    errors = {name: file["fp32." + name][0] for name in exact}
    worst = max(errors, key=errors.get)

    losses, norms, trained = train(gpt, initial, batch)
    assert losses[-1] < losses[0] and max(norms) > 1.0, (losses, norms)
    file.update({"losses.adamw": losses, "norms.adamw": norms,
                 "losses.adamw.torch_clip": train(gpt, initial, batch, clip_offset=1e-6)[0],
                 "losses.adamw.fp32": train(gpt, initial, batch, torch.float32)[0]})
    if case == "gpt_lengths":
        file.update({"adamw." + name: value for name, value in trained.items()})

    turned = {name: value.flip(0) for name, value in batch.items()}  # another order of additions
    other_losses, _, other_trained = train(gpt, initial, turned)
    moved = {name: float(np.max(np.abs(other_trained[name] - trained[name]))) for name in trained}
    unsettled = max(moved, key=moved.get)
    print(f"{case}: {sum(v.numel() for v in initial.values())} parameters, losses {losses.round(4)}, norms "
          f"{norms.round(3)}; paddings and attentions differ by {max(differences):.0e}; gradients in fp32 by "
          f"{errors[worst]:.1e} ({worst}), losses in fp32 by {relative(file['losses.adamw.fp32'], losses):.1e}; "
          f"samples in reverse: losses {relative(other_losses, losses):.0e}, parameters "
          f"{moved[unsettled]:.0e} ({unsettled})")
    return file


def difference(committed, file):
    """What is in fp32 may differ by PyTorch's own errors there."""
    return max(relative(committed[key], value) for key, value in file.items()
               if "fp32" not in key and not key.startswith("adamw."))


if __name__ == "__main__":
    write_or_check(((name, compute(name)) for name in CASES), difference)
