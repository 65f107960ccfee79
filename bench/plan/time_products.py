#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times products in bf16 on a GPU by PyTorch, as `plan --products FILE.csv` reads them.

    bench/plan/time_products.py >FILE.csv

One line for each shape: rows, columns, depth and the median of 9 rounds in seconds, each round at least 4 ms of
products queued behind each other on random numbers of three sets of operands in turn.
"""

import itertools
import statistics

import torch


def seconds(m, n, k):
    sets = [(torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(k, n, device="cuda", dtype=torch.bfloat16),
             torch.empty(m, n, device="cuda", dtype=torch.bfloat16)) for _ in range(3)]

    def queue(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for i in range(count):
            a, b, c = sets[i % 3]
            torch.mm(a, b, out=c)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    queue(3)
    count = max(3, int(4e-3 / queue(3)))
    return statistics.median(queue(count) for _ in range(9))


def main():
    print("rows,columns,depth,seconds")
    shapes = list(itertools.product([512, 1024, 2048, 4096, 8192], [1024, 2048, 4096, 8192], [1024, 2048, 4096, 8192]))
    shapes += [(m, n, k) for m in (2048, 4096) for n, k in ((12288, 12288), (36864, 12288), (12288, 49152))]
    shapes += [(m, n, 128) for m in (2048, 4096) for n in (2048, 4096)] + [(m, 128, k) for m in (2048, 4096) for k in (2048, 4096)]
    for m, n, k in shapes:
        print(f"{m},{n},{k},{seconds(m, n, k):.6g}", flush=True)


if __name__ == "__main__":
    main()
