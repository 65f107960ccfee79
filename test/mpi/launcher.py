# SPDX-License-Identifier: Apache-2.0
"""How programs are started as several processes on a machine with fewer cores, also as root."""

import os
import signal
import subprocess


def environment():
    env = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
               OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_btl="vader,self")
    return env


def command(mpirun, processes, words):
    """0 processes: one, without a launcher."""
    words = [str(word) for word in words]
    return [str(mpirun), "-n", str(processes)] + words if processes > 0 else words


def end(run, patience=10):
    """Of a Popen that hangs: a launcher ends its processes if it is asked to."""
    run.send_signal(signal.SIGTERM)
    try:
        return run.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        run.kill()
        return run.communicate()
