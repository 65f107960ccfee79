#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what quickstart.cpp needs, builds it and runs it:
#   examples/quickstart.sh [FOLDER]      with the Fashion-MNIST files; by default those of the package
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../test/setup.sh"

# The folder is meant relative to where the user stands, not to the root of the tree.
folder=/usr/share/datasets/fashion-mnist
[ $# = 0 ] || folder=$(cd "$OLDPWD" && realpath -- "$1")
require_toolchain
[ $# != 0 ] || require zlib1g-dev dataset-fashion-mnist
[ -d "$folder" ] || fail "'$folder' is no folder"

cmake -S . -B build/quickstart -G "$generator" -DTANDEM_EXAMPLES=ON -DTANDEM_EXAMPLES_HEADER_ONLY=ON -DTANDEM_CUDA=OFF >/dev/null
cmake --build build/quickstart --target quickstart -j "$jobs"
build/quickstart/examples/quickstart "$folder"
echo "tandem: quickstart finished after $SECONDS s"
