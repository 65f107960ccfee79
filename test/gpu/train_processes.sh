#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains by each strategy that gpu_train_processes lists in as many processes as it has ranks, which share the one GPU
# that is here and talk through NCCL: the bits must be those of one process.
#
#   test/gpu/train_processes.sh BUILD      BUILD has test/gpu/gpu_train_processes; 77: it has not, or no GPU
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/processes.sh"

program=${1:?usage: train_processes.sh BUILD}/test/gpu/gpu_train_processes
if [ ! -x "$program" ]; then
  echo "skipped: there is no $program (is NCCL installed?)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failed=0
"$program" list >"$folder/list"
status=$?
if [ "$status" != 0 ]; then
  cat "$folder/list"
  exit "$status"
fi
while read -r name ranks; do
  timeout 60 "$program" "$name" >"$folder/one" 2>&1
  status=$?
  if [ "$status" = 77 ]; then
    cat "$folder/one"
    exit 77
  fi
  if [ "$status" != 0 ]; then
    echo "error: $name, one process: status $status"
    tail -n 5 "$folder/one"
    failed=1
    continue
  fi
  processes=()
  for ((number = 0; number < ranks; ++number)); do
    in_process "$number" "$ranks" "$folder/meet.$name" "$program" "$name" \
      >"$folder/$name.$number.out" 2>"$folder/$name.$number.err" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process" || failed=1; done
  for ((number = 0; number < ranks; ++number)); do
    grep '^step ' "$folder/$name.$number.out" >"$folder/$name.$number" # NCCL names its version there
    if ! cmp "$folder/one" "$folder/$name.$number"; then
      echo "error: $name in $ranks processes: number $number computes otherwise than one alone:"
      tail -n 5 "$folder/$name.$number.out" "$folder/$name.$number.err"
      failed=1
    fi
  done
  echo "$name in $ranks processes: $(wc -l <"$folder/one") steps compared"
done <"$folder/list"
exit "$failed"
