#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lets one of four processes fail in any way, as often as is asked for, and looks at what is left:
#   test/cluster/run.sh [CASES [OPTION ...]]     500 by default; options of test/cluster/rig.py
# As root it also cuts connections, fills disks and sets clocks ahead.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

require g++ python3 libopenmpi-dev openmpi-bin
mkdir -p build/cluster
mpicxx -DOMPI_SKIP_MPICXX -std=c++20 -O1 -I include test/cluster/program.cpp -o build/cluster/program
exec python3 test/cluster/rig.py mpirun build/cluster/program --cases "${1:-500}" "${@:2}"
