#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of networks on tokens on a GPU beside PyTorch's, in turns; prints a table.

    bench/cuda/tokens.py BUILD_FOLDER [--network gpt gpt_portable lstm_model] [--precision bf16 tf32] [--batch 64] [--steps 50]
                         [--mode eager compiled]

gpt is nanoGPT's character model (gpt.cpp), with a dropout of 0.2, gpt_portable the same without cuDNN; lstm_model one Lstm<1024> between an embedding and
8,192 words (lstm_model.cpp), which is cuDNN's in PyTorch. PyTorch has its fused attention, fused AdamW and, in bf16,
autocast; reads no loss; compiled, it has CUDA graphs too.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROWS = {"gpt": (256, 65), "gpt_portable": (256, 65), "lstm_model": (25, 8192)}


def peer_step(network, precision, mode, batch):
    """A function that makes one step of PyTorch's."""
    import torch
    from torch import nn
    from torch.nn import functional
    sys.path.insert(0, str(HERE.parent / "peers"))
    import pytorch_gpt

    class LstmModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm = nn.Embedding(8192, 1024), nn.LSTM(1024, 1024)
            self.criterion = nn.Linear(1024, 8192)

        def loss(self, x, targets):
            logits = self.criterion(self.lstm(self.words(x.t()))[0])  # time is the first axis, as cuDNN likes it
            return functional.cross_entropy(logits.view(-1, 8192).float(), targets.t().reshape(-1))

    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    rows, words = ROWS[network]
    net = (LstmModel() if network == "lstm_model" else pytorch_gpt.Gpt(pytorch_gpt.SIZES["gpt"], False, 0.2)).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    x_host = torch.randint(words, (batch, rows)).pin_memory()
    y_host = torch.randint(words, (batch, rows)).pin_memory()
    loss_at = torch.compile(net.loss, mode="reduce-overhead") if mode == "compiled" else net.loss

    def step():
        if mode == "compiled":
            torch.compiler.cudagraph_mark_step_begin()
        x, y = x_host.cuda(non_blocking=True), y_host.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_at(x, y)
        loss.backward()
        optimizer.step()

    for _ in range(12):
        step()
    return step, torch.cuda.synchronize


def peer(options):
    network, precision, mode = options.peer
    step, wait = peer_step(network, precision, mode, options.batch)
    times = []
    for _ in range(6):
        wait()
        begin = time.perf_counter()
        for _ in range(options.steps):
            step()
        wait()
        times.append((time.perf_counter() - begin) / options.steps)
    print(json.dumps({"step_s": statistics.median(times), "least_s": min(times), "most_s": max(times)}))


def measured(command):
    run = subprocess.run([str(word) for word in command], text=True, capture_output=True)
    if run.returncode != 0:
        return {"fault": (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[-1]}
    return json.loads(run.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--network", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--precision", nargs="+", choices=["bf16", "tf32", "fp32"], default=["bf16", "tf32"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--mode", nargs="*", choices=["eager", "compiled"], default=["eager", "compiled"])
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer(options)
        return
    print(f"{'network, precision, batch':44} {'ms/step':>8} {'spread':>17} {'MiB':>7} {'of tandem':>9}")
    for network in options.network:
        for precision in options.precision:
            ours = [options.build / "bench" / f"bench_{network}_{precision}", options.batch, options.steps]
            lines = [("tandem", ours)]
            lines += [(f"torch {mode}", [sys.executable, __file__, options.build, "--batch", options.batch, "--steps",
                                         options.steps, "--peer", network, precision, mode]) for mode in options.mode]
            lines.append(("tandem again", ours))
            base = None
            for name, command in lines:
                row = measured(command)
                label = f"{name} {network} {precision} {options.batch}"
                if "fault" in row:
                    print(f"{label:44} failed: {row['fault']}", flush=True)
                    continue
                base = base or row["step_s"]
                print(f"{label:44} {1e3 * row['step_s']:8.3f} {1e3 * row['least_s']:8.3f}-{1e3 * row['most_s']:8.3f} "
                      f"{row.get('planned_bytes', 0) / 2**20:7.0f} {row['step_s'] / base:8.2f}x", flush=True)


if __name__ == "__main__":
    main()
