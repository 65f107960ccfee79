#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NCCL between two processes that share the one GPU that is here: NCCL_HOSTID makes each look like a machine of
# its own, so that NCCL does not mind, and everything goes through sockets on the loopback device.
#
#   test/gpu/two_processes.sh BUILD      BUILD has test/gpu/gpu_two_processes; 77: it has not, or there is no GPU
#
# First both processes stay and the numbers must be right; then one is killed in the middle, and the other must
# say so in time. Takes about half a minute.
set -uo pipefail

program=${1:?usage: two_processes.sh BUILD}/test/gpu/gpu_two_processes
if [ ! -x "$program" ]; then
  echo "skipped: there is no $program (is NCCL installed?)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# start NUMBER WHAT: one process in the background; its output is $folder/WHAT.NUMBER.
start() {
  NCCL_HOSTID="tandem-$1" NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo \
    NCCL_DEBUG=${NCCL_DEBUG:-WARN} RANK=$1 WORLD_SIZE=2 LOCAL_RANK=0 TANDEM_RENDEZVOUS="file:$folder/meet.$2" \
    timeout 60 "$program" "$2" >"$folder/$2.$1" 2>&1 &
}

failed=0
for what in numbers killed; do
  start 0 "$what"
  first=$!
  start 1 "$what"
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
