// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MpiCommunicator: collectives and messages between ranks of several processes, whose bytes MPI
/// carries.
///
/// Sums are the library's own, in the order of comm/fixed_tree.hpp: MPI's order differs by the
/// number of ranks, by call and by a site's settings.

#include <cstddef>
#include <span>
#include <type_traits>

#include <tandem/comm/message.hpp>
#include <tandem/comm/mpi/group.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/share.hpp>
#include <tandem/comm/threads/call.hpp>
#include <tandem/comm/threads/communicator.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/runtime/host/queue.hpp>

namespace tandem {

/// One rank's end of a group; a small value, copies of it are the same end.
///
/// Models every concept of comm/concepts.hpp. A group whose ranks are all in this process is one of
/// threads. Errors come out of the stream, as those of ThreadsCommunicator; a rank that does not
/// come is named with its process and machine.
class MpiCommunicator {
 public:
  using Stream = host::Queue;

  /// Whether all_reduce() and reduce_scatter() join the ranks in the order of comm/fixed_tree.hpp.
  static constexpr bool ordered = true;

  /// out[i] = op over the ranks' in[i]; the label is for messages. See AllReduces.
  ///
  /// Order:  that of ThreadsCommunicator, however ranks are dealt to processes: the same bits.
  /// Cost:   with P processes sends and receives 2 (P - 1) / P * bytes(in) a process in 2 (P - 1)
  ///         messages, where each process's ranks are a subtree; allocates where it is larger than
  ///         all before it.
  /// @throws ContractError  the sizes of in and out differ, or they overlap in part
  template <class T, class Op>
    requires Reduction<Op, T>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                  Stream& stream, Label label = {}) {
    if (group_->is_local()) {
      group_->here(rank_).all_reduce(in, out, op, stream, label);
      return;
    }
    detail::check_all_reduce<T>(in, out);
    stream.post([group = group_, rank = rank_, op, first = in.data(), result = out.data(),
                 count = out.size(), label, queue = &stream] {
      group->template all_reduce<T>(
          rank,
          detail::collective<T, Op>(Operation::all_reduce, label, count, first, result, queue), op);
    });
  }

  /// This rank's part of op over the ranks' in; the label is for messages. See ReduceScatters.
  ///
  /// Order:  that of all_reduce(): the same bits.
  /// Cost:   half of its bytes, in a message for each rank of each other process.
  /// @throws ContractError  the sizes do not fit, or in and out overlap otherwise than they may
  template <class T, class Op>
    requires Reduction<Op, T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                      Stream& stream, Label label = {}) {
    if (group_->is_local()) {
      group_->here(rank_).reduce_scatter(in, out, op, stream, label);
      return;
    }
    detail::check_reduce_scatter<T>(rank_, size(), in, out);
    stream.post([group = group_, rank = rank_, op, first = in.data(), result = out.data(),
                 count = out.size(), label, queue = &stream] {
      group->template reduce_scatter<T>(
          rank,
          detail::collective<T, Op>(Operation::reduce_scatter, label, count, first, result, queue),
          op);
    });
  }

  /// Every rank's in, in the order of ranks; the label is for messages. See AllGathers.
  ///
  /// Cost:   a process receives what the ranks of others have, in a message a rank; no allocation.
  /// @throws ContractError  the sizes do not fit, or in and out overlap otherwise than they may
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label label = {}) {
    if (group_->is_local()) {
      group_->here(rank_).all_gather(in, out, stream, label);
      return;
    }
    detail::check_all_gather<T>(rank_, size(), in, out);
    stream.post([group = group_, rank = rank_, first = in.data(), result = out.data(),
                 count = in.size(), label, queue = &stream] {
      group->template all_gather<T>(rank, detail::collective<T, void>(Operation::all_gather, label,
                                                                      count, first, result, queue));
    });
  }

  /// data = root's data; the label is for messages. See Broadcasts.
  ///
  /// Cost:   down a binary tree of processes: log2(P) times bytes(data) until the last has it.
  /// @throws ContractError  @p root is not in [0, size())
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void broadcast(std::span<T> data, int root, Stream& stream, Label label = {}) {
    expects(root >= 0 && root < size(), "broadcast: the root must be a rank of the group");
    if (group_->is_local()) {
      group_->here(rank_).broadcast(data, group_->place(root), stream, label);
      return;
    }
    stream.post([group = group_, rank = rank_, root, first = data.data(), count = data.size(),
                 label, queue = &stream] {
      group->template broadcast<T>(
          rank, detail::collective<T, void>(Operation::broadcast, label, count, first, first, queue,
                                            root));
    });
  }

  /// A message to @p peer; the label is for messages of errors. See SendsAndReceives.
  ///
  /// Cost:   bytes(data). To another process it holds the stream up until MPI has sent it, which
  ///         of a large one is when the receiver has come.
  /// @throws ContractError  @p peer is no other rank
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void send(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    using Element = std::remove_const_t<T>;
    expects(is_peer(peer), "send: the peer must be another rank of the group");
    if (group_->has_here(peer)) {
      group_->here(rank_).send(data, group_->place(peer), stream, label);
      return;
    }
    post_message({.operation = Operation::send, .label = label, .count = data.size()}, peer,
                 const_cast<Element*>(data.data()), stream);
  }

  /// A message from @p peer; the label is for messages of errors. See SendsAndReceives.
  /// @throws ContractError  @p peer is no other rank; and out of the stream, the message has
  ///                        another size
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void receive(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    expects(is_peer(peer), "receive: the peer must be another rank of the group");
    if (group_->has_here(peer)) {
      group_->here(rank_).receive(data, group_->place(peer), stream, label);
      return;
    }
    post_message({.operation = Operation::receive, .label = label, .count = data.size()}, peer,
                 data.data(), stream);
  }

  /// Begins all of them, and waits for all. See Exchanges.
  /// @throws ContractError  a peer is no other rank
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void exchange(std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
                Stream& stream, Label label = {}) {
    for (bool const here : {true, false}) {  // sends within a process wait for nobody
      for (auto const& message : sends) {
        expects(is_peer(message.peer), "exchange: each peer must be another rank of the group");
        if (group_->has_here(message.peer) == here) {
          if (here) {
            send(message.data, message.peer, stream, label);
          } else {
            begin(Operation::send, message.peer, const_cast<T*>(message.data.data()),
                  message.data.size(), stream, label);
          }
        }
      }
    }
    for (auto const& message : receives) {
      expects(is_peer(message.peer), "exchange: each peer must be another rank of the group");
      if (!group_->has_here(message.peer)) {
        begin(Operation::receive, message.peer, message.data.data(), message.data.size(), stream,
              label);
      }
    }
    stream.post([group = group_, rank = rank_, label, queue = &stream] {
      group->finish(rank, {.operation = Operation::receive, .label = label, .queue = queue});
    });
    for (auto const& message : receives) {
      if (group_->has_here(message.peer)) {
        receive(message.data, message.peer, stream, label);
      }
    }
  }

  /// No rank's stream passes before every rank's stream has come; the label is for messages.
  void barrier(Stream& stream, Label label = {}) {
    if (group_->is_local()) {
      group_->here(rank_).barrier(stream, label);
      return;
    }
    stream.post([group = group_, rank = rank_, label, queue = &stream] {
      group->barrier(rank, {.operation = Operation::barrier, .label = label, .queue = queue});
    });
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return group_->size(); }

 private:
  template <int Ranks>
  friend class MpiTransport;

  MpiCommunicator(detail::MpiGroup& group, int rank) : group_{&group}, rank_{rank} {}

  [[nodiscard]] bool is_peer(int peer) const noexcept {
    return peer >= 0 && peer < size() && peer != rank_;
  }

  template <class T>
  void post_message(detail::Call const& call, int peer, T* data, Stream& stream) {
    begin(call.operation, peer, data, call.count, stream, call.label);
    stream.post([group = group_, rank = rank_, operation = call.operation, label = call.label,
                 queue = &stream] {
      group->finish(rank, {.operation = operation, .label = label, .queue = queue});
    });
  }

  template <class T>
  void begin(Operation operation, int peer, T* data, std::size_t count, Stream& stream,
             Label label) {
    stream.post(
        [group = group_, rank = rank_, peer, operation, data, bytes = count * sizeof(T), label] {
          group->begin(rank, peer, operation == Operation::send, data, bytes, label);
        });
  }

  detail::MpiGroup* group_;
  int rank_;
};

}  // namespace tandem
