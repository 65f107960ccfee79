#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of examples/translation.sh: on small texts that are made here, and on the Bible where it is installed."""

import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = "usr/share/sword/modules/texts/ztext"
KJV = pathlib.Path("/") / MODULES / "engKJV2006eb"
HELP = "usr/share/libreoffice/help"


def catalogue(entries):
    """A file of gettext's, as msgfmt writes it."""
    entries = sorted((key.encode(), value.encode()) for key, value in entries.items())
    tables, texts, at = [b"", b""], b"", 28 + 16 * len(entries)
    for side in range(2):
        for entry in entries:
            tables[side] += struct.pack("<2I", len(entry[side]), at + len(texts))
            texts += entry[side] + b"\0"
    return struct.pack("<7I", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, at) + b"".join(tables) + texts


class Translation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.packages = self.folder / "packages"
        self.packages.mkdir()

    def run_script(self, language):
        return subprocess.run([ROOT / "examples/translation.sh", language, self.folder / "out"], text=True,
                              env={**os.environ, "TANDEM_PACKAGES_ROOT": str(self.packages)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def put(self, name, content):
        path = self.packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def lines(self, name):
        return (self.folder / "out" / name).read_text(encoding="utf-8").splitlines()

    def test_what_is_missing_is_named_and_nothing_installed(self):
        for language, packages in [("es", "sword-text-kjv sword-text-sparv"),
                                   ("de", "libreoffice-help-en-us libreoffice-help-de libreoffice-l10n-de")]:
            run = self.run_script(language)
            self.assertEqual(run.returncode, 77)
            self.assertIn(f"run 'apt-get install {packages}' as root, then this again", run.stdout)
        run = self.run_script("fr")
        self.assertEqual(run.returncode, 1)
        self.assertIn("translation.sh takes es or de, not 'fr'", run.stdout)

    def test_paragraphs_of_the_help_and_catalogues_are_paired(self):
        page = '<h1 id="h">{}</h1><p id="a">{}</p><p id="b"> = 1 </p><p>none</p><p id="{}">x y</p><p id="a2">{}</p>'
        self.put(f"{HELP}/en-US/text/a/1.html", page.format("Files", "Save\n the <b>file</b> &amp; go.", "c", "Same"))
        self.put(f"{HELP}/de/text/a/1.html", page.format("Dateien", "Die Datei  sichern.", "d", "Same"))
        self.put(f"{HELP}/en-US/text/alone.html", '<p id="e">Alone</p>')
        self.put("usr/lib/libreoffice/program/resource/de/LC_MESSAGES/x.mo",
                 catalogue({"": "Content-Type: text/plain; charset=UTF-8\n", "menu\x04~Open": "Ö~ffnen", "menu2\x04Open": "Öffnen",
                            "menu\x04OK": "OK"}))
        run = self.run_script("de")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("3 pairs in ", run.stdout)
        self.assertEqual(self.lines("office.en"), ["Files", "Save the file & go.", "Open"])
        self.assertEqual(self.lines("office.de"), ["Dateien", "Die Datei sichern.", "Öffnen"])

    @unittest.skipUnless(KJV.is_dir() and shutil.which("g++"), "install sword-text-kjv")
    def test_verses_are_paired(self):
        modules = self.packages / MODULES
        modules.mkdir(parents=True)
        other = pathlib.Path("/") / MODULES / "spaRV1909eb"
        (modules / KJV.name).symlink_to(KJV)
        (modules / other.name).symlink_to(other if other.is_dir() else KJV)  # else a Bible with itself
        run = self.run_script("es")
        self.assertEqual(run.returncode, 0, run.stdout)
        count = 31084 if other.is_dir() else 31102
        self.assertIn(f"{count} pairs in ", run.stdout)
        english, spanish = self.lines("bible.en"), self.lines("bible.es")
        self.assertEqual((len(english), len(spanish)), (count, count))
        self.assertEqual(english[0], "In the beginning God created the heaven and the earth.")
        self.assertEqual(spanish[0], "EN el principio crió Dios los cielos y la tierra." if other.is_dir() else english[0])


if __name__ == "__main__":
    unittest.main()
