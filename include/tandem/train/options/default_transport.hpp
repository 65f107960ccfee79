// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DefaultTransport: how the ranks of a backend talk to each other where the user names nothing.

#include <tandem/comm/threads/transport.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// Threads of this process, for devices that share the host's memory. GPUs have theirs in
/// train/options/cuda/.
template <class Backend>
struct DefaultTransport {
  template <int Ranks>
  using type = ThreadsTransport<Ranks>;
};

/// Whether a backend is all there.
template <class Backend>
struct BackendIsIncluded {
  static constexpr bool value = true;
  static_assert(
      requires { sizeof(typename Backend::Device); },
      "Trainer<Net, Strategy, Cuda>: include <tandem/cuda.cuh> and compile this file "
      "with nvcc");
};

#if !defined(TANDEM_ONEDNN)
template <class Precision>
struct BackendIsIncluded<BasicHost<OneDnn, Precision>> {
  static constexpr bool value = true;
  static_assert(sizeof(Precision) == 0,
                "BasicHost<OneDnn>: compile with -DTANDEM_ONEDNN=1 and link dnnl, or take "
                "BasicHost<Portable>");
};
#endif

}  // namespace tandem
