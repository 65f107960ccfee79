#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests everything:
#   test/run.sh [--whole]
# What needs no compiler comes first (a minute at most, and nothing is built if it fails), then the suite, its larger tests
# without optimisation, and the unit tests under the sanitizers. --whole draws more strategies and failures, sees whether
# the host's benchmarks compile, and has every misuse by both compilers, a network for every GPU and more tests under both
# sanitizers (TANDEM_TESTS_WHOLE).
# All output of the build is in build/. Ends with the time of each part. Exits 0 only if all passed; what is not installed
# and cannot be is skipped.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

whole=()
case "$*" in
  "") ;;
  --whole) whole=(-DTANDEM_TESTS_WHOLE=ON) ;;
  *) fail "usage: test/run.sh [--whole]" ;;
esac

require_toolchain
require doctest-dev python3
wish_for libsentencepiece-dev libjpeg-dev libpng-dev libopenmpi-dev openmpi-bin libbenchmark-dev libcli11-dev \
  dataset-fashion-mnist sword-text-kjv clang clang-format coinor-cbc pkgconf debhelper python3-venv valgrind
wish_for_python conan=conan "material=mkdocs-material>=9.5,<10" numpy=numpy onnx=onnx onnxruntime=onnxruntime \
  nvidia.cu13.bin=nvidia-cuda-nvdisasm ziglang=ziglang

# Tests run beside each other and the next build, where OpenMP's waiting threads would spin against them.
export OMP_WAIT_POLICY=passive

results=$root/build/results
rm -rf "$results"
mkdir -p "$results"
status=0

# What is not optimised is left to clang where it is found: a second opinion, in half of g++'s time.
unoptimized=()
if is_there clang; then
  sanitizers=libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev
  wish_for "$sanitizers"
  ! is_there "$sanitizers" || unoptimized=(-DCMAKE_CXX_COMPILER=clang++)
  # A test's object has a hundred megabytes and more of names, which LLD sorts in a fifth of the time.
  ! command -v ld.lld >/dev/null || unoptimized+=(-DCMAKE_EXE_LINKER_FLAGS="-fuse-ld=lld ${LDFLAGS:-}")
fi
# A sanitizer that finds something names functions, not lines, which take a fifth of the time and a third of the memory:
# the same preset by hand has them.
unoptimized+=(-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0)

# part NAME COMMAND ...: runs the command, notes how long it took, and returns its status.
parts=()
part() {
  local begin=$SECONDS result=0
  echo "---- $1"
  "${@:2}" || result=$?
  parts+=("$(printf '%6d s  %s' $((SECONDS - begin)) "$1")")
  return "$result"
}

# An end in the middle says, too, how long its parts took, and leaves no build behind.
building=
finish() {
  [ -z "$building" ] || kill -- "-$building" 2>/dev/null || true
  printf '%s\n' "${parts[@]}"
  printf '%6d s  in all, on %d cores\n' "$SECONDS" "$jobs"
}
trap finish EXIT

# configure PRESET OPTION ...: as CMakePresets.json says.
configure() {
  cmake --preset "$1" -G "$generator" "${@:2}" >"$results/$1.configure" ||
    { cat "$results/$1.configure"; fail "$1: CMake failed"; }
}

# build PRESET: one that fails ends the script.
build() {
  part "$1: build" cmake --build --preset "$1" -j "$jobs" || fail "$1: the build failed"
}

# begin_build PRESET: configures and builds it while the tests of another run, which leave cores idle where they wait for
# each other, for a limit of time or for the last of them. At the lowest priority, so that they have what they want. Where
# memory would be short, end_build does it all.
begin_build() {
  local available
  available=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null) || true
  [ "${available:-0}" -ge $((6 * jobs)) ] || return 0
  set -m  # a process group of its own, for finish
  (configure "$@" && nice -n 19 cmake --build --preset "$1" -j "$jobs") >"$results/$1.build" 2>&1 &
  building=$!
  set +m
}

# end_build PRESET OPTION ...: waits for it. One that fails ends the script.
end_build() {
  if [ -n "$building" ]; then
    part "$1: build, the rest" wait "$building" || { building=; cat "$results/$1.build"; fail "$1: the build failed"; }
    building=
  else
    part "$1: configure" configure "$@"
    build "$1"
  fi
}

# tests PRESET NAME OPTION ...: of ctest; results are NAME.xml. One that fails does not end the script.
tests() {
  part "$2: test" ctest --preset "$1" -j "$jobs" --no-tests=error --output-junit "$results/$2.xml" "${@:3}" || status=1
}

# Nothing that needs doctest may be left out silently.
with_tests=(-DTANDEM_TESTS_UNITY=ON -DCMAKE_REQUIRE_FIND_PACKAGE_doctest=ON)
part "suite: configure" configure suite "${with_tests[@]}" "${whole[@]}" \
  -DTANDEM_ONNX_PYTHON="$root/build/python/bin/python3"
tests suite first -L first
[ "$status" = 0 ] || fail "the first tests failed; see above. Nothing was built"
build suite
options=("${with_tests[@]}" "${unoptimized[@]}" "${whole[@]}")
begin_build larger "${options[@]}"
tests suite suite -LE first
end_build larger "${options[@]}"
begin_build asan "${options[@]}"
tests larger larger
end_build asan "${options[@]}"
begin_build tsan "${options[@]}"
tests asan asan
end_build tsan "${options[@]}"
tests tsan tsan
if [ ${#whole[@]} -gt 0 ]; then
  part "larger: benchmarks" cmake --build --preset larger -j "$jobs" --target benches || fail "a benchmark does not compile"
fi

python3 test/meta/summary.py "$results"/*.xml || status=1
if [ "$status" = 0 ]; then
  echo "tandem: all tests passed ($((SECONDS / 60)) min $((SECONDS % 60)) s)"
else
  echo "tandem: some tests FAILED; see above, or the files in build/results"
fi
exit "$status"
