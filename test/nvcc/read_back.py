#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads back what nvcc made of a step's kernels.

    read_back.py NVCC HOST_COMPILER INCLUDE_FOLDER SOURCE.cu ARCHITECTURE ... [--nvdisasm PROGRAM]

Each kernel has no stack and no spills, and the registers that its __launch_bounds__ leaves it; those that take packs of
eight numbers read 16 bytes at once, and those that write bf16 round with one instruction for two numbers or one; from
sm_90 on each waits for the kernel before it, which is looked for in PTX. The two before that are looked for in SASS where nvdisasm is found (on PATH, or of PyPI's nvidia-cuda-nvdisasm in build/python), else
in PTX, and it says which. First it sees that a kernel with a stack, one with spills and one without wide loads are
caught, and one that does not wait. Prints a line for each fault and exits 1 if there is any.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Kernels of packs of eight, and what they must have; the text is looked for in the demangled name.
WIDE = re.compile(r"\b(map_kernel|column_map_kernel|column_sums_kernel|max_pool_kernel|max_pool_gradient_kernel|"
                  r"global_avg_pool_kernel|global_avg_pool_gradient_kernel)<8, (?!.*FillBody)|"
                  r"\b(row_norm_kernel|row_norm_input_gradient_kernel)<\S+ ?\S*, \d+, 8, |"
                  r"\bcolumn_moments_kernel<tandem::BFloat16, 8|\bcast_many_kernel<|\bembedding_kernel<\d+, 8|"
                  r"\bembedding_gradient_kernel<8|\bembedding_rows_kernel<8|\bsum_rows_kernel<4|"
                  r"\bupdate_rows_kernel<4")
ROUNDS = re.compile(r"\bcolumn_map_kernel<8, \S*(AddBias|BatchNorm)|SumBody<tandem::BFloat16>|\brow_norm_kernel<|"
                    r"\brow_norm_input_gradient_kernel<|\bglobal_avg_pool_(gradient_)?kernel<8|"
                    r"\bsoftmax_cross_entropy_gradient_kernel<|\bvocabulary_rows_kernel<|\bdropout_kernel<|"
                    r"\bvocabulary_part_gradients_kernel<|"
                    r"\battention_softmax_(gradient_)?kernel<|\badditive_softmax_kernel<|\bapply_update_kernel<|\bupdate_rows_kernel<|"
                    r"\beach_kernel<tandem::cuda::(?!TakeUp<|GatherKeys<)\w+<tandem::BFloat16>")
REGISTERS = 65536  # of a multiprocessor

BAD = r"""
extern "C" __global__ void has_stack(float* x, int const* at) {
  float own[64];
  for (int i = 0; i < 64; ++i) { own[i] = x[i]; }
  for (int i = 0; i < 64; ++i) { own[at[i]] += own[at[i + 64]]; }
  for (int i = 0; i < 64; ++i) { x[i] = own[i]; }
}
extern "C" __global__ void __launch_bounds__(1024, 2) has_spills(float* x) {
  float own[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) { own[i] = x[i * 1024 + threadIdx.x]; }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i) { x[((i * 37) % 96) * 1024 + threadIdx.x] = own[i] * own[(i * 7) % 96]; }
}
template <int N, class Body> __global__ void map_kernel(long n, Body* x) { x[threadIdx.x] += Body(n); }
template __global__ void map_kernel<8, float>(long, float*);
"""


class Kernel:
    def __init__(self, name):
        self.name = name
        self.stack = self.spilled = self.registers = 0
        self.threads = self.blocks = 0
        self.wide = self.rounds = self.waits = 0


def demangled(names):
    filter_ = shutil.which("c++filt") or shutil.which("cu++filt")
    if not filter_:
        sys.exit("read_back: c++filt is not installed")
    return subprocess.run([filter_], input="\n".join(names), text=True, capture_output=True, check=True).stdout.splitlines()


def find_nvdisasm(given):
    if given or shutil.which("nvdisasm"):
        return given or shutil.which("nvdisasm")
    root = pathlib.Path(__file__).resolve().parents[2]
    found = sorted(root.glob("build/python/lib/python*/site-packages/nvidia/*/bin/nvdisasm"))
    return str(found[0]) if found else None


def compiled(options, source, architecture, folder, nvdisasm):
    """The kernels of a file, by their mangled names."""
    command = [options.nvcc, "-std=c++20", "-ccbin", options.host, f"-I{options.include}", "-cubin", f"-arch={architecture}",
               "-Xptxas", "-v", "--keep", "--keep-dir", folder, str(source), "-o", f"{folder}/out.cubin"]
    run = subprocess.run(command, text=True, capture_output=True, check=False)
    if run.returncode != 0:
        sys.exit(f"read_back: nvcc failed on {source}:\n{run.stderr}")
    kernels = {}
    own = None
    for line in (run.stdout + run.stderr).splitlines():
        if match := re.search(r"Compiling entry function '(\S+)'", line):
            own = kernels.setdefault(match[1], Kernel(match[1]))
        elif own and (match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)):
            own.stack = int(match[1])
            own.spilled = int(match[2]) + int(match[3])
        elif own and (match := re.search(r"Used (\d+) registers", line)):
            own.registers = int(match[1])
    if not kernels:
        sys.exit("read_back: ptxas has named no kernel; is its -v written in another way?")
    read_ptx(pathlib.Path(folder, f"{pathlib.Path(source).stem}.ptx").read_text(), kernels, nvdisasm is None)
    if nvdisasm:
        run = subprocess.run([nvdisasm, f"{folder}/out.cubin"], text=True, capture_output=True, check=True)
        read_sass(run.stdout, kernels)
    for kernel, name in zip(kernels.values(), demangled(kernels)):
        kernel.name = name
    return kernels.values()


def read_ptx(text, kernels, instructions):
    own = None
    for line in text.splitlines():
        if match := re.search(r"\.entry (\w+)", line):
            own = kernels.get(match[1])
        elif own is None:
            continue
        elif match := re.search(r"\.(maxntid|minnctapersm) (\d+)", line):
            setattr(own, "threads" if match[1] == "maxntid" else "blocks", int(match[2]))
        elif "griddepcontrol.wait" in line:
            own.waits += 1
        elif instructions:
            own.wide += bool(re.search(r"ld\.global\S*\.v(4\.\w32|2\.\w64)", line))
            own.rounds += bool(re.search(r"cvt\.rn\.bf16", line))


def read_sass(text, kernels):
    own = None
    for line in text.splitlines():
        if match := re.match(r"\s*\.section\s+\.text\.([^,\s]+)", line):
            own = kernels.get(match[1])
        elif own:
            own.wide += bool(re.search(r"\bLDG\.E\S*\.128", line))
            own.rounds += "F2FP" in line


def faults_of(kernels, architecture):
    for kernel in kernels:
        own = not re.match(r"(void )?cub::", kernel.name)  # CUB launches its own as it likes
        if own and int(re.search(r"\d+", architecture)[0]) >= 90 and not kernel.waits:
            yield f"{kernel.name}: may begin before the kernel before it has ended, and does not wait for it"
        if kernel.stack or kernel.spilled:
            yield f"{kernel.name}: {kernel.stack} bytes of stack, {kernel.spilled} bytes spilled"
        threads = (kernel.threads or 256) * (kernel.blocks or 1)
        if kernel.registers * threads > REGISTERS:
            yield (f"{kernel.name}: {kernel.registers} registers leave no room for {kernel.blocks or 1} blocks of "
                   f"{kernel.threads or 256} threads")
        if WIDE.search(kernel.name) and not kernel.wide:
            yield f"{kernel.name}: reads nothing 16 bytes at once"
        if ROUNDS.search(kernel.name) and not kernel.rounds:
            yield f"{kernel.name}: rounds to bf16 without the instruction for it"


def see_faults_caught(options, nvdisasm):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "bad.cu")
        source.write_text(BAD)
        faults = list(faults_of(compiled(options, source, options.architectures[-1], folder, nvdisasm), options.architectures[-1]))
    caught = [("has_stack", "bytes of stack"), ("has_spills", "bytes spilled"), ("map_kernel<8, float>", "16 bytes")]
    if int(re.search(r"\d+", options.architectures[-1])[0]) >= 90:
        caught.append(("has_stack", "does not wait"))
    for name, what in caught:
        if not any(name in fault and what in fault and f" 0 {what}" not in fault for fault in faults):
            sys.exit(f"read_back: {name} is not caught; found are:\n" + "\n".join(faults))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("nvcc", "host", "include", "source"):
        parser.add_argument(name)
    parser.add_argument("architectures", nargs="+")
    parser.add_argument("--nvdisasm")
    options = parser.parse_args()
    nvdisasm = find_nvdisasm(options.nvdisasm)
    see_faults_caught(options, nvdisasm)
    faults = []
    for architecture in options.architectures:
        with tempfile.TemporaryDirectory() as folder:
            kernels = list(compiled(options, options.source, architecture, folder, nvdisasm))
        own = [f"{architecture}: {fault}" for fault in faults_of(kernels, architecture)]
        wide = sum(bool(WIDE.search(k.name)) for k in kernels)
        rounds = sum(bool(ROUNDS.search(k.name)) for k in kernels)
        if wide < 15 or rounds < 10:
            own.append(f"{architecture}: only {wide} kernels of packs and {rounds} that round; were they renamed?")
        print(f"{architecture}: {len(kernels)} kernels, at most {max(k.registers for k in kernels)} registers; {wide} of packs, "
              f"{rounds} that round to bf16, {sum(bool(k.waits) for k in kernels)} that wait, read in {'SASS' if nvdisasm else 'PTX, since nvdisasm is not found'}")
        faults += own
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
