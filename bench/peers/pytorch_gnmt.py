#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/train/run.py --network gnmt: GNMT, a round of training steps at a time.

    pytorch_gnmt.py --data FILE --precision fp32|bf16 --mode padded|packed|master|packed_master [--threads 1]
                    [--profile STEPS]

FILE has the batches, as bench_gnmt --write makes it; a step is a pass over all of them. Prints a line of JSON about
itself; then, for each line "round N" on its input, makes N steps and prints {"step_s": ..., "cpu_s": ...}, the second
being the process's CPU time. The network is NVIDIA's GNMT v2, with words of their own for the decoder; the modes whose
name has "packed" give the first layer of the encoder a PackedSequence as NVIDIA's does, the others let it run over the
padding, which oneDNN computes. In bf16 the first two modes are PyTorch's autocast; in "master" all weights and
activations are bf16, and the optimizer has a copy of the weights in fp32. What is measured leaves to PyTorch what it
is good at: time is the first axis, batches are as long as their longest sentence, the loss is its fused one, no loss is
read, Adam is fused, gradients are dropped instead of cleared.
"""

import argparse
import json
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

VOCABULARY, HIDDEN, LAYERS = 8000, 512, 4


class Attention(nn.Module):
    """NVIDIA's BahdanauAttention(normalize=True), on time first."""

    def __init__(self, hidden):
        super().__init__()
        self.linear_q, self.linear_k = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.linear_att = nn.Parameter(torch.empty(hidden).uniform_(-0.1, 0.1))
        self.normalize_scalar = nn.Parameter(torch.tensor([1 / math.sqrt(hidden)]))
        self.normalize_bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, query, keys, hidden_keys):
        values = keys.transpose(0, 1)  # (B, Tk, H)
        q = self.linear_q(query.transpose(0, 1))
        k = self.linear_k(values) + self.normalize_bias
        weight = self.linear_att / self.linear_att.norm() * self.normalize_scalar
        scores = torch.tanh(q.unsqueeze(2) + k.unsqueeze(1)).matmul(weight)  # (B, Tq, Tk)
        shares = functional.softmax(scores.masked_fill(hidden_keys, -65504.0), -1)
        return torch.bmm(shares, values).transpose(0, 1)


class Gnmt(nn.Module):
    def __init__(self, packed):
        super().__init__()
        h, self.packed = HIDDEN, packed
        self.source, self.target = nn.Embedding(VOCABULARY, h), nn.Embedding(VOCABULARY, h)
        self.encoder = nn.ModuleList([nn.LSTM(h, h, bidirectional=True), nn.LSTM(2 * h, h)] +
                                     [nn.LSTM(h, h) for _ in range(LAYERS - 2)])
        self.decoder = nn.ModuleList([nn.LSTM(h, h)] + [nn.LSTM(2 * h, h) for _ in range(LAYERS - 1)])
        self.attention, self.classifier = Attention(h), nn.Linear(h, VOCABULARY)
        self.dropout = nn.Dropout(0.2)
        for name, p in self.named_parameters():
            if "bias_hh" in name:
                nn.init.zeros_(p)
            elif not name.startswith("attention.normalize"):
                nn.init.uniform_(p, -0.1, 0.1)

    def encode(self, x, lengths):
        x = self.dropout(self.source(x))
        if self.packed:
            packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
            x = pad_packed_sequence(self.encoder[0](packed)[0], total_length=x.shape[0])[0]
        else:
            x = self.encoder[0](x)[0]
        x = self.encoder[1](self.dropout(x))[0]
        for layer in self.encoder[2:]:
            x = layer(self.dropout(x))[0] + x
        return x

    def loss(self, batch):
        memory = self.encode(batch["x"], batch["lengths"])
        query = self.decoder[0](self.dropout(self.target(batch["second"])))[0]
        context = self.attention(query, memory, batch["hidden"])
        x = self.decoder[1](self.dropout(torch.cat([query, context], 2)))[0]
        for layer in self.decoder[2:]:
            x = layer(self.dropout(torch.cat([x, context], 2)))[0] + x
        logits = self.classifier(x).view(-1, VOCABULARY)
        return functional.cross_entropy(logits.float(), batch["targets"], ignore_index=-1, reduction="sum",
                                        label_smoothing=0.1) / len(batch["lengths"])


def read_batches(path):
    with open(path, encoding="utf-8") as file:
        numbers = map(int, file.read().split())

    def take(*shape):
        return torch.tensor([next(numbers) for _ in range(math.prod(shape))]).view(*shape)

    count, samples = next(numbers), next(numbers)
    batches = []
    for _ in range(count):
        rows, second_rows = next(numbers), next(numbers)
        lengths, second_lengths = take(samples), take(samples)
        x, second, targets = take(samples, rows), take(samples, second_rows), take(samples, second_rows)
        rows, second_rows = int(lengths.max()), int(second_lengths.max())
        batches.append({"x": x[:, :rows].t().contiguous(), "second": second[:, :second_rows].t().contiguous(),
                        "targets": targets[:, :second_rows].t().reshape(-1), "lengths": lengths,
                        "hidden": (torch.arange(rows) >= lengths[:, None])[:, None, :],
                        "words": int(lengths.sum() + second_lengths.sum())})
    return batches


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, help="is the file's")
    parser.add_argument("--precision", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--mode", choices=["padded", "packed", "master", "packed_master"], required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--profile", type=int, default=0, help="steps")
    options = parser.parse_args()
    if options.mode.endswith("master") and options.precision != "bf16":
        parser.error("--mode master is for --precision bf16")
    return options


def main():
    options = parse()
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    torch.set_num_threads(options.threads)
    batches = read_batches(options.data)
    net = Gnmt(options.mode.startswith("packed"))
    own_master = options.mode.endswith("master")
    masters = None
    if own_master:
        masters = [p.detach().clone() for p in net.parameters()]
        net.bfloat16()
    trained = list(net.parameters())
    optimizer = torch.optim.Adam(masters or trained, lr=1e-3, fused=True)
    autocast = options.precision == "bf16" and not own_master

    def train(batch):
        for p in trained:
            p.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = net.loss(batch)
        loss.backward()
        if masters:
            for p, master in zip(trained, masters):
                master.grad = p.grad.float()
        nn.utils.clip_grad_norm_(masters or trained, 5.0)
        optimizer.step()
        if masters:
            with torch.no_grad():
                torch._foreach_copy_(trained, masters)
        return loss

    def step():
        for batch in batches:
            loss = train(batch)
        return loss

    loss = step()
    if options.profile:
        with torch.profiler.profile() as profile:
            for _ in range(options.profile):
                step()
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=30))
        return
    print(json.dumps({"parameters": sum(p.numel() for p in trained), "loss": loss.item(),
                      "units": sum(batch["words"] for batch in batches), "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        steps = int(line.split()[1])
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(steps):
            step()
        print(json.dumps({"step_s": (time.perf_counter() - begin) / steps,
                          "cpu_s": (time.process_time() - cpu) / steps}), flush=True)


if __name__ == "__main__":
    main()
