#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the page that plan --html writes: its text, its pictures, and its script in a browser where there is one.

    plan_page_test.py PROGRAM
"""

import json
import math
import re
import shutil
import subprocess
import unittest
import urllib.parse
import xml.etree.ElementTree

import plan_cases

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"
SEARCH = ("--net", "inception_v3", "--machine", "dgx-1-v100", "--epochs", "2048:4,4096:7,8192:12,16384:23")


class Page(plan_cases.PlanTest):
    def page(self, *words):
        """The page, and what is printed beside it."""
        path = self.folder / "page.html"
        text = self.output(*words, "--html", path)
        return path.read_text(encoding="utf-8"), text

    def tree(self, *words):
        page, text = self.page(*words)
        return xml.etree.ElementTree.fromstring(page), text

    def rows(self, tree):
        body = tree.find(f".//{HTML}table[@id='plans']/{HTML}tbody")
        return [[cell.text or "" for cell in row] for row in body]

    def test_it_stands_alone(self):
        page, text = self.page(*SEARCH, "--devices", 2)
        self.assertEqual(re.findall(r'(?:src|href)=|@import|url\(|https?://(?!www\.w3\.org/)', page), [])
        self.assertTrue(page.startswith("<!DOCTYPE html>\n"))
        self.assertEqual(text, self.output(*SEARCH, "--devices", 2))
        self.assertEqual(page, self.page(*SEARCH, "--devices", 2)[0])

    def test_it_has_the_rows_of_the_text(self):
        for words in (("--devices", 16), ("--devices", 4, "--memory", "5GB", "--late-gradients")):
            tree, text = self.tree(*SEARCH, *words)
            lines = text.splitlines()
            rows = self.rows(tree)
            first = next(i for i, line in enumerate(lines) if line.endswith("(what bounds it)")) + 1
            self.assertEqual([len(row) for row in rows], [9] * len(rows))
            for line, row in zip(lines[first:], rows):
                cells = dict(zip("devices C speedup T S E GB strategy why".split(), row))
                if line.startswith("  -  "):
                    self.assertEqual(line, f"  -  {cells['strategy']}: {cells['why']}")
                else:
                    self.assertEqual(line.split("  (")[-1], cells["why"] + ")")
                    self.assertEqual(re.split(r"\s{2,}", line.strip().rsplit("  (", 1)[0]),
                                     [cells[name] for name in "C speedup T S E GB strategy".split()])
            self.assertGreater(len(rows), 10)
            self.assertNotRegex(lines[first + len(rows)], r"^ ")
            using = re.search(r"^using Strategy = .*;$", text, re.MULTILINE)[0]
            self.assertIn(using, "".join(tree.find(f".//{HTML}pre").itertext()))

    def test_points_stand_where_their_numbers_are(self):
        tree, text = self.tree(*SEARCH, "--devices", "1..256")
        picture = tree.find(f".//{SVG}svg[@id='time']")
        _, _, width, height = map(float, picture.get("viewBox").split())
        families = {group.get("data-family"): group for group in picture.iter(f"{SVG}g") if group.get("data-family")}
        self.assertEqual(list(families)[0], "DataParallel")
        self.assertGreater(len(families), 4)
        points = [(int(c.get("data-devices")), float(c.get("data-seconds")), float(c.get("cx")), float(c.get("cy")))
                  for c in picture.iter(f"{SVG}circle")]
        at = {devices: x for devices, _, x, _ in points}
        for devices, seconds, x, y in points:
            self.assertTrue(0 < x < width and 0 < y < height, (x, y))
            self.assertAlmostEqual((x - at[1]) / (at[256] - at[1]), math.log2(devices) / 8, delta=1e-3)
        low, high = min(points, key=lambda p: p[1]), max(points, key=lambda p: p[1])
        self.assertLess(high[3], low[3])
        for _, seconds, _, y in points:
            share = math.log(seconds / low[1]) / math.log(high[1] / low[1])
            self.assertAlmostEqual((low[3] - y) / (low[3] - high[3]), share, delta=1e-3)
        for group in families.values():
            line = [tuple(map(float, point.split(","))) for point in group.find(f"{SVG}polyline").get("points").split()]
            self.assertEqual(line, [(float(c.get("cx")), float(c.get("cy"))) for c in group.findall(f"{SVG}circle")])
        ticks = {t.text: float(t.get("y")) for t in picture.findall(f"{SVG}text") if t.text.endswith(" min")}
        share = math.log(600 / low[1]) / math.log(high[1] / low[1])
        self.assertAlmostEqual(low[3] - share * (low[3] - high[3]) + 4, ticks["10 min"], delta=0.2)

        wins = int(re.search(r"a hybrid wins from (\d+) devices on", text)[1])
        crossover = picture.find(f"{SVG}g[@class='crossover']")
        self.assertEqual(int(crossover.get("data-devices")), wins)
        self.assertEqual(float(crossover.find(f"{SVG}line").get("x1")), at[wins])
        best = {name: {int(c.get("data-devices")): float(c.get("data-seconds")) for c in group.iter(f"{SVG}circle")}
                for name, group in families.items()}
        for devices in at:
            hybrid = min(times[devices] for name, times in best.items()
                         if name not in ("DataParallel", "late gradients") and devices in times) if devices > 1 else 1e9
            self.assertEqual(hybrid < best["DataParallel"][devices], devices >= wins, devices)

    def test_memory_bars(self):
        tree, _ = self.tree(*SEARCH, "--devices", 8, "--memory", "6GB")
        picture = tree.find(f".//{SVG}svg[@id='memory']")
        bars = [(float(bar.get("data-bytes")), float(bar.get("width")), float(bar.get("x")), bar.get("class"))
                for bar in picture.iter(f"{SVG}rect")]
        self.assertGreater(len(bars), 3)
        limit = float(picture.find(f"{SVG}line[@class='limit']").get("x1"))
        for size, wide, x, kind in bars:
            self.assertAlmostEqual(wide / size, (limit - x) / 6e9, delta=0.11 / size)
            self.assertEqual(kind, "bar full" if size > 6e9 else "bar")
        self.assertEqual({kind for *_, kind in bars}, {"bar", "bar full"})

    def test_the_step_is_that_of_the_picture(self):
        svg = self.folder / "step.svg"
        page, _ = self.page(*SEARCH, "--devices", 256, "--svg", svg)
        self.assertIn(svg.read_text(encoding="utf-8"), page)

    def test_graphs_of_files_and_what_cannot_be_written(self):
        tree, _ = self.tree("--graph", self.graph(3), "--machine", "dgx-1-v100", "--devices", 2, "--samples", 6400)
        self.assertIn("graph.txt on dgx-1-v100, 64 samples a worker", tree.find(f".//{HTML}title").text)
        self.assertIn("cannot write", self.sentence(*SEARCH, "--devices", 2, "--html", self.folder / "none" / "page.html"))

    def test_meshes_have_one_too(self):
        words = ("--net", "gpt2", "--machine", "dgx-a100", "--global-batch", 64)
        tree, text = self.tree(*words, "--devices", "2..64")
        self.assertIn("gpt2 on dgx-a100, batch 64", tree.find(f".//{HTML}title").text)
        self.assertEqual(text, self.output(*words, "--devices", "2..64"))
        lines = [line for line in text.splitlines() if re.match(r" +[0-9.e-]+ +[0-9.]+ ", line)]
        rows = self.rows(tree)
        self.assertEqual([len(row) for row in rows], [9] * len(rows))
        self.assertEqual([(line.split()[0], line.split()[1], line.split("  ")[-1].strip()) for line in lines],
                         [(row[1], row[3], row[7]) for row in rows])
        picture = tree.find(f".//{SVG}svg[@id='time']")
        best = {}
        for circle in picture.iter(f"{SVG}circle"):
            devices, seconds = int(circle.get("data-devices")), float(circle.get("data-seconds"))
            best[devices] = min(seconds, best.get(devices, seconds))
        self.assertEqual(sorted(best), [2, 4, 8, 16, 32, 64])
        steps = {}
        for row in rows:
            steps.setdefault(int(row[0]), float(row[1]))
        for devices, seconds in steps.items():
            self.assertAlmostEqual(best[devices] / seconds, 1, delta=1e-3)
        parts = [float(part.get("data-seconds")) for part in tree.find(f".//{SVG}svg[@id='steps']").iter(f"{SVG}rect")
                 if part.get("data-seconds")]
        self.assertEqual(len(parts), 7 * 6)
        for at, seconds in enumerate(best[devices] for devices in sorted(best)):
            self.assertAlmostEqual(sum(parts[7 * at:7 * at + 7]) / seconds, 1, delta=1e-6)

    @unittest.skipUnless(BROWSER, "there is no Chromium here to look at the page with")
    def test_a_browser_runs_its_script(self):
        page = self.folder / "page.html"
        self.output(*SEARCH, "--devices", "1..16", "--memory", "6GB", "--html", page)

        def shown(state):
            """The cells of the rows that are to be seen, in their order."""
            address = page.as_uri() + "#" + urllib.parse.quote(json.dumps(state))
            dom = subprocess.run(
                [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder / 'profile'}",
                 "--dump-dom", address], text=True, capture_output=True, timeout=120, check=True).stdout
            rows = re.findall(r"<tr data-devices[^>]*>.*?</tr>", dom)
            seen = [row for row in rows if " hidden=" not in row[:row.index("><")]]
            self.assertIn(f">{len(seen)} of {len(rows)} plans<", dom)
            head = re.search(r'<th [^>]*aria-sort="(\w+)"[^>]*>([^<]*)</th>', dom)
            return [re.findall(r"<td(?: data-value=\"([^\"]*)\")?[^>]*>", row) for row in seen], head[1], head[2]

        rows, way, head = shown({})
        self.assertEqual({row[0] for row in rows}, {"16"})
        times = [float(row[1]) for row in rows if row[1]]
        self.assertEqual((times, way, head), (sorted(times), "ascending", "C"))
        self.assertEqual([row[1] for row in rows[len(times):]], [""] * (len(rows) - len(times)))
        self.assertGreater(len(rows), len(times))

        rows, way, head = shown({"devices": "all", "column": 6, "down": True, "refused": False})
        sizes = [float(row[6]) for row in rows]
        self.assertEqual((sizes, way, head), (sorted(sizes, reverse=True), "descending", "GB"))
        self.assertEqual({row[0] for row in rows}, {"2", "4", "8", "16"})  # one device has no room
        self.assertNotIn("", [row[1] for row in rows])
        rows, way, head = shown({"devices": "4", "column": 7})
        names = [row[7] for row in rows]
        self.assertEqual((names, way, head), (sorted(names), "ascending", "strategy"))


if __name__ == "__main__":
    plan_cases.main()
