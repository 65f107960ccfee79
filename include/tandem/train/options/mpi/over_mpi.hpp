// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OverMpi: a backend whose ranks may live in several processes, which MPI connects.

#include <tandem/comm/mpi/transport.hpp>
#include <tandem/runtime/host/host.hpp>
#include <tandem/train/options/default_transport.hpp>
#include <tandem/train/options/devices_there.hpp>

namespace tandem {

/// Trainer<Net, DataParallel<4>, OverMpi<Host>> trainer{{.world = mpi_world()}};
///
/// Computes as Backend does, to the same bits; started by `mpirun -n 4` each process has one rank,
/// by `mpirun -n 2` two, and without a launcher all are threads.
template <class Backend>
struct OverMpi {
  using Computes = Backend;
  static_assert(sizeof(Backend) == 0,
                "OverMpi<Backend>: MPI carries what CPUs compute; take OverMpi<Host>, or Cuda "
                "with NCCL");
};
template <class Kernels, class Precision>
struct OverMpi<BasicHost<Kernels, Precision>> {
  using Computes = BasicHost<Kernels, Precision>;
};

template <class Backend>
struct DefaultTransport<OverMpi<Backend>> {
  template <int Ranks>
  using type = MpiTransport<Ranks>;
};

template <class Backend>
struct DevicesThere<OverMpi<Backend>> : DevicesThere<Backend> {};

}  // namespace tandem
