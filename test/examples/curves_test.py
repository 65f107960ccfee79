#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the program curves, end to end, and of its page in a browser where there is one.

    curves_test.py PROGRAM
"""

import json
import math
import re
import shutil
import subprocess
import time
import unittest
import urllib.parse

import program

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def log_of(steps, rate=0.1):
    lines = []
    for step in range(1, steps + 1):
        loss = 2.3 * math.exp(-rate * step)
        lines.append({"kind": "step", "step": step, "epoch": (step - 1) // 10, "samples": 8 * ((step - 1) % 10 + 1),
                      "loss": loss, "accuracy": None, "learning_rate": 0.1, "gradient_norm": 0, "seconds": 0.5 * step})
        if step % 10 == 0:
            lines.append({"kind": "evaluation", "step": step, "epoch": step // 10, "samples": 0, "loss": loss + 0.1,
                          "accuracy": 0.5, "top-5 '& (more)\"": 0.75, "seconds": 0.5 * step})
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


class Curves(program.ProgramTest):
    def log(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def test_each_run_is_in_the_page_and_nothing_is_fetched(self):
        one, two = self.log("one.jsonl", log_of(20)), self.log("two.jsonl", log_of(30, 0.05))
        page = self.output(one, two)
        self.assertEqual(page.count('"kind":"step"'), 50)
        self.assertEqual(page.count('"kind":"evaluation"'), 5)
        self.assertIn("const reload = 0;", page)
        self.assertEqual(re.findall(r'(?:src|href)=|https?://(?!www\.w3\.org/2000/svg)', page), [])

    def test_a_line_that_is_being_written_is_left_out(self):
        page = self.output(self.log("run.jsonl", log_of(2) + '{"kind":"step","st'))
        self.assertEqual(page.count('"kind":"step"'), 2)

    def test_what_is_no_log_is_refused(self):
        self.assertIn("line 2 is none of a StepLog", self.sentence(self.log("a.jsonl", log_of(1) + "kind,step\n")))
        script = '{"kind":"step","x":"</script><script>"}\n'
        self.assertIn("line 1 is none of a StepLog", self.sentence(self.log("b.jsonl", script)))
        self.assertIn("there is no such file", self.sentence(self.folder / "none.jsonl"))
        for words in ([], ["--help"], ["--watch", 5, "page.html"]):
            self.assertTrue(self.sentence(*words).startswith("usage: curves LOG.jsonl"))
        self.assertIn("takes a whole number from 1", self.sentence("--watch", "x", "page.html", "a.jsonl"))

    def test_a_watched_page_is_written_again(self):
        log, page = self.log("run.jsonl", log_of(2)), self.folder / "page.html"
        with subprocess.Popen([self.program, "--watch", "1", page, log]) as watch:
            self.addCleanup(watch.kill)
            self.until(lambda: page.exists())
            log.write_text(log_of(5), encoding="utf-8")
            self.until(lambda: page.read_text(encoding="utf-8").count('"kind":"step"') == 5)
            self.assertIn("const reload = 1;", page.read_text(encoding="utf-8"))
            watch.kill()

    def until(self, condition):
        for _ in range(600):
            if condition():
                return
            time.sleep(0.1)
        self.fail("it was not written")

    @unittest.skipUnless(BROWSER, "there is no Chromium here to look at the page with")
    def test_a_browser_draws_it(self):
        page = self.folder / "page.html"
        page.write_text(self.output(self.log("one.jsonl", log_of(20)), self.log("two.jsonl", log_of(30))),
                        encoding="utf-8")
        for state, curves in ({}, 4 + 2 + 2 + 2 + 2), (
                {"axis": "seconds", "log": True, "smooth": 0.5}, 6 + 2 + 2 + 4 + 4), (
                {"hidden": [str(self.folder / "two.jsonl")]}, 6):
            address = page.as_uri() + "#" + urllib.parse.quote(json.dumps(state))
            result = subprocess.run(
                [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder / 'profile'}",
                 "--dump-dom", address], text=True, capture_output=True, timeout=120, check=True)
            drawn = result.stdout[result.stdout.index('<main id="charts">'):result.stdout.index("<script>")]
            self.assertEqual(re.findall("<h2>(.*?)</h2>", drawn),
                             ["Loss", "accuracy", "top-5 '&amp; (more)\"", "Learning rate", "Samples a second"])
            self.assertEqual(len(re.findall('<path class="run', drawn)), curves, state)
            self.assertNotIn("NaN", drawn)


if __name__ == "__main__":
    program.main()
