// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DefaultTransport: how the ranks of a backend talk to each other where the user names nothing.

#include <tandem/comm/threads/transport.hpp>

namespace tandem {

/// Threads of this process, for devices that share the host's memory. GPUs have theirs in
/// train/options/cuda/.
template <class Backend>
struct DefaultTransport {
  template <int Ranks>
  using type = ThreadsTransport<Ranks>;
};

namespace detail {

template <class Backend>
struct ComputesOn {
  using type = Backend;
};
template <class Backend>
  requires requires { typename Backend::Computes; }
struct ComputesOn<Backend> {
  using type = typename Backend::Computes;
};

/// What computes, where the user names a backend together with what connects it: a type that has
/// `Computes`, and a DefaultTransport.
template <class Backend>
using ComputingBackend = typename ComputesOn<Backend>::type;

}  // namespace detail

}  // namespace tandem
