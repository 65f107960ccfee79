# SPDX-License-Identifier: Apache-2.0
"""Spack: `spack repo add cmake/packages/spack`, then `spack dev-build tandem@0.2.0` in the tree."""

from spack.package import *


class Tandem(CMakePackage):
    """Trains one neural network on many devices: a library of C++20 headers."""

    license("Apache-2.0")

    version("0.2.0")

    variant("zlib", default=True, description="Read data sets that are compressed")
    variant("images", default=True, description="Read folders of JPEG and PNG files")
    variant("onednn", default=True, description="Let Host compute with oneDNN")
    variant("cuda", default=False, description="Bring what tandem::cuda needs")

    depends_on("cxx", type="build")
    depends_on("cmake@3.23:", type="build")
    depends_on("zlib-api", when="+zlib")
    depends_on("jpeg", when="+images")
    depends_on("libpng", when="+images")
    depends_on("onednn@2:", when="+onednn")
    depends_on("cuda@13:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")
    depends_on("nccl", when="+cuda")

    conflicts("%gcc@:11", msg="tandem needs g++ 12 or newer")
    conflicts("%clang@:13", msg="tandem needs clang 14 or newer")
