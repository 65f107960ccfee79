#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/train/run.py --network lstm: nn.LSTM's forward and all its gradients, a round at a time.

    pytorch_lstm.py --size lstm|lstm_projected --batch 32 --precision fp32|bf16 --mode eager [--threads 1]

Prints a line of JSON about itself; then, for each line "round N" on its input, makes N steps and prints
{"step_s": ..., "cpu_s": ...}, the second being the process's CPU time. In bf16 weights and activations are bf16,
without a copy in fp32: nothing is cast in a step. Time is the first axis, as PyTorch likes it.
"""

import argparse
import json
import sys
import time

import torch
from torch import nn

SIZES = {"lstm": (1024, 1024, 0, 25), "lstm_projected": (512, 2048, 512, 20)}  # inputs, hidden, projection, rows


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(SIZES), required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--mode", choices=["eager"], default="eager")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=2, help="steps")
    return parser.parse_args()


def main():
    options = parse()
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    torch.set_num_threads(options.threads)
    inputs, hidden, projection, rows = SIZES[options.size]
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    net = nn.LSTM(inputs, hidden, proj_size=projection).to(dtype)
    x = ((torch.rand(rows, options.batch, inputs) - 0.5) / 16).to(dtype).requires_grad_()
    dy = ((torch.rand(rows, options.batch, projection or hidden) - 0.5) / 16).to(dtype)

    def step():
        x.grad = None
        for p in net.parameters():
            p.grad = None
        net(x)[0].backward(dy)

    for _ in range(max(options.warm_up, 1)):
        step()
    handed = projection or hidden
    macs = rows * options.batch * (4 * hidden * (inputs + handed) + projection * hidden)
    print(json.dumps({"parameters": sum(p.numel() for p in net.parameters()), "flops": 6 * macs,
                      "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        steps = int(line.split()[1])
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(steps):
            step()
        print(json.dumps({"step_s": (time.perf_counter() - begin) / steps,
                          "cpu_s": (time.process_time() - cpu) / steps}), flush=True)


if __name__ == "__main__":
    main()
