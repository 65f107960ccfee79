#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/events.tfevents: what TensorBoard's own package makes of the scalars that watch_test.cpp writes, too.

    python3 -m venv VENV && VENV/bin/pip install tensorboard
    VENV/bin/python events.py            # writes the file
    VENV/bin/python events.py FILE ...   # prints the scalars that TensorBoard reads in other event files
"""

import pathlib
import sys

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "data" / "events.tfevents"
# time, step, scalars
EVENTS = [(1763900000.25, 1, {"loss/train": 2.302585, "metric/train": 0.125, "learning_rate": 0.1, "gradient_norm": 0.0}),
          (1763900001.5, 300, {"loss/train": float("nan"), "samples_per_second": 123456.789}),
          (1763900002.0, 0, {"loss/evaluation": -1e-30}),
          (1763900003.0, 2**40, {"x" * 200: float("inf")})]


def write():
    with open(GOLDEN, "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=1763900000.0, file_version="brain.Event:2").SerializeToString(deterministic=True))
        for time, step, scalars in EVENTS:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()])
            writer.write(Event(wall_time=time, step=step, summary=summary).SerializeToString(deterministic=True))
        writer.flush()


def main(*files):
    if not files:
        write()
    for file in files:
        for event in EventFileLoader(file).Load():
            for value in event.summary.value:
                print(event.step, value.tag, value.tensor.float_val[0] if value.HasField("tensor") else value.simple_value)


if __name__ == "__main__":
    main(*sys.argv[1:])
