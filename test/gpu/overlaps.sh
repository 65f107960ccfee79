#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether steps whose work overlaps have the bits of those whose does not, and how long each takes.
#
#   test/gpu/overlaps.sh SECONDS BUILD branches|launches|both      BUILD has test/gpu/gpu_overlaps; 77: it has not
#
# Fails (1) where they end with other bits, or with an error, or the plain steps fail. Not to end in SECONDS is an answer,
# since the library does not overlap anything unasked.
set -uo pipefail

usage='usage: overlaps.sh SECONDS BUILD branches|launches|both'
seconds=${1:?$usage}
program=${2:?$usage}/test/gpu/gpu_overlaps
which=${3:?$usage}
if [ ! -x "$program" ]; then
  echo "skipped: there is no $program"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for name in plain "$which"; do
  timeout -k 2 "$seconds" "$program" "$name" >"$folder/$name" 2>&1
  status=$?
  cat "$folder/$name"
  case $status in
    0) ;;
    77) exit 77 ;;
    124 | 137)
      echo "answer: $name did NOT end in $seconds s"
      [ "$name" != plain ]
      exit
      ;;
    *)
      echo "answer: $name went wrong: status $status"
      exit 1
      ;;
  esac
done
bits() { grep '^bits ' "$folder/$1"; }
took() { sed -n 's/^answer: [a-z]*: //p' "$folder/$1"; }
if [ "$(bits plain)" != "$(bits "$which")" ]; then
  echo "answer: $which: OTHER bits than plain steps ($(took "$which"); plain $(took plain))"
  exit 1
fi
echo "answer: $which: the bits of plain steps ($(took "$which"); plain $(took plain))"
