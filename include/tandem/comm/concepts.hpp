// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a communicator can do: one small concept an operation, composed by those who need several.
///
/// A collective is queued on a stream and returns; its errors come out of that stream. All ranks of
/// a group must queue the same collectives in the same order, each rank on one stream of its own.
/// The last argument of each is a Label, by which messages and records name the call; it need not
/// agree on all ranks, and a communicator that has no use for it leaves it unread.

#include <concepts>
#include <span>

#include <tandem/comm/message.hpp>
#include <tandem/comm/operation.hpp>

namespace tandem {

/// One rank's end of a group of ranks. rank() is in [0, size()); size() is the same on every rank.
template <class C>
concept RankGroup = requires(C const& comm) {
  typename C::Stream;
  { comm.rank() }
  noexcept->std::same_as<int>;
  { comm.size() }
  noexcept->std::same_as<int>;
};

/// all_reduce(in, out, op, stream, label): out[i] becomes op over all the ranks' in[i], on every
/// rank.
///
/// in:     its size agrees on all ranks, its values need not; read by all ranks, so that it must
///         not change until the stream has passed the call.
/// out:    its size agrees on all ranks; written by the communicator until then.
/// op:     agrees on all ranks.
/// stream: this rank's own; a place on it is where the buffers change hands, before and after.
/// Cost:   at least 2 (n - 1) / n * bytes(in), sent and received by each of n ranks.
/// @pre    in.size() == out.size(); in and out are equal or do not overlap
template <class C, class T, class Op>
concept AllReduces = RankGroup<C> && requires(C& comm, std::span<T const> in, std::span<T> out,
                                              Op op, typename C::Stream& stream, Label label) {
  { comm.all_reduce(in, out, op, stream, label) } -> std::same_as<void>;
};

/// broadcast(data, root, stream, label): data becomes root's data on every rank.
///
/// data:   its size agrees on all ranks; until the stream has passed the call it is read on the
///         root, where it must not change, and written elsewhere.
/// root:   agrees on all ranks.
/// stream: this rank's own.
/// Cost:   bytes(data) received by each rank but the root.
/// @pre    root is in [0, size())
template <class C, class T>
concept Broadcasts = RankGroup<C> &&
    requires(C& comm, std::span<T> data, int root, typename C::Stream& stream, Label label) {
  { comm.broadcast(data, root, stream, label) } -> std::same_as<void>;
};

/// reduce_scatter(in, out, op, stream, label): out[i] becomes op over all the ranks' in[k n + i],
/// where k is this rank and n = out.size(): rank k keeps the k-th of size() equal parts of the
/// result.
///
/// in:     its size agrees on all ranks; read by all ranks until the stream has passed the call.
/// out:    its size agrees on all ranks; written by the communicator until then.
/// op:     agrees on all ranks.
/// stream: this rank's own.
/// Cost:   at least (n - 1) / n * bytes(in), sent and received by each of n ranks.
/// @pre    in.size() == size() * out.size(); out is this rank's part of in or overlaps none of it
template <class C, class T, class Op>
concept ReduceScatters = RankGroup<C> && requires(C& comm, std::span<T const> in, std::span<T> out,
                                                  Op op, typename C::Stream& stream, Label label) {
  { comm.reduce_scatter(in, out, op, stream, label) } -> std::same_as<void>;
};

/// all_gather(in, out, stream, label): out[k n + i] becomes rank k's in[i], for every rank k, where
/// n = in.size().
///
/// in:     its size agrees on all ranks; read by all ranks until the stream has passed the call.
/// out:    its size agrees on all ranks; written by the communicator until then.
/// stream: this rank's own.
/// Cost:   at least (n - 1) / n * bytes(out), sent and received by each of n ranks.
/// @pre    out.size() == size() * in.size(); in is this rank's part of out or overlaps none of it
template <class C, class T>
concept AllGathers = RankGroup<C> && requires(C& comm, std::span<T const> in, std::span<T> out,
                                              typename C::Stream& stream, Label label) {
  { comm.all_gather(in, out, stream, label) } -> std::same_as<void>;
};

/// send(data, peer, stream, label) on one rank and receive(data, peer, stream, label) on the other:
/// the receiver's data becomes the sender's. The messages from one rank to another arrive in the
/// order in which they were sent; every send has one receive.
///
/// data:   its size agrees on both ranks; until the stream has passed the call it is read on the
///         sender, where it must not change, and written on the receiver.
/// peer:   the other rank.
/// stream: this rank's own. A send may hold it up until the receiver comes. A communicator that
///         says `messages_in_flight` = n lets n messages of a pair and direction pass before that.
/// Cost:   bytes(data), sent and received.
/// @pre    peer is in [0, size()) and is not this rank
template <class C, class T>
concept SendsAndReceives = RankGroup<C> &&
    requires(C& comm, std::span<T const> in, std::span<T> out, int peer, typename C::Stream& stream,
             Label label) {
  { comm.send(in, peer, stream, label) } -> std::same_as<void>;
  { comm.receive(out, peer, stream, label) } -> std::same_as<void>;
};

/// exchange(sends, receives, stream, label): all these messages at once, so that ranks may send to
/// each other without thinking of an order. Each end of a message may be in an exchange or alone.
///
/// sends, receives: need not agree; their buffers are as in send() and receive(). The two lists
///                  themselves are read before the call returns.
/// @pre    at most one message to and one from each other rank
template <class C, class T>
concept Exchanges = RankGroup<C> &&
    requires(C& comm, std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
             typename C::Stream& stream, Label label) {
  { comm.exchange(sends, receives, stream, label) } -> std::same_as<void>;
};

/// barrier(stream, label): no rank's stream passes the call before every rank's stream has reached
/// it. The caller goes on; to hold it back too, wait for the stream.
///
/// stream: this rank's own.
template <class C>
concept Barriers = RankGroup<C> && requires(C& comm, typename C::Stream& stream, Label label) {
  { comm.barrier(stream, label) } -> std::same_as<void>;
};

/// Whether a communicator's calls can be recorded: not if the host takes part in them.
template <class C>
inline constexpr bool is_capturable = [] {
  if constexpr (requires { C::capturable; }) {
    return bool{C::capturable};
  } else {
    return false;
  }
}();

/// Whether that may be done where several ranks of one process do it at a time.
template <class C>
inline constexpr bool is_capturable_beside_others = [] {
  if constexpr (requires { C::capturable_beside_others; }) {
    return bool{C::capturable_beside_others};
  } else {
    return is_capturable<C>;
  }
}();

}  // namespace tandem
