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

#include <tandem/comm/message.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/runtime/host/queue.hpp>

namespace tandem {

/// How bytes are copied in the order of a stream: `queue(stream, from, to, bytes)`. Specialised for
/// each backend's Stream; comm/cuda/copy.hpp has that of CUDA.
template <class Stream>
struct StreamCopy;

template <>
struct StreamCopy<host::Queue> {
  TANDEM_ONCE static void queue(host::Queue& stream, void const* from, void* to, std::size_t bytes);
};

/// The only rank of a group of one. Models every concept of comm/concepts.hpp.
template <class StreamType>
class BasicSelfCommunicator {
 public:
  using Stream = StreamType;
  static constexpr bool ordered = true;

  /// Nothing in place; else a copy of @p in to @p out, on @p stream.
  /// @throws ContractError  the sizes differ
  template <class T, class Op>
    requires Reduction<Op, T>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op /*op*/,
                  Stream& stream, Label /*label*/ = {}) {
    expects(in.size() == out.size(),
            "all_reduce: in and out must have the same number of elements");
    copy(in, out, stream);
  }

  /// As all_reduce(): this rank's part is the whole.
  /// @throws ContractError  the sizes differ
  template <class T, class Op>
    requires Reduction<Op, T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op /*op*/,
                      Stream& stream, Label /*label*/ = {}) {
    expects(in.size() == out.size(),
            "reduce_scatter: in must have as many elements as the ranks' outs together");
    copy(in, out, stream);
  }

  /// As all_reduce(): this rank's part is the whole.
  /// @throws ContractError  the sizes differ
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label /*label*/ = {}) {
    expects(in.size() == out.size(),
            "all_gather: out must have as many elements as the ranks' ins together");
    copy(in, out, stream);
  }

  /// @throws ContractError  @p root is not 0
  template <class T>
  void broadcast(std::span<T> /*data*/, int root, Stream& /*stream*/, Label /*label*/ = {}) {
    expects(root == 0, "broadcast: the root must be a rank of the group, which has rank 0 only");
  }

  /// @throws ContractError  always: there is no other rank
  template <class T>
  void send(std::span<T> /*data*/, int /*peer*/, Stream& /*stream*/, Label /*label*/ = {}) {
    expects(false, "send: the peer must be another rank, and this group has rank 0 only");
  }

  /// @throws ContractError  always: there is no other rank
  template <class T>
  void receive(std::span<T> /*data*/, int /*peer*/, Stream& /*stream*/, Label /*label*/ = {}) {
    expects(false, "receive: the peer must be another rank, and this group has rank 0 only");
  }

  /// @throws ContractError  there are messages: there is no other rank
  template <class T>
  void exchange(std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
                Stream& /*stream*/, Label /*label*/ = {}) {
    expects(sends.empty() && receives.empty(),
            "exchange: the peers must be other ranks, and this group has rank 0 only");
  }

  void barrier(Stream& /*stream*/, Label /*label*/ = {}) {}

  [[nodiscard]] int rank() const noexcept { return 0; }
  [[nodiscard]] int size() const noexcept { return 1; }

 private:
  template <class T>
  static void copy(std::span<T const> in, std::span<T> out, Stream& stream) {
    if (in.data() != out.data() && !in.empty()) {
      StreamCopy<Stream>::queue(stream, in.data(), out.data(), out.size_bytes());
    }
  }
};

/// The group of one on the host.
using SelfCommunicator = BasicSelfCommunicator<host::Queue>;

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void StreamCopy<host::Queue>::queue(host::Queue& stream, void const* from, void* to,
                                                std::size_t bytes) {
  stream.post([from, to, bytes] { std::memcpy(to, from, bytes); });
}

}  // namespace tandem

#endif
