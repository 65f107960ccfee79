# SPDX-License-Identifier: Apache-2.0
"""Competitors of a benchmark: processes that stay alive and are measured in turn, a round of steps at a time."""

import json
import selectors
import statistics
import subprocess
import time

ROUND_S = 1.0  # each competitor takes as many steps a round as fit in here, one at least
PAUSE_S = 0.05  # between rounds: OpenMP's threads spin a little after their last loop


class Competitor:
    """One or more processes that compute side by side, each on its share of the batch.

    Each says what it is on its first line and answers each "round N" with a line of JSON that has step_s.
    """

    def __init__(self, name, commands, shares, log, environment=None):
        self.name, self.shares, self.about, self.rounds, self.steps = name, shares, None, [], 1
        self.log = log / f"{name.replace(' ', '_').replace('/', '_')}.log"
        self.processes = []
        with self.log.open("w", encoding="utf-8") as errors:
            for command in commands:
                self.processes.append(subprocess.Popen(
                    list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                    text=True, env=environment))

    def read(self, seconds):
        """The next line of each process as JSON; None if one has died or they take longer."""
        answers, deadline = [], time.monotonic() + seconds
        for process in self.processes:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                if not selector.select(max(deadline - time.monotonic(), 0.0)):
                    return None
            line = process.stdout.readline()
            if not line:
                return None
            answers.append(json.loads(line))
        return answers

    def start(self, seconds):
        """Waits until it is ready, and finds out how many steps make a round."""
        self.about = self.read(seconds)
        first = self.round(seconds) if self.about else None
        if not first:
            self.end()
            return False
        self.steps = max(1, min(1000, int(ROUND_S / first["step_s"])))
        return True

    def round(self, seconds):
        """Seconds that a step on the whole batch takes at the rate of all processes together."""
        try:
            for process in self.processes:
                process.stdin.write(f"round {self.steps}\n")
                process.stdin.flush()
        except BrokenPipeError:
            return None
        answers = self.read(seconds)
        if not answers:
            return None
        rate = sum(share / answer["step_s"] for share, answer in zip(self.shares, answers))
        return {"step_s": sum(self.shares) / rate, "cpu_s": sum(answer["cpu_s"] for answer in answers)}

    def median(self, clock="step_s"):
        return statistics.median(row[clock] for row in self.rounds) if self.rounds else None

    def fault(self):
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "no answer in time"

    def end(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(10 if self.about else 0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def compete(competitors, rounds, seconds):
    """Measures the competitors in turn, every other round in the reverse order; ends them."""
    ready = [one for one in competitors if one.start(seconds)]
    for number in range(rounds):
        for competitor in ready if number % 2 == 0 else reversed(ready):
            time.sleep(PAUSE_S)
            measured = competitor.round(seconds)
            if measured:
                competitor.rounds.append(measured)
    for competitor in ready:
        competitor.end()
