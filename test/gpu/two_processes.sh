#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NCCL between two processes that share the one GPU that is here.
#
#   test/gpu/two_processes.sh BUILD      BUILD has test/gpu/gpu_two_processes; 77: it has not, or there is no GPU
#
# First both processes stay and the numbers must be right; then one is killed in the middle, and the other must
# say so in time. Takes about half a minute.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/processes.sh"

program=${1:?usage: two_processes.sh BUILD}/test/gpu/gpu_two_processes
if [ ! -x "$program" ]; then
  echo "skipped: there is no $program (is NCCL installed?)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failed=0
for what in numbers killed; do
  in_process 0 2 "$folder/meet.$what" "$program" "$what" >"$folder/$what.0" 2>&1 &
  first=$!
  in_process 1 2 "$folder/meet.$what" "$program" "$what" >"$folder/$what.1" 2>&1 &
  second=$!
  wait "$first"
  status=$?
  wait "$second"
  other=$?
  if [ "$status" = 77 ]; then
    cat "$folder/$what.0"
    exit 77
  fi
  # The second process kills itself with SIGKILL when that is what is tried; timeout reports it as 137.
  expected=0
  [ "$what" = killed ] && expected=137
  for number in 0 1; do
    sed "s/^/$what, process $number: /" "$folder/$what.$number"
  done
  if [ "$status" != 0 ] || [ "$other" != "$expected" ]; then
    echo "error: $what: the processes ended with $status and $other, not with 0 and $expected"
    failed=1
  fi
done
exit "$failed"
