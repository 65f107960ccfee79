#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a package of the tree as a package manager does, and builds a program with what is in it.

    packages.py pkg_config|conan|vcpkg|spack|debian SOURCE FOLDER COMPILER [PREFIX]

FOLDER is emptied; PREFIX is where tandem is installed, for pkg_config. vcpkg and Spack themselves are not needed: the port's
steps are run over a few lines that stand for vcpkg's functions, and Spack's recipe over such for its directives.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import stand_in_spack


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def check(good, sentence):
    if not good:
        sys.exit(sentence)


class Packages:
    def __init__(self, source, folder, compiler, prefix=""):
        self.source, self.folder, self.compiler = pathlib.Path(source), pathlib.Path(folder), compiler
        self.prefix = pathlib.Path(prefix)
        self.recipes = self.source / "cmake" / "packages"
        config = (self.source / "include/tandem/core/config.hpp").read_text(encoding="utf-8")
        self.version = ".".join(re.search(rf"#define TANDEM_VERSION_{part} (\d+)", config)[1]
                                for part in ("MAJOR", "MINOR", "PATCH"))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def consumer(self, *flags):
        """Compiled with these flags and no -I of the tree, and run."""
        program = self.folder / "consumer"
        run(self.compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", self.recipes / "conan/test_package/main.cpp", *flags,
            "-o", program)
        check(f"tandem {self.version}:" in run(program), "the program has another version's headers")

    def headers(self, include):
        """That include/ has all headers of the tree, and no other."""
        here, there = ({path.relative_to(root) for path in root.rglob("*.?*") if path.is_file()}
                       for root in (self.source / "include/tandem", include / "tandem"))
        check(here == there, f"headers of the tree and of the package differ: {sorted(map(str, here ^ there))[:5]}")

    def pkg_config(self, prefix=None):
        prefix = prefix or self.prefix
        tool = shutil.which("pkg-config")
        environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "share" / "pkgconfig")}
        check(run(tool, "--modversion", "tandem", env=environment).strip() == self.version, "tandem.pc has another version")
        flags = run(tool, "--cflags", "--libs", "tandem", env=environment).split()
        check(any(flag.startswith("-I") and (pathlib.Path(flag[2:]) / "tandem/tandem.hpp").is_file() for flag in flags),
              f"pkg-config's flags lead to no header: {flags}")
        self.consumer(*flags)

    def conan(self):
        tool = shutil.which("conan")
        environment = {**os.environ, "CONAN_HOME": str(self.folder / "home")}
        if "g++" in self.compiler:  # Conan looks at the C compiler
            environment |= {"CXX": self.compiler, "CC": self.compiler.replace("clang++", "clang").replace("g++", "gcc")}
        run(tool, "profile", "detect", env=environment)
        said = run(tool, "create", self.recipes / "conan", "--no-remote", "-s", "compiler.cppstd=20",
                   "-tf", self.copy(self.recipes / "conan/test_package"), env=environment)
        check(f"tandem {self.version}:" in said, f"the test of Conan's package did not run:\n{said}")

    def copy(self, folder):
        """For tools that build beside what they read."""
        copied = self.folder / folder.name
        shutil.copytree(folder, copied)
        return copied

    def vcpkg(self):
        port = self.recipes / "vcpkg" / "tandem"
        manifest = json.loads((port / "vcpkg.json").read_text(encoding="utf-8"))
        check(manifest["name"] == port.name and manifest["version-semver"] == self.version, "vcpkg.json: name or version")
        known = {"$comment", "name", "version-semver", "description", "license", "supports", "dependencies", "features"}
        check(set(manifest) <= known, f"vcpkg.json has fields that vcpkg may not know: {set(manifest) - known}")
        needed = manifest["dependencies"] + [d for f in manifest["features"].values() for d in f["dependencies"]]
        names = [d if isinstance(d, str) else d["name"] for d in needed] + list(manifest["features"])
        check(all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names), f"vcpkg.json: a name in {names}")
        check(all(f["description"] for f in manifest["features"].values()), "vcpkg.json: a feature without a description")
        package = self.folder / "package"
        run("cmake", f"-DPORTFILE={port / 'portfile.cmake'}", f"-DCURRENT_PACKAGES_DIR={package}",
            f"-DBUILD={self.folder / 'build'}", f"-DCMAKE_CXX_COMPILER={self.compiler}", "-P",
            self.source / "test/consumers/stand_in_vcpkg.cmake")
        self.headers(package / "include")
        for name in ("copyright", "usage", "tandemConfig.cmake", "tandemTargets.cmake"):
            check((package / "share/tandem" / name).is_file(), f"the port installs no share/tandem/{name}")
        for name in ("debug", "lib", "share/cmake"):
            check(not (package / name).exists(), f"the port installs {name}, which vcpkg refuses")
        self.found_by_cmake(package)

    def found_by_cmake(self, prefix):
        run("cmake", "-S", self.copy(self.recipes / "conan/test_package"), "-B", self.folder / "found",
            f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={self.compiler}", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", self.folder / "found")
        check(f"tandem {self.version}:" in run(self.folder / "found" / "consumer"), "find_package() finds another version")

    def spack(self):
        recipe = stand_in_spack.load(self.recipes / "spack/packages/tandem/package.py")
        check(recipe.versions == [self.version], f"Spack's recipe has the versions {recipe.versions}")
        wanted = {condition.strip("+") for _, condition in recipe.needs if condition}
        check(wanted == set(recipe.variants), f"variants {recipe.variants}, but dependencies for {wanted}")

    def debian(self):
        tree = self.folder / "tree"
        tree.mkdir()
        for name in ("include", "cmake"):
            shutil.copytree(self.source / name, tree / name)
        for name in ("CMakeLists.txt", "LICENSE", "README.md"):
            shutil.copy(self.source / name, tree)
        shutil.copytree(self.recipes / "debian", tree / "debian")
        log = (tree / "debian/changelog").read_text(encoding="utf-8")
        check(log.startswith(f"tandem ({self.version}-"), "debian/changelog begins with another version")
        run("dpkg-buildpackage", "-b", "-us", "-uc", "-d", cwd=tree, env={**os.environ, "CXX": self.compiler})
        package, = self.folder.glob("libtandem-dev_*_all.deb")
        run("dpkg", "-x", package, self.folder / "root")
        self.headers(self.folder / "root/usr/include")
        listed = run("dpkg-deb", "--contents", package)
        for path in ("share/cmake/tandem/tandemConfig.cmake", "share/pkgconfig/tandem.pc", "share/doc/libtandem-dev/copyright"):
            check(f"./usr/{path}\n" in listed, f"the package has no /usr/{path}:\n{listed}")
        self.pkg_config(self.folder / "root/usr")


def main():
    kind, *arguments = sys.argv[1:]
    getattr(Packages(*arguments), kind)()


if __name__ == "__main__":
    main()
