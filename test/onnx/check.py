#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the ONNX files that `export` writes by onnxruntime, after onnx.checker has looked at them, and compares their
outputs with those of tandem's Predictor.

    check.py EXPORT

    python3 -m venv VENV && VENV/bin/pip install onnx onnxruntime numpy    # test/run.sh does; without, status 77: skipped
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"skipped: {error}; pip install onnx onnxruntime numpy")
    sys.exit(77)

BOUND = 2e-5  # of the largest output: both compute in fp32, in orders of their own


def tensors(path):
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    types = {"F32": numpy.float32, "I32": numpy.int32}
    return {name: numpy.frombuffer(data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]],
                                   types[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}


def fed(session, given, k):
    """Inputs as the model wants them: indices are 64-bit integers, images have their extents."""
    for put in session.get_inputs():
        numbers = given[f"{put.name}.{k}"]
        if numbers.dtype == numpy.int32:
            yield put.name, numbers.astype(numpy.int64)
        else:
            yield put.name, numbers.reshape([len(numbers), *put.shape[1:]])


def check(path):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = tensors(path.with_suffix(".safetensors"))
    worst = 0.0
    for k in range(sum(name.startswith("output.") for name in given)):
        y, = session.run(None, dict(fed(session, given, k)))
        wanted = given[f"output.{k}"]
        own = y[:, -1] if y.ndim == 3 else y.reshape(wanted.shape)  # of a Vocabulary, the last row
        assert own.shape == wanted.shape, (path.name, y.shape, wanted.shape)
        assert numpy.abs(wanted).max() > 1e-3, f"{path.name}: outputs of nothing"
        error = numpy.abs(own - wanted).max() / numpy.abs(wanted).max()
        assert error <= BOUND, f"{path.name}, inputs {k}: off by {error:.1e} of the largest output"
        worst = max(worst, error)
    operators = sorted({node.op_type for node in model.graph.node})
    print(f"{path.stem}: {len(model.graph.node)} nodes, off by {worst:.1e} at most; {' '.join(operators)}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        paths = sorted(pathlib.Path(folder).glob("*.onnx"))
        for path in paths:
            check(path)
        assert len(paths) == 7, paths


if __name__ == "__main__":
    main()
