#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up the JUnit files that ctest writes, and prints one line: "N passed, N failed, N skipped".

    summary.py FILE ...

Exits 1 unless at least one test passed and none failed.
"""

import pathlib
import sys
import xml.etree.ElementTree


def main():
    passed, failed, skipped = 0, 0, 0
    for path in map(pathlib.Path, sys.argv[1:]):
        for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            if case.get("status") == "run":
                passed += 1
            elif case.get("status") == "disabled" or (
                    case.find("skipped") is not None and
                    case.find("skipped").get("message") == "SKIP_RETURN_CODE=77"):
                skipped += 1
                print(f"skipped: {path.stem}: {case.get('name')}")
            else:  # among them "not run", because what it depends on failed
                failed += 1
                print(f"FAILED: {path.stem}: {case.get('name')}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(0 if passed and not failed else 1)


if __name__ == "__main__":
    main()
