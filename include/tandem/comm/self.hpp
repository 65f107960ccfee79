// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SelfCommunicator: a group of one, so that a program for many ranks also runs on one.
///
/// Its collectives exchange nothing. Where input and output are the same buffer, as the engine has
/// them, nothing is queued either.

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/runtime/host/queue.hpp>

namespace tandem {

/// The only rank of a group of one, on the host. Models AllReduces, Broadcasts and Barriers.
class SelfCommunicator {
 public:
  using Stream = host::Queue;

  /// Nothing in place; else a copy of @p in to @p out, on @p stream.
  /// @throws ContractError  the sizes differ
  template <class T, class Op>
    requires Reduction<Op, T>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op /*op*/,
                  Stream& stream, Label /*label*/ = {}) {
    expects(in.size() == out.size(),
            "all_reduce: in and out must have the same number of elements");
    if (in.data() != out.data() && !in.empty()) {
      stream.post([from = in.data(), to = out.data(), bytes = out.size_bytes()] {
        std::memcpy(to, from, bytes);
      });
    }
  }

  /// @throws ContractError  @p root is not 0
  template <class T>
  void broadcast(std::span<T> /*data*/, int root, Stream& /*stream*/, Label /*label*/ = {}) {
    expects(root == 0, "broadcast: the root must be a rank of the group, which has rank 0 only");
  }

  void barrier(Stream& /*stream*/, Label /*label*/ = {}) {}

  [[nodiscard]] int rank() const noexcept { return 0; }
  [[nodiscard]] int size() const noexcept { return 1; }
};

}  // namespace tandem
