#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Searches for inputs that break the readers of files:
#   test/fuzz.sh [SECONDS [NAME ...]]     600 seconds and all targets of test/fuzz/ by default
# and for networks and strategies whose numbers are not those of one device, or mutations that nobody sees:
#   test/fuzz.sh strategies [SECONDS [OPTION ...]]     options of test/fuzz/strategies/run.py
#   test/fuzz.sh mutations [NAME ...]
# Works on copies of the corpora, in build/fuzz/; an input that fails is left there as NAME-crash-*.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

if [ "${1:-}" = strategies ]; then
  require g++ python3
  exec python3 test/fuzz/strategies/run.py --keep --seconds "${2:-600}" "${@:3}"
elif [ "${1:-}" = mutations ]; then
  require g++ python3
  exec python3 test/fuzz/strategies/mutations.py "${@:2}"
fi
require clang g++ libcli11-dev
require "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"
wish_for zlib1g-dev libjpeg-dev libpng-dev
seconds=${1:-600}
[[ $seconds =~ ^[0-9]+$ ]] || fail "usage: test/fuzz.sh [SECONDS [NAME ...]]"
shift $(($# > 0))
if [ $# = 0 ]; then
  shopt -s nullglob
  for source in test/fuzz/*_fuzz.cpp; do
    set -- "$@" "$(basename "$source" _fuzz.cpp)"
  done
fi
libraries=()
! is_there zlib1g-dev || libraries+=(-DTANDEM_ZLIB=1 -lz)
! is_there libjpeg-dev || ! is_there libpng-dev || libraries+=(-DTANDEM_IMAGES=1 -ljpeg -lpng)

for name in "$@"; do
  folder=build/fuzz/$name
  mkdir -p "$folder"
  clang++ -std=c++20 -O1 -g -Iinclude -Itest -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=all "test/fuzz/${name}_fuzz.cpp" -pthread "${libraries[@]}" -o "build/fuzz/$name.fuzz"
  if [ -d "test/fuzz/corpus/$name" ]; then
    cp -r "test/fuzz/corpus/$name/." "$folder"
  fi
  echo "---- $name: $seconds s"
  "build/fuzz/$name.fuzz" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$name-" "$folder"
done
echo "tandem: nothing found in $# fuzz targets, $seconds s each"
