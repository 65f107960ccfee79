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

}  // namespace tandem
