#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nanoGPT's recipe for a CPU on the characters of the King James Bible, in PyTorch: what tandem's has to reach.

    pytorch_king_james.py [--seed 1337] [--bias] [--steps 2000] [--threads 1] [--folder MODULE] [--text FILE]
                          [--save MODEL.safetensors]

4 layers, 4 heads, 128 channels, 64 characters, batch 12, 2,000 steps; AdamW with betas 0.9 and 0.99 and decay
0.1 on two axes or more; learning rate to 0.001 over 100 steps, then to 0.0001 in half a cosine; gradients clipped
at norm 1; no dropout. nanoGPT has no biases here, GPT-2 has (--bias). Every 250 steps it prints the mean loss of
20 batches of the first nine tenths of the text and of 20 of the last; at the end that of the whole last tenth,
window after window. 3 minutes.

The text is Debian's sword-text-kjv, a verse a line, without mark-up; --text writes it to a file. --save writes
the trained model under nanoGPT's names, for test/golden/perplexity.py; that needs the package safetensors.
"""

import argparse
import html
import math
import pathlib
import re
import struct
import time
import zlib

import torch

from pytorch_gpt import SIZES, Gpt, adamw

MODULE = pathlib.Path("/usr/share/sword/modules/texts/ztext/engKJV2006eb")


def verses(folder):
    """The entries of a SWORD module of driver zText: blocks of zlib, and where in them an entry is."""
    for testament in ("ot", "nt"):
        blocks, entries, packed = ((folder / f"{testament}.bz{kind}").read_bytes() for kind in "svz")
        books = [zlib.decompress(packed[at:at + size]) for at, size, _ in struct.iter_unpack("<III", blocks)]
        for book, at, size in struct.iter_unpack("<IIH", entries):
            yield books[book][at:at + size].decode() if size else ""


def king_james(folder=MODULE):
    lines = []
    for verse in verses(folder):
        verse = re.sub(r"<(note|title)\b.*?</\1>", "", verse, flags=re.DOTALL)
        verse = html.unescape(re.sub(r"<[^>]*>", "", verse)).replace("\N{PILCROW SIGN}", "")
        lines.append(" ".join(verse.split()))
    return "".join(line + "\n" for line in lines if line)


def tokens_of(text):
    """Each character's place among those of the text, in the order of their code points."""
    characters = sorted(set(text))
    place = {character: i for i, character in enumerate(characters)}
    return characters, torch.tensor([place[character] for character in text])


def draw(data, size, batch, random):
    begins = torch.randint(len(data) - size.time, (batch,), generator=random)
    rows = begins[:, None] + torch.arange(size.time)
    return data[rows], data[rows + 1]


@torch.no_grad()
def mean_loss(net, data, size, batch, random, batches=20):
    return sum(net.loss(*draw(data, size, batch, random)).item() for _ in range(batches)) / batches


@torch.no_grad()
def whole_loss(net, data, size):
    """Windows one after another, each predicted from its own characters only."""
    windows = (len(data) - 1) // size.time
    x, targets = (data[i:i + windows * size.time].view(windows, size.time) for i in (0, 1))
    parts = zip(x.split(256), targets.split(256))
    return sum(net.loss(a, b).item() * len(a) for a, b in parts) / windows


def nano_gpt_name(name):
    name = re.sub(r"\bc_(attn|proj)\.", r"attn.c_\1.", name)
    return "transformer." + name.replace("mlp.0.", "mlp.c_fc.").replace("mlp.2.", "mlp.c_proj.")


def learning_rate(step, steps, most=1e-3, least=1e-4, warm_up=100):
    if step < warm_up:
        return most * (step + 1) / (warm_up + 1)
    return least + 0.5 * (1.0 + math.cos(math.pi * (step - warm_up) / (steps - warm_up))) * (most - least)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--bias", action="store_true")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--every", type=int, default=250, help="steps between two evaluations")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, default=MODULE)
    parser.add_argument("--text", type=pathlib.Path, help="write the text there and stop")
    parser.add_argument("--save", type=pathlib.Path)
    return parser.parse_args()


def main():
    options = parse()
    text = king_james(options.folder)
    if options.text:
        options.text.write_text(text, encoding="utf-8")
        return
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    characters, data = tokens_of(text)
    split = len(data) * 9 // 10
    parts = {"train": data[:split], "val": data[split:]}
    size = SIZES["gpt_small"]
    size.vocabulary = len(characters)
    net = Gpt(size, options.bias)
    optimizer = adamw(net.parameters(), 1e-3, (0.9, 0.99))
    batches, evaluation = torch.Generator().manual_seed(options.seed), torch.Generator().manual_seed(1)
    print(f"{len(text)} characters of {len(characters)} kinds, {sum(p.numel() for p in net.parameters())} parameters, "
          f"PyTorch {torch.__version__}, seed {options.seed}")
    print(f"{'step':>5} {'train':>7} {'val':>7} {'CPU s':>6}")
    for step in range(options.steps + 1):
        if step % options.every == 0 or step == options.steps:
            losses = [mean_loss(net, part, size, options.batch, evaluation) for part in parts.values()]
            print(f"{step:5} {losses[0]:7.4f} {losses[1]:7.4f} {time.process_time():6.0f}", flush=True)
        if step == options.steps:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options.steps)
        optimizer.zero_grad()
        net.loss(*draw(parts["train"], size, options.batch, batches)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    print(f"whole last tenth: {whole_loss(net, parts['val'], size):.4f} nats a character")
    if options.save:
        from safetensors.torch import save_file
        save_file({nano_gpt_name(name): value for name, value in net.state_dict().items()}, options.save)


if __name__ == "__main__":
    main()
