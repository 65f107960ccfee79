#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of PyTorch's pipelining schedules to test/data/golden, or checks that they are up to date.

    python3 schedules.py [check]

The committed files were written by PyTorch 2.15.0. NAME_RANKS_MICROBATCHES.csv is what _dump_csv writes of a
schedule's pipeline_order: a line a rank, a cell an action, an empty cell where the rank waits. In
NAME_RANKS_MICROBATCHES_comms.csv it is lowered: with sends, receives and waits, and what a rank gathers and sums.
"""

import pathlib
import sys

from torch.distributed.pipelining import _utils, schedules

FOLDER = pathlib.Path(__file__).parents[1] / "data" / "golden"

TABLES = {"zero_bubble_v": (schedules.ScheduleZBVZeroBubble, ((1, 3), (2, 3), (4, 8), (4, 11))),
          "dual_pipe_v": (schedules.ScheduleDualPipeV, ((1, 3), (2, 4), (3, 8), (4, 8), (4, 11))),
          "interleaved": (schedules.ScheduleInterleaved1F1B, ((2, 4), (2, 1), (2, 3), (3, 2), (3, 5), (3, 8), (4, 10))),
          "gpipe": (schedules.ScheduleGPipe, ((3, 2),)),
          "looped_bfs": (schedules.ScheduleLoopedBFS, ((2, 2), (2, 6))),
          "interleaved_zero_bubble": (schedules.ScheduleInterleavedZeroBubble, ((2, 3), (3, 5)))}
LOWERED = ((2, 2), (2, 3), (2, 4))  # which of these sizes are lowered, too


def table(schedule, ranks, microbatches):
    """The rows of all ranks. The schedule's constructor would want their stages and a process group."""
    made = object.__new__(schedule)
    made.pp_group_size = ranks
    made.num_stages = 2 * ranks
    made._n_microbatches = microbatches
    if schedule is schedules.ScheduleGPipe:
        made._num_stages = ranks
        return made._get_pipeline_order()
    made._stages = [None, None]
    made.n_local_stages = 2
    made.microbatches_per_round = microbatches // max(1, microbatches // ranks)
    made.pipeline_order = {rank: made._calculate_single_rank_operations(rank) for rank in range(ranks)}
    if schedule is schedules.ScheduleInterleavedZeroBubble:
        return made._add_bubbles_to_actions(2 * ranks)
    return made.pipeline_order


def lowered(rows, microbatches, style):
    """As _PipelineScheduleRuntime._prepare_schedule_with_comms does."""
    rank_of = _utils.generate_stage_to_rank_mapping(len(rows), 2 * len(rows), style)
    rows = {rank: schedules._add_reduce_grad(schedules._add_unshard_reshard(row), microbatches)
            for rank, row in rows.items()}
    return schedules._add_wait_send(schedules._add_send_recv(rows, lambda stage: rank_of[stage], 2 * len(rows)))


def text_of(rows):
    return "".join(",".join("" if action is None else str(action) for action in rows[rank]) + "\n"
                   for rank in range(len(rows)))


def files():
    for name, (schedule, sizes) in TABLES.items():
        for ranks, microbatches in sizes:
            path = f"{name}_{ranks}_{microbatches}"
            rows = table(schedule, ranks, microbatches)
            yield FOLDER / f"{path}.csv", text_of(rows), schedule
            if (ranks, microbatches) in LOWERED:
                style = "v" if name.endswith("_v") else "loop"
                yield FOLDER / f"{path}_comms.csv", text_of(lowered(rows, microbatches, style)), schedule


def main():
    for path, text, schedule in files():
        if sys.argv[1:] == ["check"]:
            if path.read_text() != text:
                sys.exit(f"{path} is not what {schedule.__name__} gives")
        else:
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
