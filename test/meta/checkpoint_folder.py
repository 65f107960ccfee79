#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that Python reads a checkpoint's folder, and that a folder that Python wrote is read.

    checkpoint_folder.py PROGRAM

PROGRAM is made of checkpoint_folder.cpp. The files are read as the formats' descriptions say, with the standard library
alone; where PyPI's `safetensors` is installed it must read the same.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

INDEX = "model.safetensors.index.json"


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header, rest = json.loads(data[8:8 + size]), data[8 + size:]
    header.pop("__metadata__")
    return {name: (t["dtype"], t["shape"], rest[slice(*t["data_offsets"])]) for name, t in header.items()}


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def check_safetensors_package(path, tensors):
    try:
        import numpy
        from safetensors.numpy import load_file
    except ImportError:
        print("the package `safetensors` is not installed: read with the standard library alone")
        return
    arrays = load_file(path)
    assert set(arrays) == set(tensors)
    for name, array in arrays.items():
        assert list(array.shape) == tensors[name][1] and numpy.asarray(array).tobytes() == tensors[name][2], name


def main(program):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        written = subprocess.run([program, "write", folder / "run"], check=True, stdout=subprocess.PIPE, text=True)
        checkpoint = pathlib.Path(written.stdout.strip())
        assert checkpoint == folder / "run" / "step-000001", checkpoint

        about = json.loads((checkpoint / "tandem.json").read_text())
        assert (about["format"], about["version"], about["step"], about["seed"], about["optimizer"]) == (
            "tandem", 1, 1, "3", "Adam"), about
        assert set(about["files"]) | {"tandem.json"} == {entry.name for entry in checkpoint.iterdir()}
        for file, noted in about["files"].items():
            data = (checkpoint / file).read_bytes()
            assert (noted["bytes"], noted["crc32c"]) == (len(data), f"{crc32c(data):08x}"), file

        index = json.loads((checkpoint / INDEX).read_text())
        weights = {}
        for tensor, file in index["weight_map"].items():
            tensors = read_safetensors(checkpoint / file)
            check_safetensors_package(checkpoint / file, tensors)
            weights[tensor] = tensors[tensor]
        assert set(weights) == {"0.weight", "0.bias", "3.weight", "3.bias"}, weights
        assert weights["0.weight"][:2] == ("F32", [2, 1, 3, 3])
        assert index["metadata"]["total_size"] == sum(len(values) for _, _, values in weights.values())

        model = folder / "model"
        model.mkdir()
        weight_map = {}
        for i, (tensor, value) in enumerate(weights.items()):
            file = f"model-{i + 1:05d}-of-{len(weights):05d}.safetensors"
            write_safetensors(model / file, {tensor: value})
            weight_map[tensor] = file
        (model / INDEX).write_text(
            json.dumps({"metadata": {"total_size": index["metadata"]["total_size"]}, "weight_map": weight_map}, indent=2))
        subprocess.run([program, "read", model], check=True)
        subprocess.run([program, "read", checkpoint], check=True)
        write_safetensors(model / file, {tensor: (value[0], value[1], bytes(len(value[2])))})
        assert subprocess.run([program, "read", model], stdout=subprocess.DEVNULL).returncode == 1


if __name__ == "__main__":
    main(sys.argv[1])
