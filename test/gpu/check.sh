#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and checks tandem on a machine with a GPU: nvcc, CMake and python3 suffice, nothing is downloaded.
#
#   test/gpu/check.sh build|first|test|sanitize|bench [RESULTS]
#
#   build      the GPU tests and benchmarks, in build/gpu, for the GPU that is here
#   first      what only hardware answers, each question with a time limit and with and without the mend: several
#              GPUs of one process recorded, links and collectives on 1, 8 and 32 hardware queues, lazy loading,
#              destruction, registered memory, steps whose work overlaps. Builds the three programs that it needs
#   test       all of them: kernels, backend, parity with Host, ranks and processes that share the GPU
#   sanitize   the kernel tests under compute-sanitizer: memcheck, racecheck, initcheck
#   bench      bench/cuda, with PyTorch beside it if python3 has it
#
# Each takes less than ten minutes on 16 cores, prints a table, and writes RESULTS/<verb>.json and the parts'
# logs (default: build/gpu/results). A part that fails does not keep others from running. Exit status: 0 all
# passed, 1 some failed, 2 wrong usage, 77 there is no GPU. From the environment:
#
#   DOCTEST_DIR     a folder that has doctest/doctest.h, where doctest is not installed
#   ARCHITECTURES   what to build for, as 90 or "80;90"; without it the GPU's. `build` then needs no GPU
#   BENCH_OPTIONS   more options of bench/cuda/run.py, as --batch 128
#   LIMIT           seconds for all parts of a verb (default 570); what has no time left counts as failed
#   JOBS            parallel compilations (default: the number of cores)
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit 1
build=$root/build/gpu
packaged=$build/packaged
verb=${1:-}
results=${2:-$build/results}
jobs=${JOBS:-$(nproc)}
limit=${LIMIT:-570}

say() { echo "check.sh: $*" >&2; }

case $verb in
  build | first | test | sanitize | bench) ;;
  *)
    say "usage: test/gpu/check.sh build|first|test|sanitize|bench [RESULTS]"
    exit 2
    ;;
esac
if [ $# -gt 2 ]; then
  say "one folder for the results at most, not '${*:2}'"
  exit 2
fi

# The compute capability of the first GPU, as 90; fails where there is none.
capability() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d '. ' |
    grep -x '[0-9]*[0-9]'
}

architectures=${ARCHITECTURES:-}
if [ "$verb" != build ] || [ -z "$architectures" ]; then
  if ! here=$(capability); then
    say "there is no GPU here: nvidia-smi shows none; 'ARCHITECTURES=90 test/gpu/check.sh build' needs none"
    exit 77
  fi
  architectures=${architectures:-$here}
fi

mkdir -p "$results/$verb" || exit 1
results=$(cd "$results" && pwd)
table=$results/$verb.tsv
: >"$table"

# part NAME SECONDS COMMAND ...: runs it, its output in a log of its own, and notes how it went.
part() {
  local name=$1 seconds=$2 begin=$SECONDS left=$((limit - SECONDS)) status outcome
  shift 2
  local log=$results/$verb/$name.log
  if [ "$left" -lt 1 ]; then
    outcome='no time left'
    echo "not run" >"$log"
  else
    timeout -k 5 "$((seconds < left ? seconds : left))" "$@" >"$log" 2>&1 </dev/null
    status=$?
    case $status in
      0) outcome=passed ;;
      77) outcome=skipped ;;
      124 | 137) outcome='time limit' ;;
      *) outcome="failed ($status)" ;;
    esac
  fi
  # One line is less than what a pipe or a file takes at once, so parts that run together do not mix.
  printf '%s\t%s\t%s\t%s\n' "$name" "$outcome" "$((SECONDS - begin))" \
    "$(summary_of "$log" | tr '\t' ' ' | cut -c1-200)" >>"$table"
  case $outcome in
    passed | skipped) ;;
    *)
      echo "---- $name: $outcome; the end of $log:"
      tail -n 30 "$log"
      ;;
  esac
}

# The line of a log that says most.
summary_of() {
  grep -aE 'skipped: |answer: |assertions: |ERROR SUMMARY|error: |CMake Error' "$1" | tail -1 | sed 's/^\[doctest\] //' ||
    true
}

skip() { printf '%s\tskipped\t0\t%s\n' "$1" "$2" >>"$table"; }

# Where python3 has cuDNN and NCCL as packages, their libraries lack the names that linkers look for: links
# with those names, in a folder that CMake searches.
link_packaged_libraries() {
  local folder file
  mkdir -p "$packaged/lib" "$packaged/include"
  while read -r folder; do
    for file in "$folder"/{cudnn,nccl}/lib/lib*.so.*; do
      [ ! -e "$file" ] || ln -sf "$file" "$packaged/lib/$(basename "${file%.so.*}").so"
    done
    for file in "$folder"/{cudnn,nccl}/include/*.h; do
      [ ! -e "$file" ] || ln -sf "$file" "$packaged/include/"
    done
  done < <(python3 -c 'import nvidia; print(*nvidia.__path__, sep="\n")' 2>/dev/null)
}

configure() {
  local generator=()
  if command -v ninja >/dev/null; then
    generator=(-G Ninja)
  fi
  link_packaged_libraries
  part configure 120 cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DTANDEM_CUDA=ON -DTANDEM_TESTS=ON -DTANDEM_BENCH=ON \
    -DTANDEM_TESTS_FOR_GPU=ON "-DCMAKE_CUDA_ARCHITECTURES=$architectures" \
    "-DTANDEM_DOCTEST_DIR=${DOCTEST_DIR:-}" "-DCMAKE_PREFIX_PATH=$packaged"
}

run_build() {
  local target keep_going=(-k)
  if command -v ninja >/dev/null; then
    keep_going=(-k 0)
  fi
  configure
  for target in cuda_tests gpu_programs cuda_benches; do
    part "$target" "$limit" cmake --build "$build" --target "$target" -j "$jobs" -- "${keep_going[@]}"
  done
}

# programs LIST: the programs that CMake has written into a list in the build's folder, with its folder.
programs() {
  if [ -e "$build/$1" ]; then
    sed "s|^|$build/|" "$build/$1"
  else
    say "there is no $build/$1: run 'test/gpu/check.sh build' first"
  fi
}

# What `must` is the library's setting and has to pass; what `may` is without the mend, and not to end is an answer.
# At most 420 seconds behind the build.
run_first() {
  local queues wanted answers=$root/test/gpu/answers.sh
  configure
  part programs 260 cmake --build "$build" --target gpu_answers gpu_train_processes gpu_overlaps -j "$jobs"

  # The order among communicators. Fewer blocks than the library's four, or all that NCCL wants.
  for queues in 32 8 1; do
    wanted=must
    [ "$queues" != 1 ] || wanted=may
    part "order.$queues" 30 env CUDA_DEVICE_MAX_CONNECTIONS="$queues" "$answers" "$wanted" 25 "$build" order
  done
  part order.32.most_blocks 30 env CUDA_DEVICE_MAX_CONNECTIONS=32 NCCL_MIN_CTAS=32 NCCL_MAX_CTAS=32 \
    "$answers" may 25 "$build" order
  part order.32.one_block 30 env CUDA_DEVICE_MAX_CONNECTIONS=32 NCCL_MAX_CTAS=1 "$answers" may 25 "$build" order

  # Kernels that are loaded at their first launch, beside a receive that waits.
  part loading.eager 25 env CUDA_MODULE_LOADING=EAGER "$answers" must 20 "$build" loading
  part loading.lazy 25 env CUDA_MODULE_LOADING=LAZY "$answers" may 20 "$build" loading

  part destroy 40 "$answers" must 35 "$build" destroy
  part register 40 "$answers" may 35 "$build" register
  # Work of one step that overlaps: bits, and milliseconds a step with and without.
  local which
  for which in branches launches both; do
    part "overlaps.$which" 45 "$root/test/gpu/overlaps.sh" 20 "$build" "$which"
  done
  part together 150 "$root/test/gpu/together.sh" 20 "$build"
  sed -n 's/^answer: /answers: /p' "$results"/first/*.log
}

run_test() {
  local program
  for program in $(programs cuda_programs.txt); do
    part "$(basename "$program")" 240 "$program"
  done
  part two_processes 120 "$root/test/gpu/two_processes.sh" "$build"
  part train_processes 240 "$root/test/gpu/train_processes.sh" "$build"
}

run_sanitize() {
  local tool program name
  local -A options=([memcheck]='--report-api-errors no') # calls that fail on purpose
  # NVIDIA's libraries have races that they can live with, and the tool dies where it shall leave them out.
  local -A arguments=([racecheck.cuda_convolution]='-tc=im2col*')
  local -A left_out=([racecheck.cuda_matmul]="its kernels are cuBLASLt's")
  if ! command -v compute-sanitizer >/dev/null; then
    skip compute-sanitizer "compute-sanitizer is not installed"
    return
  fi
  for tool in memcheck racecheck initcheck; do
    for program in $(programs cuda_kernel_programs.txt); do
      while [ "$(jobs -rp | wc -l)" -ge 8 ]; do wait -n; done
      name=$tool.$(basename "$program")
      if [ -n "${left_out[$name]:-}" ]; then
        skip "$name" "${left_out[$name]}"
        continue
      fi
      # shellcheck disable=SC2086  # options are words
      part "$name" 300 compute-sanitizer --tool "$tool" --error-exitcode 9 ${options[$tool]:-} \
        "$program" ${arguments[$name]:-} &
    done
  done
  wait
}

run_bench() {
  local options
  read -ra options <<<"${BENCH_OPTIONS:-}"
  part run "$limit" python3 "$root/bench/cuda/run.py" "$build" "$results/bench/run" \
    --seconds "$((limit - 15))" "${options[@]}"
  cat "$results/bench/run.log"
}

"run_$verb"
python3 "$root/test/gpu/report.py" "$verb" "$results"
