#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains with 2 and with 4 processes that share the one GPU that is here, and talk through NCCL: the bits must be
# those of one process.
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
for ranks in 2 4; do
  timeout 60 "$program" "$ranks" >"$folder/one.$ranks" 2>&1
  status=$?
  if [ "$status" != 0 ]; then
    cat "$folder/one.$ranks"
    exit "$status"
  fi
  processes=()
  for ((number = 0; number < ranks; ++number)); do
    in_process "$number" "$ranks" "$folder/meet.$ranks" "$program" "$ranks" \
      >"$folder/$ranks.$number" 2>"$folder/$ranks.$number.err" &
    processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process" || failed=1; done
  for ((number = 0; number < ranks; ++number)); do
    if ! cmp "$folder/one.$ranks" "$folder/$ranks.$number"; then
      echo "error: of $ranks processes, number $number computes otherwise than one alone:"
      tail -n 5 "$folder/$ranks.$number" "$folder/$ranks.$number.err"
      failed=1
    fi
  done
  echo "$ranks processes: $(wc -l <"$folder/one.$ranks") steps compared"
done
exit "$failed"
