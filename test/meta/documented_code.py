# SPDX-License-Identifier: Apache-2.0
"""Compiles every ```cpp block (or of another language) of the given Markdown files that has a main.

documented_code.py LANGUAGE INCLUDE_FOLDER FILE... -- COMPILER [FLAG...]
"""

import pathlib
import re
import subprocess
import sys
import tempfile


def main(arguments):
    split = arguments.index("--")
    language, include, files, compiler = *arguments[:2], arguments[2:split], arguments[split + 1:]
    compiled = 0
    for name in files:
        text = pathlib.Path(name).read_text()
        for block in re.findall(rf"```{language}\n(.*?)```", text, re.S):
            if "int main(" not in block:
                continue
            with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
                source.write(block)
                source.flush()
                run = subprocess.run(compiler + ["-fsyntax-only", "-I", include, source.name])
            if run.returncode != 0:
                print(f"{name}: this program does not compile:\n{block}")
                return 1
            compiled += 1
    print(f"{compiled} documented programs compile")
    return 0 if compiled > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
