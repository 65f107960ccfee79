// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TileMessage: what the op of an exchange of pixels has for another rank, and wants of it. Such an
/// op has begin_forward(operands, pass), which writes what is sent, finish_forward, which reads
/// what has come, and the same of input_gradient; in between the engine sends its messages().

#include <cstdint>

namespace tandem {

/// Either may be of no elements; both ends agree.
template <class T>
struct TileMessage {
  int peer = 0;  ///< the number of its tile
  T const* out = nullptr;
  std::int64_t sent = 0;  ///< elements
  T* in = nullptr;
  std::int64_t received = 0;
};

}  // namespace tandem
