// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ThreadsCommunicator: collectives and messages between ranks that are threads of one process.
///
/// Every rank works on its share of the elements of all ranks' buffers, in place and without copies
/// through a third buffer; sums have the order of comm/fixed_tree.hpp, whoever comes first.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <tandem/comm/fixed_tree.hpp>
#include <tandem/comm/message.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/share.hpp>
#include <tandem/comm/threads/call.hpp>
#include <tandem/comm/threads/group.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/runtime/host/queue.hpp>

namespace tandem {

/// One rank's end of a ThreadsGroup; a small value, copies of it are the same end.
///
/// Models every concept of comm/concepts.hpp. Each rank needs a stream of its own, used by one
/// thread. A collective's errors come out of that stream's wait() or synchronize(): AbortedError
/// when the group was aborted, TimeoutError when a rank did not come, and ContractError, on every
/// rank and leaving the group usable, when the ranks' calls do not match.
class ThreadsCommunicator {
 public:
  using Stream = host::Queue;

  /// Messages of a pair of ranks and a direction that may be sent before the receiver comes.
  static constexpr int messages_in_flight = 1;

  /// Whether all_reduce() and reduce_scatter() join the ranks in the order of comm/fixed_tree.hpp.
  static constexpr bool ordered = true;

  /// out[i] = op over the ranks' in[i]; the label is for messages. See AllReduces.
  ///
  /// Order:  a tree fixed by rank, see reduce_in_tree(); all ranks get the same bits in every run.
  /// Cost:   reads and writes 2 (n - 1) / n * bytes(in) of the other ranks' memory; no allocation.
  /// @throws ContractError  the sizes of in and out differ, or they overlap in part
  template <class T, class Op>
    requires Reduction<Op, T>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                  Stream& stream, Label label = {}) {
    detail::check_all_reduce<T>(in, out);
    stream.post([group = group_, rank = rank_, op, first = in.data(), result = out.data(),
                 count = out.size(), label, queue = &stream] {
      group->meet(rank, detail::collective<T, Op>(Operation::all_reduce, label, count, first,
                                                  result, queue));
      reduce_share<T>(*group, rank, count, op);
      group->leave(rank);
    });
  }

  /// This rank's part of op over the ranks' in; the label is for messages. See ReduceScatters.
  ///
  /// Order:  that of all_reduce(): the same bits.
  /// Cost:   reads (n - 1) / n * bytes(in) of the other ranks' memory; no allocation.
  /// @throws ContractError  the sizes do not fit, or in and out overlap otherwise than they may
  template <class T, class Op>
    requires Reduction<Op, T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                      Stream& stream, Label label = {}) {
    detail::check_reduce_scatter<T>(rank_, size(), in, out);
    stream.post([group = group_, rank = rank_, op, first = in.data(), result = out.data(),
                 count = out.size(), label, queue = &stream] {
      group->meet(rank, detail::collective<T, Op>(Operation::reduce_scatter, label, count, first,
                                                  result, queue));
      std::array<T const*, max_tree_ranks> inputs;
      auto const ranks = static_cast<std::size_t>(group->size());
      std::size_t const begin = static_cast<std::size_t>(rank) * count;
      for (std::size_t r = 0; count > 0 && r < ranks; ++r) {
        inputs[r] = static_cast<T const*>(group->call_of(static_cast<int>(r)).in) + begin;
      }
      reduce_in_tree(std::span<T const* const>{inputs.data(), ranks}, 0, count,
                     std::span<T* const>{&result, 1}, op);
      group->leave(rank);
    });
  }

  /// Every rank's in, in the order of ranks; the label is for messages. See AllGathers.
  ///
  /// Cost:   every rank copies (n - 1) / n * bytes(out) of the others' memory; no allocation.
  /// @throws ContractError  the sizes do not fit, or in and out overlap otherwise than they may
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label label = {}) {
    detail::check_all_gather<T>(rank_, size(), in, out);
    stream.post([group = group_, rank = rank_, first = in.data(), result = out.data(),
                 count = in.size(), label, queue = &stream] {
      group->meet(rank, detail::collective<T, void>(Operation::all_gather, label, count, first,
                                                    result, queue));
      for (int r = 0; count > 0 && r < group->size(); ++r) {
        void const* const from = group->call_of(r).in;
        T* const to = result + static_cast<std::size_t>(r) * count;
        if (from != to) {
          std::memcpy(to, from, count * sizeof(T));
        }
      }
      group->leave(rank);
    });
  }

  /// data = root's data; the label is for messages. See Broadcasts.
  ///
  /// Cost:   every rank but the root copies bytes(data); no allocation.
  /// @throws ContractError  @p root is not in [0, size())
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void broadcast(std::span<T> data, int root, Stream& stream, Label label = {}) {
    expects(root >= 0 && root < size(), "broadcast: the root must be a rank of the group");
    stream.post([group = group_, rank = rank_, root, first = data.data(), count = data.size(),
                 label, queue = &stream] {
      group->meet(rank, detail::collective<T, void>(Operation::broadcast, label, count, first,
                                                    first, queue, root));
      if (rank != root && count > 0) {
        std::memcpy(first, group->call_of(root).in, count * sizeof(T));
      }
      group->leave(rank);
    });
  }

  /// A message to @p peer; the label is for messages of errors. See SendsAndReceives.
  ///
  /// Cost:   copies bytes(data) once; allocates where the message is larger than all of its pair
  ///         and direction before it. Waits while the one before it has not been received.
  /// @throws ContractError  @p peer is no other rank
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void send(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    send({data.data(), nullptr, data.size(), sizeof(T)},
         &detail::type_mark<std::remove_const_t<T>, void>, peer, stream, label);
  }

  /// A message from @p peer; the label is for messages of errors. See SendsAndReceives.
  ///
  /// Cost:   copies bytes(data) once. A message that does not fit is a ContractError out of the
  ///         stream, and is lost.
  /// @throws ContractError  @p peer is no other rank
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void receive(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    receive({nullptr, data.data(), data.size(), sizeof(T)}, &detail::type_mark<T, void>, peer,
            stream, label);
  }

  /// The sends, which wait for nobody if earlier messages have been received, then the receives.
  /// See Exchanges.
  /// @throws ContractError  a peer is no other rank
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void exchange(std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
                Stream& stream, Label label = {}) {
    for (auto const& message : sends) {
      send(message.data, message.peer, stream, label);
    }
    for (auto const& message : receives) {
      receive(message.data, message.peer, stream, label);
    }
  }

  /// No rank's stream passes before every rank's stream has come; the label is for messages.
  TANDEM_ONCE void barrier(Stream& stream, Label label = {});

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return group_->size(); }

 private:
  friend class ThreadsGroup;

  ThreadsCommunicator(ThreadsGroup& group, int rank) : group_{&group}, rank_{rank} {}

  [[nodiscard]] bool is_peer(int peer) const noexcept {
    return peer >= 0 && peer < size() && peer != rank_;
  }

  // Elements of a message.
  struct Elements {
    void const* from;  // where it is sent
    void* to;          // where it comes
    std::size_t count;
    std::size_t each;  // bytes
  };
  TANDEM_ONCE void send(Elements const& data, void const* type, int peer, Stream& stream,
                        Label label);
  TANDEM_ONCE void receive(Elements const& data, void const* type, int peer, Stream& stream,
                           Label label);

  template <class T, class Op>
  static void reduce_share(ThreadsGroup const& group, int rank, std::size_t count, Op op) {
    std::array<T const*, max_tree_ranks> inputs;
    std::array<T*, max_tree_ranks> outputs;
    auto const ranks = static_cast<std::size_t>(group.size());
    for (std::size_t r = 0; r < ranks; ++r) {
      detail::Call const& call = group.call_of(static_cast<int>(r));
      inputs[r] = static_cast<T const*>(call.in);
      outputs[r] = static_cast<T*>(call.out);
    }
    auto const [begin, end] = detail::share_of(rank, group.size(), count, sizeof(T));
    reduce_in_tree(std::span<T const* const>{inputs.data(), ranks}, begin, end,
                   std::span<T* const>{outputs.data(), ranks}, op);
  }

  ThreadsGroup* group_;
  int rank_;
};

inline ThreadsCommunicator ThreadsGroup::communicator(int rank) {
  expects(rank >= 0 && rank < ranks_, "ThreadsGroup::communicator: no such rank in this group");
  return {*this, rank};
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void ThreadsCommunicator::send(Elements const& data, void const* type, int peer,
                                           Stream& stream, Label label) {
  expects(is_peer(peer), "send: the peer must be another rank of the group");
  stream.post([group = group_, memory = data.from, count = data.count, type, queue = &stream, label,
               each = static_cast<std::uint16_t>(data.each),
               rank = static_cast<std::uint8_t>(rank_), other = static_cast<std::uint8_t>(peer)] {
    group->send(rank, other,
                {.operation = Operation::send,
                 .label = label,
                 .type = type,
                 .count = count,
                 .queue = queue},
                [bytes = count * each, memory](detail::MailBox& box) {
                  std::byte* const to = box.room(bytes);
                  if (bytes > 0) {
                    std::memcpy(to, memory, bytes);
                  }
                });
  });
}

TANDEM_ONCE void ThreadsCommunicator::receive(Elements const& data, void const* type, int peer,
                                              Stream& stream, Label label) {
  expects(is_peer(peer), "receive: the peer must be another rank of the group");
  stream.post([group = group_, memory = data.to, count = data.count, type, queue = &stream, label,
               each = static_cast<std::uint16_t>(data.each),
               rank = static_cast<std::uint8_t>(rank_), other = static_cast<std::uint8_t>(peer)] {
    group->receive(rank, other,
                   {.operation = Operation::receive,
                    .label = label,
                    .type = type,
                    .count = count,
                    .queue = queue},
                   [bytes = count * each, memory](detail::MailBox& box) {
                     if (bytes > 0) {
                       std::memcpy(memory, box.bytes.get(), bytes);
                     }
                   });
  });
}

TANDEM_ONCE void ThreadsCommunicator::barrier(Stream& stream, Label label) {
  stream.post([group = group_, rank = rank_, label, queue = &stream] {
    group->meet(rank, {.operation = Operation::barrier, .label = label, .queue = queue});
    group->leave(rank);
  });
}

}  // namespace tandem

#endif
