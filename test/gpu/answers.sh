#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Asks two processes that share the one GPU that is here one question of answers.cu, and prints "answer: ...".
#
#   test/gpu/answers.sh must|may SECONDS BUILD QUESTION      BUILD has test/gpu/gpu_answers; 77: it has not, or no GPU
#
# `must` fails (1) unless the processes end in SECONDS with right numbers; after `may`, where that is what is asked,
# not to end is an answer, too. Both are killed when SECONDS are over.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/processes.sh"

usage='usage: answers.sh must|may SECONDS BUILD QUESTION'
wanted=${1:?$usage}
seconds=${2:?$usage}
program=${3:?$usage}/test/gpu/gpu_answers
question=${4:?$usage}
if [ ! -x "$program" ]; then
  echo "skipped: there is no $program (is NCCL installed?)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

arguments=("$question")
[ "$question" != loading ] || arguments+=("$folder/ran")
processes=()
for number in 0 1; do
  in_process "$number" 2 "$folder/meet" timeout -k 2 "$seconds" "$program" "${arguments[@]}" \
    >"$folder/$number" 2>&1 &
  processes+=($!)
done
worst=0
for number in 0 1; do
  wait "${processes[number]}"
  status=$?
  sed "s/^/process $number: /" "$folder/$number"
  case $status in
    0 | 77) ;;
    3 | 124 | 137) status=3 ;; # its own time-out, or ours
    *) status=1 ;;
  esac
  # A wrong number outweighs a time-out, which outweighs what passed.
  if [ "$status" = 1 ] || [ "$worst" = 0 ]; then worst=$status; fi
done

with="CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-unset}"
with+=" CUDA_MODULE_LOADING=${CUDA_MODULE_LOADING:-unset} NCCL_MAX_CTAS=${NCCL_MAX_CTAS:-unset}"
case $worst in
  0) echo "answer: $question ended, numbers right: $(tail -n 1 "$folder/0") ($with)" ;;
  3) echo "answer: $question did NOT end in $seconds s ($with)" ;;
  77) exit 77 ;;
  *) echo "answer: $question went wrong: status $worst ($with)" ;;
esac
[ "$worst" = 0 ] || { [ "$worst" = 3 ] && [ "$wanted" = may ]; }
