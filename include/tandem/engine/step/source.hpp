// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The source of a network on two inputs: what of it depends on the first alone. Where the second
/// comes row by row, this is computed once.

#include <tandem/graph/graph.hpp>

namespace tandem {

/// Whether @p Program's network, that of a device or the whole one, reads two inputs.
template <class Program>
constexpr bool reads_two() {
  if constexpr (requires { Program::Program::network; }) {
    return Program::Program::network.node[1].kind == NodeKind::input;
  } else if constexpr (requires { Program::network; }) {
    return Program::network.node[1].kind == NodeKind::input;
  } else {
    return false;  // a test's own
  }
}

/// Whether a node of a network on two inputs depends on the first alone: it has that one's time. A
/// node that reads rows of both has the time of the one that asks.
constexpr bool has_source_time(Node const& node) {
  return node.out.timed && node.out.clock == 0 && node.in.clock == 0;
}

}  // namespace tandem
