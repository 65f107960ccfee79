# SPDX-License-Identifier: Apache-2.0
"""Conan 2: `conan create cmake/packages/conan`, then `requires = "tandem/0.2.0"` and find_package(tandem)."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load


class TandemRecipe(ConanFile):
    name = "tandem"
    description = "Trains one neural network on many devices"
    license = "Apache-2.0"
    topics = ("deep-learning", "data-parallel", "pipeline-parallel", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"with_zlib": [True, False]}
    default_options = {"with_zlib": False}  # then find_package(tandem COMPONENTS zlib) takes the system's

    @property
    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        config = load(self, os.path.join(self._tree, "include", "tandem", "core", "config.hpp"))
        parts = (re.search(rf"#define TANDEM_VERSION_{part} (\d+)", config)[1] for part in ("MAJOR", "MINOR", "PATCH"))
        self.version = ".".join(parts)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "include/*", "cmake/tandem*"):
            copy(self, pattern, self._tree, self.export_sources_folder)

    def requirements(self):
        if self.options.with_zlib:
            self.requires("zlib/[>=1.2.11 <2]")

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.settings.clear()  # the same headers for all

    def generate(self):
        CMakeToolchain(self).generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # The CMake package that is installed, with its components, not one that Conan would write.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "tandem")]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("pkg_config_name", "tandem")
        if self.options.with_zlib:
            self.cpp_info.defines = ["TANDEM_ZLIB=1"]
        if self.settings.get_safe("os") != "Windows":
            self.cpp_info.system_libs = ["pthread"]
