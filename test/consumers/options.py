#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configures tandem, and projects that use it, with options and components right and wrong. Nothing is built.

    options.py CMAKE GENERATOR SOURCE PREFIX COMPILER

PREFIX is where tandem is installed. What is there of zlib and oneDNN is made known by cache entries, so that no machine's
libraries matter.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

PROJECT = """\
cmake_minimum_required(VERSION 3.23)
project(consumer LANGUAGES CXX)
if(SUBDIRECTORY)
  add_subdirectory(${SUBDIRECTORY} tandem)
else()
  find_package(tandem REQUIRED ${COMPONENTS})
endif()
file(WRITE main.cpp "int main() {}")
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE tandem::tandem tandem::native)
file(GENERATE OUTPUT flags.txt CONTENT "$<TARGET_PROPERTY:consumer,COMPILE_DEFINITIONS>;$<TARGET_PROPERTY:consumer,COMPILE_OPTIONS>"
     TARGET consumer)
"""
ZLIB = ["-DZLIB_INCLUDE_DIR=/usr/include", "-DZLIB_LIBRARY=/usr/lib/libz.so"]
ONEDNN = ["-DTANDEM_ONEDNN_INCLUDE_DIR=/usr/include", "-DTANDEM_ONEDNN_LIBRARY=/usr/lib/libdnnl.so"]
NO_ONEDNN = ["-DTANDEM_ONEDNN_INCLUDE_DIR=", "-DTANDEM_ONEDNN_LIBRARY="]
IMAGES = [f"-D{name}={path}" for name, path in (
    ("JPEG_INCLUDE_DIR", "/usr/include"), ("JPEG_LIBRARY", "/usr/lib/libjpeg.so"),
    ("PNG_PNG_INCLUDE_DIR", "/usr/include"), ("PNG_LIBRARY", "/usr/lib/libpng.so"))]
NO_IMAGES = ["-DJPEG_INCLUDE_DIR=", "-DJPEG_LIBRARY="]
BOTH = [*ZLIB, *ONEDNN]
RELEASE = ["-DCMAKE_BUILD_TYPE=Release"]

# (options; words of what is said, or the flags that a program gets, or both)
CASES = [
    ([*RELEASE, *BOTH], None, "-march=native"),
    ([*RELEASE, *BOTH, "-DCOMPONENTS=COMPONENTS;zlib"], None, "TANDEM_ZLIB=1;-march=native"),
    ([*RELEASE, *BOTH, "-DCOMPONENTS=COMPONENTS;onednn;zlib"], None, "TANDEM_ONEDNN=1;TANDEM_ZLIB=1;-march=native"),
    ([*RELEASE, *BOTH, "-DTANDEM_ONEDNN=on", "-DTANDEM_ZLIB=AUTO"], None, "TANDEM_ONEDNN=1;TANDEM_ZLIB=1;-march=native"),
    ([*RELEASE, *NO_ONEDNN, "-DCOMPONENTS=COMPONENTS;onednn"], "tandem's onednn is wanted, but", None),
    ([*RELEASE, *NO_ONEDNN, "-DTANDEM_ONEDNN=ON"], "tandem's onednn is wanted, but", None),
    ([*RELEASE, *NO_ONEDNN, "-DTANDEM_ONEDNN=AUTO"], None, "-march=native"),
    ([*RELEASE, *BOTH, "-DCOMPONENTS=COMPONENTS;compiled;zlib"], None, "TANDEM_ZLIB=1;-march=native"),
    ([*RELEASE, *NO_ONEDNN, *ZLIB, "-DCOMPONENTS=OPTIONAL_COMPONENTS;onednn;zlib"], None, "TANDEM_ZLIB=1;-march=native"),
    ([*RELEASE, *ZLIB, *IMAGES, "-DCOMPONENTS=COMPONENTS;images"], None, "TANDEM_IMAGES=1;-march=native"),
    ([*RELEASE, *NO_IMAGES, "-DCOMPONENTS=COMPONENTS;images"], "tandem's images are wanted, but libjpeg or libpng", None),
    ([*RELEASE, "-DCOMPONENTS=COMPONENTS;onedn"], "there is no component onedn; there are zlib,", None),
    ([*BOTH], "CMAKE_BUILD_TYPE is empty, so that the compiler optimises nothing", None),
    ([*BOTH, "-DSUBDIRECTORY={source}"], "CMAKE_BUILD_TYPE is empty", "-march=native"),
    ([*RELEASE, *BOTH, "-DSUBDIRECTORY={source}", "-DTANDEM_ONEDNN=ON"], None, "TANDEM_ONEDNN=1;-march=native"),
]
OWN_CASES = [
    (["-DTANDEM_ONEDNN=maybe"], "TANDEM_ONEDNN is MAYBE, but takes AUTO, ON or OFF"),
    ([*NO_ONEDNN, "-DTANDEM_ONEDNN=ON"], "tandem's onednn is wanted, but"),
    ([], "CMAKE_BUILD_TYPE is Release, since none was given"),
]
# Who configures to install reads of compiler and threads, and of no test, example or library.
FOR_MAINTAINERS = re.compile(r"Left out|CUDA|\bMPI|OpenMP|Python|ZLIB|JPEG|PNG|doctest|benchmark|test")


def configure(cmake, generator, compiler, source, build, options):
    command = [cmake, "--no-warn-unused-cli", "-G", generator, "-S", source, "-B", build, f"-DCMAKE_CXX_COMPILER={compiler}"]
    done = subprocess.run([*command, *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return " ".join(done.stdout.split())  # as CMake breaks no line


def main():
    cmake, generator, source, prefix, compiler = sys.argv[1:]
    faults = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
        for i, (options, words, flags) in enumerate(CASES):
            build = folder / f"build_{i}"
            given = [option.format(source=source) for option in options]
            said = configure(cmake, generator, compiler, folder, build, [f"-DCMAKE_PREFIX_PATH={prefix}", *given])
            if (words or "") not in said or not words and "CMake Warning" in said:
                faults.append(f"{given}: not '{words}', but:\n{said}")
            if flags:
                found = (build / "flags.txt").read_text("utf-8") if (build / "flags.txt").exists() else said
                if sorted(set(found.split(";")) - {"-fopenmp", ""}) != sorted(flags.split(";")):
                    faults.append(f"{given}: not '{flags}', but '{found}'")
        for i, (options, words) in enumerate(OWN_CASES):
            said = configure(cmake, generator, compiler, source, folder / f"own_{i}", options)
            if words not in said:
                faults.append(f"{options}: not '{words}', but:\n{said}")
            if not options and FOR_MAINTAINERS.search(said.replace(str(folder), "")):
                faults.append(f"configured to install, it says more than a user needs:\n{said}")
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(CASES) + len(OWN_CASES)} configurations are as they should be")


if __name__ == "__main__":
    main()
