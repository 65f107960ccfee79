#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files of this folder with Python's `safetensors`; or checks other files with it.

    python3 -m venv v && v/bin/pip install safetensors numpy
    v/bin/python make_golden.py              # writes *.safetensors beside this script
    v/bin/python make_golden.py check FILE…  # opens FILE, and prints each tensor and its bytes

The committed files were written by safetensors 0.8.0 with numpy 2.4.6. The unit tests read them, and
write them again byte for byte.
"""

import pathlib
import struct
import sys

import numpy as np
import safetensors
from safetensors.numpy import save

HERE = pathlib.Path(__file__).resolve().parent


def mixed() -> bytes:
    """One tensor of each type that numpy has; 3 elements each, so that odd sizes are covered."""
    tensors = {}
    for kind in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"):
        tensors["t." + kind] = np.array([1, 2, 3], dtype="<" + kind)
    tensors["t.bool"] = np.array([True, False, True])
    tensors["matrix"] = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
    return save(tensors, metadata={"step": "17"})


def edge() -> bytes:
    """Scalars, empty tensors, names that JSON must escape, and a type that numpy lacks."""
    names = ['quote" back\\slash /', "tab\t newline\n bell\a", "größe ∑ 🙂", ""]
    arrays = {name: ("float32", np.array(1.5 + i, dtype="<f4")) for i, name in enumerate(names)}
    arrays["empty"] = ("float64", np.zeros((3, 0, 2)))
    arrays["bf16"] = ("bfloat16", np.array([0x3F80, 0x4000], dtype="<u2"))
    arrays["e4m3"] = ("float8_e4m3fn", np.array([[1], [2], [3]], dtype="u1"))
    specs = {}
    for name, (dtype, array) in arrays.items():
        specs[name] = safetensors.TensorSpec(dtype=dtype, shape=list(array.shape),
                                             data_ptr=array.ctypes.data, data_len=array.nbytes)
    return bytes(safetensors.serialize(specs, {'quoted "key"': "line\nline \u0001"}))


def check(path: str) -> None:
    for name, tensor in safetensors.deserialize(pathlib.Path(path).read_bytes()):
        print(repr(name), tensor["dtype"], tensor["shape"], bytes(tensor["data"]).hex())
    with safetensors.safe_open(path, framework="numpy") as opened:
        print("metadata", opened.metadata())


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        for argument in sys.argv[2:]:
            check(argument)
    else:
        (HERE / "mixed.safetensors").write_bytes(mixed())
        (HERE / "edge.safetensors").write_bytes(edge())
        (HERE / "empty.safetensors").write_bytes(save({}))
