#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/cuda/run.py and bench/train/run.py: the same GoogLeNet for CIFAR, a round of training
steps at a time.

    pytorch_googlenet.py --batch 128 --precision fp32|tf32|bf16|fp16 --mode eager|channels_last|compiled
                         [--count] [--device cuda|cpu] [--threads 1] [--rank 0 --ranks 2 --meet FILE]

Prints a line of JSON about itself; then, for each line "round N" on its input, trains N steps and prints
{"step_s": ..., "cpu_s": ...}, the second being the process's CPU time. With --ranks it is one process of a
DistributedDataParallel over gloo, and --batch is the global one. What is measured leaves to PyTorch what it is
good at: no loss is read, the optimizer is fused, buckets are the gradients themselves; on a GPU the batch is
copied from pinned memory without waiting and cuDNN may choose its algorithms by timing.
"""

import argparse
import json
import os
import sys
import tempfile
import time

import torch
from torch import nn

PARAMETERS = 6166250  # of tandem's models/googlenet.hpp, 10 classes


def conv_norm_relu(inputs, outputs, kernel=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2),
                         nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class Inception(nn.Module):
    def __init__(self, inputs, one, three_reduce, three, five_reduce, five, pool):
        super().__init__()
        self.branches = nn.ModuleList([
            conv_norm_relu(inputs, one),
            nn.Sequential(conv_norm_relu(inputs, three_reduce), conv_norm_relu(three_reduce, three, 3)),
            nn.Sequential(conv_norm_relu(inputs, five_reduce), conv_norm_relu(five_reduce, five, 3),
                          conv_norm_relu(five, five, 3)),
            nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), conv_norm_relu(inputs, pool)),
        ])
        self.outputs = one + three + five + pool

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def google_net(classes=10):
    parts, channels = [conv_norm_relu(3, 192, 3)], 192
    for widths in [(64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
                   (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
                   (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), None,
                   (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)]:
        if widths is None:
            parts.append(nn.MaxPool2d(3, stride=2, padding=1))
        else:
            parts.append(Inception(channels, *widths))
            channels = parts[-1].outputs
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, required=True, help="global: ranks share it")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16", "fp16"], required=True)
    parser.add_argument("--mode", choices=["eager", "channels_last", "compiled"], required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument("--warm-up", type=int, help="steps; default: 12 on a GPU, 2 on a CPU")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--meet", help="a file that does not exist yet, where the ranks find each other")
    parser.add_argument("--count", action="store_true",
                        help="instead of rounds: prints the kernels of a step, and the bytes that they move if CUPTI says")
    options = parser.parse_args()
    if options.warm_up is None:
        options.warm_up = 12 if options.device == "cuda" else 2
    return options


def distributed(net, options):
    """The network as one of several replicas that run on this machine."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group("gloo", init_method=f"file://{options.meet}", rank=options.rank,
                                         world_size=options.ranks)
    return nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False)


def count(step, wait):
    """Kernels, copies and fills of one step by torch.profiler, and the bytes that go to and from the GPU's memory by
    CUPTI's counters, which wants permission (NVreg_RestrictProfilingToAdminUsers=0); None where there is none."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        wait()
    on_gpu = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    result = {"kernels": len(on_gpu), "moved_bytes": None}
    try:
        from torch._C._profiler import _ExperimentalConfig
        metrics = ["dram__bytes_read.sum", "dram__bytes_write.sum"]
        with profile(activities=[ProfilerActivity.CUDA], record_shapes=False, experimental_config=_ExperimentalConfig(
                profiler_metrics=metrics, profiler_measure_per_kernel=True)) as seen:
            step()
            wait()
        path = os.path.join(tempfile.mkdtemp(), "trace.json")
        seen.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            events = [event.get("args", {}) for event in json.load(file)["traceEvents"]]
        moved = sum(float(event.get(metric, 0)) for event in events for metric in metrics)
        result["moved_bytes"] = moved or None
    except Exception as error:  # whatever the driver refuses, the number of kernels is there
        print(f"no counters of bytes: {error}", file=sys.stderr)
    return result


def main():
    options = parse()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = options.precision != "fp32"
    torch.set_float32_matmul_precision("highest" if options.precision == "fp32" else "high")
    torch.set_flush_denormal(True)
    torch.set_num_threads(options.threads)
    on_gpu = options.device == "cuda"
    layout = torch.contiguous_format if options.mode == "eager" else torch.channels_last

    net = google_net().to(options.device, memory_format=layout)
    parameters = sum(p.numel() for p in net.parameters())
    assert parameters == PARAMETERS, f"{parameters} parameters, not {PARAMETERS}"
    if options.ranks > 1:
        net = distributed(net, options)
    fused = on_gpu or tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9, **({"fused": True} if fused else {}))
    scaler = torch.amp.GradScaler(options.device, enabled=options.precision == "fp16")  # else it does nothing
    loss_of = nn.CrossEntropyLoss()
    samples = options.batch // options.ranks
    x_host = torch.rand(samples, 3, 32, 32) - 0.5
    y_host = torch.arange(samples) % 10
    if on_gpu:
        x_host, y_host = x_host.pin_memory(), y_host.pin_memory()

    def loss_at(x, y):
        return loss_of(net(x), y)

    if options.mode == "compiled":
        loss_at = torch.compile(loss_at, mode="reduce-overhead" if on_gpu else "default")

    def step():
        if options.mode == "compiled":
            torch.compiler.cudagraph_mark_step_begin()
        x = x_host.to(options.device, non_blocking=True).contiguous(memory_format=layout)
        y = y_host.to(options.device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, torch.float16 if options.precision == "fp16" else torch.bfloat16,
                            enabled=options.precision in ("bf16", "fp16")):
            loss = loss_at(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    for _ in range(options.warm_up):
        loss = step()
    wait()
    if options.count:
        print(json.dumps(count(step, wait)), flush=True)
        return
    print(json.dumps({
        "parameters": parameters,
        "loss": loss.item(),
        "torch": torch.__version__,
        "onednn": next((part for part in torch.__config__.show().splitlines() if "MKL-DNN" in part), "").strip(" -"),
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
    }), flush=True)
    for line in sys.stdin:
        steps = int(line.split()[1])
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        print(json.dumps({"step_s": (time.perf_counter() - begin) / steps,
                          "cpu_s": (time.process_time() - cpu) / steps}), flush=True)


if __name__ == "__main__":
    main()
