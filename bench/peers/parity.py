#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same networks by tandem and by PyTorch, from tandem's initial values, and compares all numbers.

    python3 -m venv VENV && VENV/bin/pip install torch numpy
    VENV/bin/python bench/peers/parity.py --build BUILD [--only resnet20,layers] [--threads 2]

BUILD is a folder configured by CMake; bench_parity_all is built there: each model of the library (those for
ImageNet on smaller images) and small networks with all layers, losses, optimizers and clipping. A case is three
steps in fp64 by the portable kernels, where the deviation from PyTorch's fp64 counts, and in fp32 by oneDNN's,
where that from PyTorch's fp64 is held against those of PyTorch's own fp32: the largest of nine runs, eight of them
from weights that are off by up to four roundings, since one ReLU whose input falls on the other side of 0 moves
a gradient a thousand times as far. Prints a table of the largest deviations and ends with 1 if one is above its
bound.

A tensor's deviation is its largest difference over the largest element of its layer's tensors: the gradient of a
bias that a batch norm takes out again is nothing but rounding.
"""

import argparse
import json
import math
import platform
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch
from torch.nn import functional

from networks import NETWORKS, Dropout

STEPS = 3
BOUND = 1e-10  # of a deviation in fp64
BOUNDS = {"resnet50": 1e-7, "inception_v3": 1e-7}  # deep, on few and small images: three steps amplify roundings
RATIO = 10  # of one in fp32 to PyTorch's own
RUNS = 9  # of PyTorch in fp32: whether one has a ReLU that falls on the other side is luck
PERTURBED = 2.0**-22  # what weights are off by, in all but the first
LEAST = 2e-6  # a deviation in fp32 that is none
QUANTITIES = ["loss", "gradient", "weights", "statistics", "state", "evaluation"]

# network, samples of a step, optimizer, largest norm of the gradient (0: any)
CASES = [("layers", 8, optimizer, 0) for optimizer in ("sgd", "momentum", "nesterov", "adam", "adamw")]
CASES += [("layers", 8, "momentum", 0.25), ("layers", 8, "adam", 0.25)]
CASES += [(network, 8, "momentum", 0) for network in
          ("smoothed", "regression", "dropout", "frozen", "synchronized", "microbatches")]
CASES += [("small_cnn", 16, "adam", 0), ("resnet20", 16, "momentum", 0), ("resnet18", 8, "nesterov", 0),
          ("vgg16_bn", 16, "momentum", 0), ("googlenet", 4, "momentum", 0), ("vgg16", 8, "sgd", 0),
          ("resnet50", 8, "momentum", 0), ("inception_v3", 4, "momentum", 0)]


def as_float(number):
    """tandem's rates are floats, also where all else is double."""
    return float(numpy.float32(number))


def make_optimizer(name, parameters):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=as_float(0.02))
    if name in ("momentum", "nesterov"):
        return torch.optim.SGD(parameters, lr=as_float(0.005), momentum=as_float(0.9), weight_decay=as_float(0.01),
                               nesterov=name == "nesterov")
    rates = {"lr": as_float(0.001), "betas": (as_float(0.9), as_float(0.999)), "eps": as_float(1e-8)}
    if name == "adam":
        return torch.optim.Adam(parameters, weight_decay=as_float(0.01), **rates)
    return torch.optim.AdamW(parameters, weight_decay=as_float(0.1), **rates)


def read_safetensors(path):
    types = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "I32": torch.int32}
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    tensors = {}
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            flat = torch.frombuffer(data, dtype=torch.uint8, offset=begin, count=end - begin)
            tensors[name] = flat.clone().view(types[tensor["dtype"]]).reshape(tensor["shape"])
    return tensors


def run_tandem(program, case, precision, folder):
    network, batch, optimizer, clip = case
    done = subprocess.run([program, "--network", network, "--precision", precision, "--folder", folder, "--steps",
                           str(STEPS), "--batch", str(batch), "--optimizer", optimizer, "--clip", str(clip)],
                          check=True, capture_output=True, text=True)
    run = json.loads(done.stdout)
    for name in ("start", "step", "end"):
        run[name] = read_safetensors(Path(folder) / f"{name}.safetensors")
    return run


def loss_of(network, outputs, y):
    if network == "regression":
        return functional.mse_loss(outputs, y.to(outputs.dtype))
    return functional.cross_entropy(outputs, y[:, 0].long(), label_smoothing=0.1 if network == "smoothed" else 0)


def clip_gradient(parameters, most):
    """Without the 1e-6 that clip_grad_norm_ adds to the norm."""
    norm = math.sqrt(sum(p.grad.double().square().sum().item() for p in parameters))
    assert norm > most, "the case does not clip"
    for p in parameters:
        p.grad *= min(1.0, most / norm)


def run_torch(case, start, x, y, dropouts, dtype):
    """The same from the parameters and on the data of a run by tandem; gives what that gives."""
    network, batch, optimizer_name, clip = case
    net = NETWORKS[network]().to(dtype).train()
    weights = {name: tensor.to(dtype) for name, tensor in start.items()}
    for name, own in net.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            own.copy_(weights[name])
    extra = set(weights) - set(net.state_dict())
    assert all(name.startswith(("tandem.", "optimizer.")) for name in extra), f"PyTorch has no {extra}"
    for module, place in zip([m for m in net.modules() if isinstance(m, Dropout)], dropouts, strict=True):
        module.place = place
    trained = {name: p for name, p in net.named_parameters() if p.requires_grad}
    optimizer = make_optimizer(optimizer_name, trained.values())
    x = x.to(dtype)
    run = {"losses": [], "step": {}}
    for step in range(STEPS):
        for module in net.modules():
            if isinstance(module, Dropout):
                module.step = step
        part = slice(step * batch, (step + 1) * batch)
        optimizer.zero_grad()
        loss = loss_of(network, net(x[part]), y[part])
        loss.backward()
        run["losses"].append(loss.item())
        if step == 0:
            run["step"] = {name: p.grad.clone() for name, p in trained.items()}
        if clip > 0:
            clip_gradient(trained.values(), clip)
        optimizer.step()
    run["end"] = {name: value for name, value in net.state_dict().items() if "num_batches" not in name}
    for name, p in trained.items():
        for state, value in optimizer.state[p].items():
            if state != "step" and value is not None:
                run["end"][f"optimizer.{state}.{name}"] = value
    net.eval()
    with torch.no_grad():
        parts = [loss_of(network, net(part), of) for part, of in zip(x.split(batch), y.split(batch))]
    run["evaluation"] = sum(part.item() for part in parts) / STEPS
    return run


def deviation(own, reference):
    """The largest of all tensors that @p reference has."""
    scale = {}
    for name, right in reference.items():
        layer = name.rpartition(".")[0]
        scale[layer] = max(scale.get(layer, 1e-300), right.abs().max().item())
    worst = 0.0
    for name, right in reference.items():
        difference = (own[name].double().reshape(right.shape) - right).abs().max().item()
        worst = max(worst, math.inf if math.isnan(difference) else difference / scale[name.rpartition(".")[0]])
    return worst


def deviations(own, reference):
    def numbers(run):
        return {str(i): torch.tensor([loss], dtype=torch.float64) for i, loss in enumerate(run)}

    def part(kind):
        def kind_of(name):
            return ("state" if name.startswith("optimizer.") else "statistics" if ".running_" in name else "weights")

        return {name: tensor for name, tensor in reference["end"].items() if kind_of(name) == kind}

    return {"loss": deviation(numbers(own["losses"]), numbers(reference["losses"])),
            "gradient": deviation(own["step"], reference["step"]),
            **{kind: deviation(own["end"], part(kind)) for kind in ("weights", "statistics", "state")},
            "evaluation": deviation(numbers([own["evaluation"]]), numbers([reference["evaluation"]]))}


def perturbed(start, seed):
    torch.manual_seed(seed)
    return {name: tensor * (1 + PERTURBED * (2 * torch.rand(tensor.shape, dtype=torch.float64) - 1))
            if tensor.is_floating_point() else tensor for name, tensor in start.items()}


def compare(program, case, precision):
    """Deviations of tandem, and of PyTorch in fp32, from PyTorch in fp64."""
    with tempfile.TemporaryDirectory() as folder:
        own = run_tandem(program, case, precision, folder)
    x, y = own["step"].pop("x"), own["step"].pop("y")
    exact = run_torch(case, own["start"], x, y, own["dropouts"], torch.float64)
    assert set(own["step"]) == set(exact["step"]), set(own["step"]) ^ set(exact["step"])
    if precision == "fp64":
        return deviations(own, exact), None
    peers = []
    for start in (own["start"], *(perturbed(own["start"], seed + 1) for seed in range(RUNS - 1))):
        peers.append(deviations(run_torch(case, start, x, y, own["dropouts"], torch.float32), exact))
    return deviations(own, exact), {name: max(peer[name] for peer in peers) for name in QUANTITIES}


def is_sound(network, own, peer):
    """A single number of PyTorch's may be near by luck: a loss may be off as far as weights may."""
    if peer is None:
        return all(value <= BOUNDS.get(network, BOUND) for value in own.values())
    luck = {"loss": peer["weights"], "evaluation": peer["weights"]}
    return all(value <= max(RATIO * max(peer[name], luck.get(name, 0)), LEAST) for name, value in own.items())


def processor():
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")] \
        if info.exists() else []
    return names[0] if names else platform.processor()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="a folder that CMake has configured")
    parser.add_argument("--only", help="networks, with commas between")
    parser.add_argument("--precisions", default="fp64,fp32")
    parser.add_argument("--program", help="instead of building bench_parity_all")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch")
    return parser.parse_args()


def main():
    options = parse()
    program = options.program
    if program is None:
        subprocess.run(["cmake", "--build", options.build, "--target", "bench_parity_all"], check=True)
        program = str(Path(options.build) / "bench" / "bench_parity_all")
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    only = options.only.split(",") if options.only else None
    print(f"PyTorch {torch.__version__}, {processor()}; {STEPS} steps; fp32: tandem's / PyTorch's own\n")
    print("| network | optimizer | | " + " | ".join(QUANTITIES) + " |")
    print("| --- | --- | --- |" + " ---: |" * len(QUANTITIES))
    unsound = []
    for case in CASES:
        network, _, optimizer, clip = case
        if only is not None and network not in only:
            continue
        for precision in options.precisions.split(","):
            own, peer = compare(program, case, precision)
            cells = [f"{own[name]:.1e}" + (f" / {peer[name]:.1e}" if peer else "") for name in QUANTITIES]
            title = optimizer + (f", clipped at {clip}" if clip > 0 else "")
            print(f"| {network} | {title} | {precision} | " + " | ".join(cells) + " |", flush=True)
            if not is_sound(network, own, peer):
                unsound.append(f"{network}, {title}, {precision}")
    print(f"\nbounds: fp64 {BOUND:.0e}, {max(BOUNDS.values()):.0e} of {', '.join(BOUNDS)}; "
          f"fp32 {RATIO} times PyTorch's own, or {LEAST:.0e}")
    for name in unsound:
        print(f"above its bound: {name}")
    sys.exit(1 if unsound else 0)


if __name__ == "__main__":
    main()
