# SPDX-License-Identifier: Apache-2.0
"""Stands for the few directives of Spack that the recipe uses: loads it, and says what it has declared."""

import importlib.util
import sys
import types


class Recipe:
    def __init__(self):
        self.versions, self.variants, self.needs, self.conflicts = [], [], [], []


def load(path):
    recipe = Recipe()
    package = types.ModuleType("spack.package")

    package.CMakePackage = object
    package.license = lambda name: None
    package.version = lambda name, **_: recipe.versions.append(name)
    package.variant = lambda name, default, description: recipe.variants.append(name)
    package.depends_on = lambda spec, when="", type=None: recipe.needs.append((spec, when))
    package.conflicts = lambda spec, msg: recipe.conflicts.append(spec)
    sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), package
    spec = importlib.util.spec_from_file_location("package", path)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return recipe
