#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of PyTorch's pipelining schedules to test/data/golden, or checks that they are up to date.

    python3 schedules.py [check]

The committed files were written by PyTorch 2.15.0. NAME_RANKS_MICROBATCHES.csv is what _dump_csv writes of a
schedule's pipeline_order: a line a rank, a cell an action, an empty cell where the rank waits.
"""

import pathlib
import sys

from torch.distributed.pipelining import schedules

FOLDER = pathlib.Path(__file__).parents[1] / "data" / "golden"

TABLES = {"zero_bubble_v": (schedules.ScheduleZBVZeroBubble, ((1, 3), (4, 8), (4, 11))),
          "dual_pipe_v": (schedules.ScheduleDualPipeV, ((1, 3), (2, 4), (3, 8), (4, 8), (4, 11)))}


def table(schedule, ranks, microbatches):
    """The rows of all ranks. The schedule's constructor would want their stages and a process group."""
    made = object.__new__(schedule)
    made.pp_group_size = ranks
    made.num_stages = 2 * ranks
    made._n_microbatches = microbatches
    rows = [made._calculate_single_rank_operations(rank) for rank in range(ranks)]
    return "".join(",".join("" if action is None else str(action) for action in row) + "\n" for row in rows)


def main():
    for name, (schedule, sizes) in TABLES.items():
        for ranks, microbatches in sizes:
            path = FOLDER / f"{name}_{ranks}_{microbatches}.csv"
            text = table(schedule, ranks, microbatches)
            if sys.argv[1:] == ["check"]:
                if path.read_text() != text:
                    sys.exit(f"{path} is not what {schedule.__name__} gives")
            else:
                path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
