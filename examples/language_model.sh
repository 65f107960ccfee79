#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the example language_model and trains it on the King James Bible, which it installs, or on a text of yours:
#   examples/language_model.sh [TEXT [STEPS]]     a UTF-8 file, plain or gzipped, or the folder of a SWORD module
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../test/setup.sh"

# The text is meant relative to where the user stands, not to the root of the tree.
text=/usr/share/sword/modules/texts/ztext/engKJV2006eb
[ $# = 0 ] || text=$(cd "$OLDPWD" && realpath -- "$1")
require_toolchain
[ $# != 0 ] || require sword-text-kjv
[ -e "$text" ] || fail "'$text' is no file and no folder"

cmake -S . -B build/quickstart -G "$generator" -DTANDEM_EXAMPLES=ON -DTANDEM_CUDA=OFF >/dev/null
cmake --build build/quickstart --target language_model -j "$jobs"
build/quickstart/examples/language_model "$text" "${@:2}"
echo "tandem: language_model finished after $SECONDS s"
