# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs programs: the flavours (backend, sanitizer), one precompiled header each, and what came out."""
import collections
import os
import pathlib
import re
import shutil
import shlex
import subprocess
import sys
import tempfile
import threading

import program as programs
import strategies

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "test" / "mpi"))
import launcher  # noqa: E402
FOLDER = "test/fuzz/strategies"
OF_ONEDNN = ("onednn", "bf16")
PROCESSES = (2, 3, 4)


class Builder:
    """One scratch folder. Thread-safe."""

    def __init__(self, scratch, include=None, compiler=None, kernels=None, emulator=None, cuda="/usr/local/cuda",
                 mpi=None):
        """
        @param kernels   a folder with the optimised kernels of an earlier run, where its headers were the same
        @param emulator  its library, for the backend "emulated"
        @param cuda      the toolkit, of which headers are needed
        @param mpi       (what compiles, what starts) programs of several processes; found where it is not given
        """
        self.scratch = pathlib.Path(scratch)
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.include = pathlib.Path(include or ROOT / "include")
        self.compiler = compiler or shutil.which("clang++") or shutil.which("g++")
        self.kernels = pathlib.Path(kernels) if kernels else self.scratch
        self.emulator, self.cuda = emulator, cuda
        self.mpicxx, self.mpirun = mpi or (shutil.which("mpicxx"), shutil.which("mpirun") or shutil.which("mpiexec"))
        self.of_mpi = None
        self.locks, self.lock, self.made = {}, threading.Lock(), set()

    def has_onednn(self):
        test = "#include <oneapi/dnnl/dnnl.h>\nint main() { return dnnl_version() == nullptr; }\n"
        source = self.scratch / "onednn.cpp"
        source.write_text(test)
        done = subprocess.run([self.compiler, source, "-fopenmp", "-ldnnl", "-o", self.scratch / "onednn"],
                              capture_output=True, check=False)
        return done.returncode == 0

    def has(self, backend):
        """Whether there is what a backend computes with."""
        cpu = pathlib.Path("/proc/cpuinfo")
        has_bf16 = cpu.exists() and "avx512bw" in cpu.read_text()  # oneDNN emulates its products
        return backend not in OF_ONEDNN or (self.has_onednn() and (backend == "onednn" or has_bf16))

    def has_mpi(self):
        return bool(self.mpicxx and self.mpirun)

    def mpi_words(self, start):
        """Of what the wrapper of MPI's compiler adds, those that begin so; no MPI but its C functions is called."""
        if self.of_mpi is None:
            said = subprocess.run([self.mpicxx, "-show"], capture_output=True, text=True, check=True).stdout
            self.of_mpi = [word for word in shlex.split(said)[1:] if "cxx" not in word]
        return [word for word in self.of_mpi if word.startswith(start)]

    def flags(self, backend, sanitize, processes=False):
        flags = ["-std=c++20", "-O0", f"-I{self.include}", f"-I{ROOT}/test", f"-I{ROOT}/test/support"]
        if backend == "emulated":  # its headers before the library's, which they replace in part
            folder = f"{ROOT}/test/emulator"
            flags = flags[:2] + ["-fno-strict-aliasing", "-include", f"{folder}/emulator.hpp", f"-I{folder}/include",
                                 *flags[2:], "-isystem", f"{self.cuda}/include", "-isystem",
                                 f"{self.cuda}/include/cccl"]
        flags += ["-pthread"] + (["-DTANDEM_ONEDNN=1", "-fopenmp"] if backend in OF_ONEDNN else [])
        if processes:
            flags += ["-DTANDEM_FUZZ_MPI", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", *self.mpi_words("-I")]
        return flags + ([f"-fsanitize={sanitize}", "-fno-sanitize-recover=all", "-g1"] if sanitize else [])

    def prepared(self, backend, sanitize, processes=False):
        """Flags that bring the optimised kernels and, with clang, the precompiled header."""
        if backend == "emulated":
            return []
        kind = ("onednn" if backend in OF_ONEDNN else "plain") + (f"-{sanitize.split(',')[0]}" if sanitize else "")
        kind += "-mpi" if processes else ""
        header, kernels = self.scratch / f"{kind}.pch", self.kernels / f"{kind}.o"
        flags = [*self.flags(backend, sanitize, processes), "-DTANDEM_FUZZ_KERNELS"]
        precompiles = "clang" in pathlib.Path(self.compiler).name
        with self.lock:
            lock = self.locks.setdefault(kind, threading.Lock())
        with lock:
            if kind not in self.made:  # one of an earlier run may be of other headers
                if precompiles:
                    subprocess.run([self.compiler, *flags, "-fpch-instantiate-templates", "-x", "c++-header",
                                    ROOT / FOLDER / "pairs.hpp", "-o", header], check=True)
                if self.kernels == self.scratch or not kernels.exists():
                    subprocess.run([self.compiler, *flags, "-UTANDEM_FUZZ_KERNELS", "-O2", "-c",
                                    ROOT / FOLDER / "kernels.cpp", "-o", kernels], check=True)
                self.made.add(kind)
        return ["-DTANDEM_FUZZ_KERNELS"] + (["-include-pch", str(header)] if precompiles else []) + [str(kernels)]

    def compile(self, text, backend, sanitize, name, processes=False):
        """(path, "") or (None, what the compiler says)."""
        source, binary = self.scratch / f"{name}.cpp", self.scratch / name
        source.write_text(text)
        compiler = shutil.which("g++") if backend == "emulated" else self.compiler
        libraries = ["-ldnnl"] if backend in OF_ONEDNN else [str(self.emulator)] if backend == "emulated" else []
        libraries += self.mpi_words(("-L", "-l", "-Wl")) if processes else []
        command = [compiler, *self.flags(backend, sanitize, processes), str(source),
                   *self.prepared(backend, sanitize, processes), "-o", str(binary), *libraries]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (binary, "") if done.returncode == 0 else (None, done.stderr)

    def run(self, binary, only=None, limit=90, processes=0):
        """(exit status, output); fresh memory is filled with large numbers, not zeros. What hangs has status -1.

        @param limit      seconds without a word, fewer than a pair's Watchdog has, which shows no stacks. There is none
                          of the whole: a program whose cores others take may need a hundred times as long as alone
        @param processes  0: without a launcher
        """
        with tempfile.TemporaryDirectory(dir=self.scratch) as own:  # what it saves is no other run's
            environment = {**(launcher.environment() if processes else os.environ), "MALLOC_PERTURB_": "128",
                           "OMP_WAIT_POLICY": "passive", "TMPDIR": own, "TSAN_OPTIONS": "halt_on_error=1",
                           "CUDA_DEVICE_MAX_CONNECTIONS": "32",
                           "ASAN_OPTIONS": "max_malloc_fill_size=1000000000"}
            command = launcher.command(self.mpirun, processes, [binary] + ([only] if only is not None else []))
            output = pathlib.Path(own) / "output"
            with output.open("wb") as file:
                run = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
            status = wait_while_it_speaks(run, output, limit)
            end = ""
            if status is None:
                end = "\nhangs" + ("" if processes else stacks_of(run.pid))
                launcher.end(run)
            return -1 if status is None else status, output.read_text(errors="replace") + end

    @staticmethod
    def command(backend, name, processes=False):
        """What a reader types, from the root of the repository, in lines of a comment."""
        if processes:
            return ["  mpicxx -std=c++20 -O0 -DTANDEM_FUZZ_MPI -Iinclude -Itest -Itest/support",
                    f"    test/fuzz/strategies/cases/{name}.cpp -o {name} -pthread",
                    f"  ./{name}; mpirun -n 2 ./{name}; mpirun -n 4 ./{name}    # where the bits differ"]
        extra = " -DTANDEM_ONEDNN=1 -fopenmp" if backend in OF_ONEDNN else ""
        library = " -ldnnl" if backend in OF_ONEDNN else ""
        return [f"  g++ -std=c++20 -O0 -Iinclude -Itest -Itest/support{extra}",
                f"    test/fuzz/strategies/cases/{name}.cpp -o {name} -pthread{library}"]


def wait_while_it_speaks(run, output, limit):
    """The exit status of a process, or None once its output has not grown for so many seconds. These are counted in
    short waits, so that a machine that stood still meanwhile does not look like a process that does."""
    quiet = said = 0
    while quiet < 100:
        try:
            return run.wait(limit / 100)
        except subprocess.TimeoutExpired:
            size = output.stat().st_size
            quiet, said = (0, size) if size > said else (quiet + 1, said)
    return None


def stacks_of(process):
    """Where each thread of a process that hangs is, or that gdb is not installed."""
    if shutil.which("gdb") is None:
        return " (with gdb installed, where each thread waits stands here)"
    command = ["gdb", "-p", str(process), "-batch", "-nx", "-ex", "thread apply all backtrace 30"]
    return "\n" + subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300, check=False).stdout


class Result:
    """Of one program: pairs that agreed, that were refused, for each that failed its number and why, and of each
    process that says so a pair's number and its bits."""

    def __init__(self, status, output):
        last = re.search(r"^agreed (\d+) refused (\d+) failed (\d+)$", output, re.M)
        self.agreed, self.refused = (int(last[1]), int(last[2])) if last else (0, 0)
        self.failures = [(int(n), why) for n, why in re.findall(r"^FAILED (\d+): (.*)$", output, re.M)]
        self.bits = [(int(n), bits) for n, bits in re.findall(r"^bits (\d+) (\w+)$", output, re.M)]
        if last is None:  # it ended in the middle of a pair
            begun = re.findall(r"^pair (\d+):", output, re.M)
            self.agreed = max(len(begun) - 1 - len(self.failures), 0)
            most = 3000 if status != -1 else 100_000  # the stacks of what hangs are many lines
            said = output[output.rfind("\npair ") + 1:][:most]
            self.failures.append((int(begun[-1]) if begun else 0, f"ended with {status}: {said}"))
        elif status != 0 and not self.failures:
            self.failures.append((0, f"ended with {status} behind its last pair: {output[last.end():][:3000]}"))


def over_processes(builder, binary, counts, only=None):
    """Runs a program as one process, then as so many: a Result of pairs whose bits were always the same."""
    result = Result(*builder.run(binary, only))
    bits_of_one = dict(result.bits)
    compared = set()
    for count in counts:
        if result.failures:
            break
        own = Result(*builder.run(binary, only, processes=count))
        where = f"as {count} processes: "
        result.failures += [(number, where + why) for number, why in own.failures]
        found = collections.defaultdict(list)
        for number, bits in own.bits:
            found[number].append(bits)
        for number, bits in found.items():
            if len(bits) != count or set(bits) != {bits_of_one.get(number)}:
                said = f"bits are {', '.join(bits)}, but {bits_of_one.get(number)} as one process"
                result.failures.append((number, where + said))
            compared.add(number)
    result.agreed = len(compared)
    return result


def counts_of(program):
    """Of how many processes its strategies can run as."""
    return [count for count in PROCESSES if any(strategies.ranks_of(s) % count == 0 for s in program["strategies"])]


def attempt(builder, program, name, sanitize="", only=None):
    """Compiles and runs a program; a Result. `sanitize` is what -fsanitize= takes, or ""."""
    processes = bool(program.get("processes"))
    binary, errors = builder.compile(programs.to_cpp(program), program["backend"], sanitize, name, processes)
    if binary is None:
        sentences = re.findall(r"error: (.*)", errors)
        if any("would wait for each other forever" in sentence for sentence in sentences):
            result = Result(0, "agreed 0 refused 0 failed 0\n")
            result.refused = len(program["pairs"])
            return result
        result = Result(0, "agreed 0 refused 0 failed 0\n")
        result.failures.append((0, "does not compile: " + "; ".join(sentences)[:1500]))
        return result
    result = over_processes(builder, binary, counts_of(program), only) if processes else Result(*builder.run(binary, only))
    binary.unlink()
    return result
