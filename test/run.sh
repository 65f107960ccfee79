#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests everything: the suite, whether examples and benchmarks compile elsewhere, then the unit tests
# under the sanitizers. All output of the build is in build/. Exits 0 only if all passed; what is not installed and
# cannot be is skipped.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

require_toolchain
require doctest-dev python3
wish_for libbenchmark-dev libcli11-dev dataset-fashion-mnist clang clang-format coinor-cbc

results=$root/build/results
rm -rf "$results"
mkdir -p "$results"
status=0

# What is not optimised is left to clang where it is found: a second opinion, in a third of g++'s time.
unoptimized=()
if is_there clang; then
  sanitizers=libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev
  wish_for "$sanitizers"
  ! is_there "$sanitizers" || unoptimized=(-DCMAKE_CXX_COMPILER=clang++)
fi

# build PRESET OPTION ...: configures and builds as CMakePresets.json says. A build that fails ends the script.
build() {
  local begin=$SECONDS
  echo "---- $1: build"
  cmake --preset "$1" -G "$generator" "${@:2}" >"$results/$1.configure" ||
    { cat "$results/$1.configure"; fail "$1: CMake failed"; }
  cmake --build --preset "$1" -j "$jobs" || fail "$1: the build failed"
  echo "---- $1: built in $((SECONDS - begin)) s"
}

# suite PRESET OPTION ...: the same, and the tests. One that fails does not end the script.
suite() {
  build "$@" -DTANDEM_TESTS_UNITY=ON
  local begin=$SECONDS
  echo "---- $1: test"
  ctest --preset "$1" -j "$jobs" --no-tests=error --output-junit "$results/$1.xml" || status=1
  echo "---- $1: tested in $((SECONDS - begin)) s"
}

suite release
build programs "${unoptimized[@]}"
suite asan "${unoptimized[@]}"
suite tsan "${unoptimized[@]}"

python3 test/meta/summary.py "$results"/*.xml || status=1
if [ "$status" = 0 ]; then
  echo "tandem: all tests passed ($((SECONDS / 60)) min $((SECONDS % 60)) s)"
else
  echo "tandem: some tests FAILED; see above, or the files in build/results"
fi
exit "$status"
