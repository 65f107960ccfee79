// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Outgoing and Incoming: the messages of an exchange(), each between two ranks.

#include <span>

namespace tandem {

/// What a rank sends to the rank @p peer.
template <class T>
struct Outgoing {
  std::span<T const> data{};
  int peer = 0;
};

/// Where a rank puts what the rank @p peer sends to it.
template <class T>
struct Incoming {
  std::span<T> data{};
  int peer = 0;
};

}  // namespace tandem
