// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NcclCommunicator: collectives and messages between GPUs, by NCCL, of one or many processes.
///
/// Everything is queued on the stream argument and can be captured into a CUDA graph, once
/// warm_up() has made NCCL's connections.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include <nccl.h>

#include <tandem/comm/message.hpp>
#include <tandem/comm/nccl/group.hpp>
#include <tandem/comm/nccl/slot.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem {

namespace detail {

template <class T>
struct NcclType {};
template <>
struct NcclType<float> : std::integral_constant<ncclDataType_t, ncclFloat32> {};
template <>
struct NcclType<double> : std::integral_constant<ncclDataType_t, ncclFloat64> {};
template <>
struct NcclType<BFloat16> : std::integral_constant<ncclDataType_t, ncclBfloat16> {};
template <>
struct NcclType<Float16> : std::integral_constant<ncclDataType_t, ncclFloat16> {};
template <>
struct NcclType<std::int32_t> : std::integral_constant<ncclDataType_t, ncclInt32> {};

template <class Op>
struct NcclOp {};
template <>
struct NcclOp<Sum> : std::integral_constant<ncclRedOp_t, ncclSum> {};
template <>
struct NcclOp<Max> : std::integral_constant<ncclRedOp_t, ncclMax> {};

}  // namespace detail

/// An element type that NCCL reduces and moves: float, double, BFloat16, Float16,
/// std::int32_t.
template <class T>
concept NcclElement = requires {
  detail::NcclType<T>::value;
};

/// A reduction that NCCL has: Sum, Max. NCCL does not say in which order it adds.
template <class Op>
concept NcclReduction = requires {
  detail::NcclOp<Op>::value;
};

/// One rank's end of an NcclGroup, or of one of its groups of ranks; a small value, copies of it
/// are the same end. Models every concept of comm/concepts.hpp. Buffers are device memory of the
/// rank's GPU.
///
/// A call returns when NCCL has queued its work, which may need the other ranks' calls where a
/// connection is made. It throws AbortedError when the group was aborted, TimeoutError when NCCL
/// could not queue it in time, NcclError when NCCL refuses it. What fails on the device later comes
/// out of NcclGroup::poll(). Calls that do not match on all ranks are not found out: they hang,
/// until the time-out.
class NcclCommunicator {
 public:
  using Stream = cuda::Stream;

  /// Whether calls may be recorded into a graph.
  static constexpr bool capturable = true;
  /// NCCL's user guide, "Using NCCL with CUDA Graphs", warns of several GPUs in one process.
  static constexpr bool capturable_beside_others = false;

  /// NCCL does not say in which order it adds; all_reduce_ordered() does (comm/cuda/ordered.cuh).
  static constexpr bool ordered = false;

  /// out[i] = op over the ranks' in[i], in an order that NCCL chooses. See AllReduces.
  /// @throws ContractError  the sizes differ
  template <NcclElement T, NcclReduction Op>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op /*op*/,
                  Stream& stream, Label label = {}) {
    expects(in.size() == out.size(),
            "all_reduce: in and out must have the same number of elements");
    if (in.empty()) {
      return;
    }
    group_->queue(*slot_, {Operation::all_reduce, label}, [&](ncclComm_t comm) {
      return ncclAllReduce(in.data(), out.data(), in.size(), type<T>, op<Op>, comm, stream.get());
    });
  }

  /// This rank's part of the sum. See ReduceScatters.
  /// @throws ContractError  in does not have size() times as many elements as out
  template <NcclElement T, NcclReduction Op>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op /*op*/,
                      Stream& stream, Label label = {}) {
    expects(in.size() == out.size() * ranks(),
            "reduce_scatter: in must have as many elements as the ranks' outs together");
    if (in.empty()) {
      return;
    }
    group_->queue(*slot_, {Operation::reduce_scatter, label}, [&](ncclComm_t comm) {
      return ncclReduceScatter(in.data(), out.data(), out.size(), type<T>, op<Op>, comm,
                               stream.get());
    });
  }

  /// Every rank's part, in the order of ranks. See AllGathers.
  /// @throws ContractError  out does not have size() times as many elements as in
  template <NcclElement T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label label = {}) {
    expects(out.size() == in.size() * ranks(),
            "all_gather: out must have as many elements as the ranks' ins together");
    if (in.empty()) {
      return;
    }
    group_->queue(*slot_, {Operation::all_gather, label}, [&](ncclComm_t comm) {
      return ncclAllGather(in.data(), out.data(), in.size(), type<T>, comm, stream.get());
    });
  }

  /// data = root's data. See Broadcasts.
  /// @throws ContractError  @p root is not in [0, size())
  template <NcclElement T>
  void broadcast(std::span<T> data, int root, Stream& stream, Label label = {}) {
    expects(root >= 0 && root < size(), "broadcast: the root must be a rank of the group");
    if (data.empty()) {
      return;
    }
    group_->queue(*slot_, {Operation::broadcast, label}, [&](ncclComm_t comm) {
      return ncclBroadcast(data.data(), data.data(), data.size(), type<T>, root, comm,
                           stream.get());
    });
  }

  /// See SendsAndReceives. The stream passes when the receiver's has come.
  /// @throws ContractError  @p peer is no other rank
  template <NcclElement T>
  void send(std::span<T const> data, int peer, Stream& stream, Label label = {}) {
    expects(is_peer(peer), "send: the peer must be another rank of the group");
    if (data.empty()) {
      return;
    }
    group_->queue(*slot_, {Operation::send, label}, [&](ncclComm_t comm) {
      return ncclSend(data.data(), data.size(), type<T>, peer, comm, stream.get());
    });
  }
  template <NcclElement T>
  void send(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    send(std::span<T const>{data}, peer, stream, label);
  }

  /// See SendsAndReceives.
  /// @throws ContractError  @p peer is no other rank
  template <NcclElement T>
  void receive(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    expects(is_peer(peer), "receive: the peer must be another rank of the group");
    if (data.empty()) {
      return;
    }
    group_->queue(*slot_, {Operation::receive, label}, [&](ncclComm_t comm) {
      return ncclRecv(data.data(), data.size(), type<T>, peer, comm, stream.get());
    });
  }

  /// All these messages in one group call of NCCL. See Exchanges.
  /// @throws ContractError  a peer is no other rank
  template <NcclElement T>
  void exchange(std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
                Stream& stream, Label label = {}) {
    for (auto const& message : sends) {
      expects(is_peer(message.peer), "exchange: a peer must be another rank of the group");
    }
    for (auto const& message : receives) {
      expects(is_peer(message.peer), "exchange: a peer must be another rank of the group");
    }
    if (sends.empty() && receives.empty()) {
      return;
    }
    group_->queue(*slot_, {Operation::send, label}, [&](ncclComm_t comm) {
      ncclResult_t status = ncclGroupStart();
      auto const queue = [&status](ncclResult_t next) {
        if (status == ncclSuccess || status == ncclInProgress) {
          status = next;
        }
      };
      for (auto const& message : sends) {
        if (!message.data.empty()) {
          queue(ncclSend(message.data.data(), message.data.size(), type<T>, message.peer, comm,
                         stream.get()));
        }
      }
      for (auto const& message : receives) {
        if (!message.data.empty()) {
          queue(ncclRecv(message.data.data(), message.data.size(), type<T>, message.peer, comm,
                         stream.get()));
        }
      }
      ncclResult_t const end = ncclGroupEnd();  // also after an error, which it returns too
      queue(end);
      return status;
    });
  }

  /// No rank's stream passes before every rank's stream has come: an all-reduce of one number.
  void barrier(Stream& stream, Label label = {}) {
    group_->queue(*slot_, {Operation::barrier, label}, [&](ncclComm_t comm) {
      std::int32_t* const word = slot_->word_data();
      return ncclAllReduce(word, word, 1, ncclInt32, ncclSum, comm, stream.get());
    });
  }

  /// Queues a tiny operation of each of these kinds, so that NCCL makes its connections now and not
  /// inside a capture. All ranks call it, with the same kinds; returns when all is queued.
  /// @param kinds  `send` and `receive` are one: messages between all pairs of ranks
  void warm_up(Stream& stream, std::initializer_list<Operation> kinds = {Operation::all_reduce});

  [[nodiscard]] int rank() const noexcept { return slot_->position; }
  [[nodiscard]] int size() const noexcept { return slot_->size; }

 private:
  friend class NcclGroup;

  template <class T>
  static constexpr ncclDataType_t type = detail::NcclType<T>::value;
  template <class Op>
  static constexpr ncclRedOp_t op = detail::NcclOp<Op>::value;

  NcclCommunicator(NcclGroup& group, detail::NcclSlot& slot) : group_{&group}, slot_{&slot} {}

  [[nodiscard]] std::size_t ranks() const noexcept { return static_cast<std::size_t>(size()); }
  [[nodiscard]] bool is_peer(int peer) const noexcept {
    return peer >= 0 && peer < size() && peer != rank();
  }

  NcclGroup* group_;
  detail::NcclSlot* slot_;
};

inline void NcclCommunicator::warm_up(Stream& stream, std::initializer_list<Operation> kinds) {
  Label const label{"warming up"};
  auto const n = ranks();
  std::span<std::int32_t> const words{slot_->word_data(), slot_->words};
  std::span<std::int32_t> const one = words.subspan(0, 1);
  bool messages = false;
  for (Operation const kind : kinds) {
    switch (kind) {
      case Operation::barrier:
      case Operation::all_reduce:
        all_reduce(one, one, Sum{}, stream, label);
        break;
      case Operation::broadcast:
        broadcast(one, 0, stream, label);
        break;
      case Operation::reduce_scatter:
        reduce_scatter(words.subspan(0, n), words.subspan(n, 1), Sum{}, stream, label);
        break;
      case Operation::all_gather:
        all_gather(one, words.subspan(n, n), stream, label);
        break;
      case Operation::send:
      case Operation::receive:
        messages = true;
        break;
    }
  }
  if (messages) {
    std::vector<Outgoing<std::int32_t>> sends;
    std::vector<Incoming<std::int32_t>> receives;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) {
        sends.push_back({one, peer});
        receives.push_back({words.subspan(n + static_cast<std::size_t>(peer), 1), peer});
      }
    }
    exchange<std::int32_t>(sends, receives, stream, label);
  }
}

inline NcclCommunicator NcclGroup::communicator(int rank) {
  expects(rank >= first_ && rank < first_ + local_,
          "NcclGroup::communicator: the rank does not live in this process");
  return {*this, slots_.of_rank(rank)};
}

inline NcclCommunicator NcclGroup::communicator(int rank, int group) {
  static_cast<void>(detail::member_of(options_.groups, rank, group));
  detail::NcclSlot* const slot = slots_.find(rank, group);
  expects(slot != nullptr, "NcclGroup::communicator: the rank does not live in this process");
  return {*this, *slot};
}

}  // namespace tandem
