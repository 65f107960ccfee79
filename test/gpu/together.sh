#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several GPUs of one process whose steps are recorded, of which NCCL's documentation warns: whether they end, and
# have the bits of steps that are walked.
#
#   test/gpu/together.sh SECONDS BUILD      BUILD has test/gpu/gpu_train_processes; 77: it has not, or too few GPUs
set -uo pipefail

usage='usage: together.sh SECONDS BUILD'
seconds=${1:?$usage}
program=${2:?$usage}/test/gpu/gpu_train_processes
if [ ! -x "$program" ]; then
  echo "skipped: there is no $program (is NCCL installed?)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for ranks in 2 4; do
  timeout -k 2 "$seconds" "$program" "data_parallel_$ranks" walked >"$folder/walked" 2>&1
  status=$?
  if [ "$status" = 77 ]; then
    cat "$folder/walked"
    [ "$ranks" = 4 ] || exit 77
    break # two were there
  fi
  if [ "$status" != 0 ]; then
    cat "$folder/walked"
    echo "answer: $ranks GPUs of one process failed where steps are walked: status $status"
    exit 1
  fi
  for round in 1 2 3; do
    timeout -k 2 "$seconds" "$program" "data_parallel_$ranks" together >"$folder/together" 2>&1
    status=$?
    case $status in
      0)
        if cmp -s "$folder/walked" "$folder/together"; then
          echo "answer: $ranks GPUs of one process, recorded: ended with the bits of walked steps (round $round)"
        else
          diff "$folder/walked" "$folder/together" | head -n 10
          echo "answer: $ranks GPUs of one process, recorded: other bits than walked steps (round $round)"
          exit 1
        fi
        ;;
      124 | 137)
        tail -n 5 "$folder/together"
        echo "answer: $ranks GPUs of one process, recorded: did NOT end in $seconds s (round $round)"
        exit 0 # which is what was asked
        ;;
      *)
        tail -n 5 "$folder/together"
        echo "answer: $ranks GPUs of one process, recorded: status $status (round $round)"
        exit 0
        ;;
    esac
  done
done
exit 0
